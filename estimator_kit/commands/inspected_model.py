"""What `--mode=inspect` says about a model: its parts, the memory that training takes, and advice.

    lines = describe(model, "dnn", statistics_beside("specs/ads.yaml"))

Advice follows from the parts of a model, its spec and its statistics. Each rule is a function, and
says nothing if the numbers give no reason.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import os
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Optional

from estimator_kit.commands.model_parts import Parts, parts_of
from estimator_kit.embeddings import table_memory
from estimator_kit.errors import ConfigError
from estimator_kit.model.model_fn import ModelFn
from feature_specs.kinds import Embedding, HashBucket
from feature_specs.spec import FeatureSpec
from feature_specs.statistics import FeatureStatistics, Statistics, StatisticsError, load
from input_pipelines.prepare.analyze.columns import STATISTICS_FILE

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
        embeddings_of_spec = self.spec.of_kind(Embedding)
        return {
            name: embeddings_of_spec[name] for name in self.columns if name in embeddings_of_spec
        }

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
        statistics = facts.of_feature(column.source)
        words = statistics.cardinality.value if statistics is not None else 0
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
        if a.table is not None or b.table is not None or a.dimension != b.dimension:
            continue
        if a.source == b.source or not a.trainable or not b.trainable:
            continue
        reason = _same_ids(facts, a.source, b.source)
        if reason is not None:
            yield (
                f"columns.{one} and columns.{other}: {a.source} and {b.source} have {reason}. If a "
                "word means the same in both, name a table in embedding_tables, and give both "
                "embeddings `table: <name>`."
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


def _top_words(statistics: Optional[FeatureStatistics]) -> frozenset[str]:
    if statistics is None or statistics.words is None:
        return frozenset()
    return frozenset(word for word, _ in statistics.words.top)


_HEADER = ("parameters", "bytes", "with slots", "FLOPs a row", "part")


def describe(model: ModelFn, name: str, statistics: Optional[Statistics]) -> list[str]:
    """The lines about a model.

    Args:
      model: the model.
      name: its name, as in --model.
      statistics: of the training data, or None if they are not known.
    """
    parts = parts_of(model)
    sentences = advice(model.spec, model.groups(), parts, statistics)
    lines = [f"model {name}, by part", *_table(parts), *_memory(parts)]
    if statistics is None:
        sentences.append(
            f"The folder of the spec has no {STATISTICS_FILE}, so the sizes of hash buckets were "
            "not compared with the words. Write it with --mode=analyze."
        )
    return [*lines, "advice", *(f"  {sentence}" for sentence in sentences or ["none"])]


def statistics_beside(spec: str) -> Optional[Statistics]:
    """The statistics in the folder of a spec, or None if it has none.

    Raises:
      ConfigError: the file cannot be read.
    """
    path = os.path.join(os.path.dirname(spec), STATISTICS_FILE)
    if not os.path.exists(path):
        return None
    try:
        return load(pathlib.Path(path))
    except StatisticsError as error:
        raise ConfigError(str(error)) from error


def _table(parts: Parts) -> list[str]:
    lines = [_row(*_HEADER)]
    for part in parts.parts:
        numbers = (part.parameters, part.bytes, part.bytes + part.slot_bytes, part.operations)
        lines.append(_row(*(f"{number:,}" for number in numbers), part.name))
    total = [
        sum(part.parameters for part in parts.parts),
        sum(part.bytes for part in parts.parts),
        sum(part.bytes + part.slot_bytes for part in parts.parts),
        sum(part.operations for part in parts.parts),
    ]
    lines.append(_row(*(f"{number:,}" for number in total), "together"))
    lines.append("  FLOPs count matrix products; a multiplication and an addition count as two.")
    if parts.varies:
        lines.append("  Sizes that differ between rows, such as the steps of a list, count as 1.")
    if parts.growing:
        lines.append("  Tables that grow are not counted.")
    return lines


def _row(*cells: str) -> str:
    parameters, size, with_slots, operations, name = cells
    return f"  {parameters:>14}  {size:>16}  {with_slots:>16}  {operations:>14}  {name}"


def _memory(parts: Parts) -> list[str]:
    weights = sum(part.bytes for part in parts.parts)
    slots = sum(part.slot_bytes for part in parts.parts)
    memory = table_memory.machine_memory()
    here = f" of {_mib(memory)} on this machine" if memory is not None else ""
    lines = [
        f"training keeps {_mib(weights + slots)}{here}: {_mib(weights)} of weights, and "
        f"{_mib(slots)} that the optimizer adds. Gradients and batches come on top."
    ]
    if memory is not None and weights + slots > memory:
        lines.append(
            "  This is more than the machine has. Lower the dimension of an embedding or the size "
            "of its column, or train on several machines with --strategy=parameter_server."
        )
    return lines


def _mib(size: int) -> str:
    return f"{size / 2**20:,.1f} MiB"
