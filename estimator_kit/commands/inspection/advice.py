"""Advice that follows from the parts of a model and from its spec. Each rule is a function.

    for sentence in advice(spec, groups, parts): ...

A rule reads numbers and says nothing if they give no reason.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Optional

from estimator_kit.commands.inspection.parts import Parts
from feature_specs.kinds import Embedding, HashBucket
from feature_specs.spec import FeatureSpec
from feature_specs.statistics import FeatureStatistics, Statistics

# A table with fewer numbers takes well under a millisecond of a step.
LARGE_TABLE = 1_000_000
# More ids for each word than this hardly avoid collisions; a twentieth of the words has one then.
_ENOUGH_IDS, _TOO_MANY_IDS = 20, 50
# The share of frequent words that two features must have in common.
_SAME_WORDS = 0.9

_FLOAT32 = 4
_MIB = 2**20


@dataclasses.dataclass(frozen=True)
class _Facts:
    """What the rules read; `columns` are in groups that the model reads."""

    spec: FeatureSpec
    columns: Sequence[str]
    parts: Parts
    statistics: Optional[Statistics]

    def embeddings(self) -> dict[str, Embedding]:
        found = self.spec.of_kind(Embedding)
        return {name: found[name] for name in self.columns if name in found}

    def of_feature(self, name: str) -> Optional[FeatureStatistics]:
        return self.statistics.features.get(name) if self.statistics is not None else None


def advice(
    spec: FeatureSpec, groups: Sequence[str], parts: Parts, statistics: Optional[Statistics]
) -> list[str]:
    """All sentences.

    Args:
      spec: the feature spec.
      groups: the groups that the model reads.
      parts: of the model.
      statistics: of the training data, or None if they are not known.
    """
    columns = dict.fromkeys(name for group in groups for name in spec.groups.get(group, ()))
    facts = _Facts(spec, tuple(columns), parts, statistics)
    rules = (_whole_tables, _many_ids, _float64, _tables_to_share)
    return [sentence for rule in rules for sentence in rule(facts)]


def _whole_tables(facts: _Facts) -> Iterator[str]:
    """An optimizer that writes all rows of a large table in each step."""
    for table in facts.parts.tables:
        if not table.written or table.rows * table.width < LARGE_TABLE:
            continue
        slots = [name for name in table.written if name != table.name]
        names = [name.rpartition("/")[2] for name in slots or table.written]
        averaged = all(name.startswith("ExponentialMovingAverage") for name in names)
        remedy = (
            "Leave out the parameter moving_average."
            if averaged
            else "Use optimizer=lazy_adam or adagrad, which write only the rows of the batch."
        )
        yield (
            f"{table.name}: each training step writes all {table.rows:,} rows, in "
            f"{', '.join(sorted(set(names)))}. {remedy}"
        )


def _many_ids(facts: _Facts) -> Iterator[str]:
    """Hash buckets with many more ids than there are words."""
    for name, column in facts.spec.of_kind(HashBucket).items():
        known = facts.of_feature(column.source)
        words = known.cardinality.value if known is not None else 0
        readers = [e for e in facts.embeddings().values() if e.source == name]
        used = name in facts.columns or readers
        if not used or not words or column.size <= _TOO_MANY_IDS * words:
            continue
        enough = _ENOUGH_IDS * words
        width = sum(reader.dimension for reader in readers) + (name in facts.columns)
        saved = (column.size - enough) * width * _FLOAT32
        yield (
            f"columns.{name}: {column.size:,} ids for {words:,} words of {column.source!r} in "
            f"statistics.json. With size: {enough}, about 1 word in {_ENOUGH_IDS} shares its id, "
            f"and the tables are {math.ceil(saved / _MIB):,} MiB smaller."
        )


def _float64(facts: _Facts) -> Iterator[str]:
    if facts.parts.float64:
        yield (
            f"{', '.join(facts.parts.float64)}: float64 takes twice the memory and time of "
            "float32, which is enough for training. Cast the inputs with tf.cast(x, tf.float32)."
        )


def _tables_to_share(facts: _Facts) -> Iterator[str]:
    """Pairs of embeddings whose ids mean the same."""
    for (one, a), (other, b) in itertools.combinations(facts.embeddings().items(), 2):
        if a.shared is not None or b.shared is not None or a.dimension != b.dimension:
            continue
        if a.source == b.source or not a.trainable or not b.trainable:
            continue
        reason = _same_ids(facts, a.source, b.source)
        if reason is not None:
            yield (
                f"columns.{one} and columns.{other}: {a.source} and {b.source} have {reason}. If a "
                "word means the same in both, give both embeddings `shared: <name>`, so that they "
                "use one table."
            )


def _same_ids(facts: _Facts, one: str, other: str) -> Optional[str]:
    """Why the ids of two categorical columns mean the same, or None."""
    spec = facts.spec
    a, b = spec.columns[one], spec.columns[other]
    if a.ids_meaning(spec) != b.ids_meaning(spec):
        return None
    if a.named_rows:
        return "the same vocabulary"
    hashed: Mapping[str, Any] = spec.of_kind(HashBucket)
    if one not in hashed or other not in hashed:
        return None
    words = [_top_words(facts.of_feature(hashed[name].source)) for name in (one, other)]
    if not all(words):
        return None
    common = len(words[0] & words[1]) / max(len(words[0]), len(words[1]))
    if common < _SAME_WORDS:
        return None
    return f"the same size, and {common:.0%} of their frequent words in common"


def _top_words(known: Optional[FeatureStatistics]) -> frozenset[str]:
    if known is None or known.words is None:
        return frozenset()
    return frozenset(word for word, _ in known.words.top)
