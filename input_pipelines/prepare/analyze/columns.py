"""Chooses columns for a feature from its statistics: the rules of a first spec, with reasons.

Rules, in this order (`size` below is the number of ids of the column):

  1. A feature without any value, or with a name that a spec does not allow: left out.
  2. A feature that the user ignores, from which a model cannot learn (`useless`), or that gives a
     label away (`leaks`): ignored. A feature that the user names is used.
  3. Dates and times (`times`): the parts of the time.
  4. Numbers (`value_kinds` decides): numeric. Skewed numbers without negative values get log1p, all
     other numbers zscore. For the wide group, a second column cuts a single number into 10
     quantiles. If more than half of the values are equal, that value gets a bucket, and the rest is
     cut into quantiles.
  5. Categories: a vocabulary when the counts are exact and the frequent words cover half of all
     values; otherwise a hash bucket.
  6. Both, for scales of few integers: the category for the wide group, the number for the deep one.

By these rules, a feature list of SequenceExamples is a list. It also gets columns of steps, for
models that read steps in order. A feature list of numbers only gets columns of steps.

For the deep group, up to 16 categories become an indicator, and more become an embedding. This
module only reads statistics and writes nothing.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any, Optional

from feature_specs.entry import NAME_PATTERN
from feature_specs.errors import counted
from feature_specs.kinds.time import SIZES
from feature_specs.statistics import FeatureStatistics, Numbers
from input_pipelines.prepare.analyze import (
    missing_numbers,
    number_shapes,
    times,
    useless,
    vocabularies,
)
from input_pipelines.prepare.analyze.numbers import with_commas
from input_pipelines.prepare.analyze.useless import different
from input_pipelines.prepare.analyze.value_kinds import Kind
from input_pipelines.prepare.analyze.vocabularies import VocabularyWords

STATISTICS_FILE = "statistics.json"
VOCABULARY_FOLDER = "vocabularies"

_LARGEST_INDICATOR = 16
_LARGEST_VOCABULARY = 50_000
_QUANTILES = 10

# Why a feature is left out.
CANNOT_NAME = (
    "its name cannot be part of a TensorFlow variable's. To use it, rename it with letters, digits "
    "and _ . - only, starting with a letter or digit"
)


@dataclasses.dataclass(frozen=True)
class Entry:
    """One entry of a section: its name, its YAML value, and the reason for it."""

    name: str
    value: dict[str, Any]
    why: str


@dataclasses.dataclass(frozen=True)
class Choice:
    """The entries of a spec for one feature.

    Attributes:
      feature: its entry under `features`; None if it is left out of the spec.
      columns: its columns.
      wide, deep, fields: the names of its columns in these groups.
      steps: the names of its columns with one value in each step, which have a separate group.
      ignored: whether it is listed under `ignored`.
      time: how it holds dates or times, which need no vocabulary; None if it holds none.
      why: why it is left out or ignored.
    """

    feature: Optional[Entry] = None
    columns: tuple[Entry, ...] = ()
    wide: tuple[str, ...] = ()
    deep: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
    ignored: bool = False
    time: Optional[times.TimeFeature] = None
    why: str = ""


def percent(part: float, whole: float) -> str:
    """A share as text: 0%, 0.05%, 3.2%, 45%."""
    share = 100 * part / whole if whole else 0.0
    return f"{share:.2g}%" if share < 99.5 else f"{share:.4g}%"


def choose(
    name: str,
    statistics: FeatureStatistics,
    rows: int,
    kind: Optional[Kind],
    words: Optional[VocabularyWords],
    taken: frozenset[str] = frozenset(),
    counts: Optional[Mapping[Any, int]] = None,
    *,
    unwanted: str = "",
    wanted: bool = False,
) -> Choice:
    """The entries for one feature.

    Args:
      name: the feature.
      statistics: its statistics.
      rows: the number of records.
      kind: what its values are; None for a feature without a type.
      words: the words for its vocabulary file, for a feature with categories.
      taken: the names of all features. New columns must have other names, because a column hides
        the feature with the same name.
      counts: how often each value of a number occurs, if that is known.
      unwanted: why it is ignored although a model can read it; empty if it is not.
      wanted: whether the user wants it to be used.
    """
    if not re.fullmatch(NAME_PATTERN, name):
        return Choice(why=CANNOT_NAME)
    if kind is None or not statistics.values:
        return Choice(why=f"none of {rows:,} records has a value of it")
    time = None if wanted else times.recognized(name, statistics, counts)
    if time is not None and not unwanted:
        return _time(name, statistics, rows, kind, time, taken)
    reason = unwanted or useless.reason(name, statistics, rows, kind, wanted)
    if statistics.odd_steps:
        reason = (
            f"in {counted(statistics.odd_steps, 'step')} it does not have exactly one value, and "
            "only ragged columns can read such steps (with shape: variable); store one value in "
            "each step"
        )
    feature = _feature(name, statistics, rows, kind)
    if reason:
        return Choice(feature, ignored=True, time=time, why=reason)
    if not kind.category:
        return _number(name, statistics, feature, taken, counts)
    assert words is not None
    category = _category(name, statistics, feature, kind, words, taken)
    if not kind.number:
        return category
    number = _number(name, statistics, feature, taken, counts)
    numbers = [entry for entry in number.columns if entry.name in number.deep]
    return Choice(feature, (category.columns[0], *numbers), category.wide, number.deep)


def _shape(statistics: FeatureStatistics) -> tuple[Any, str]:
    """The shape ([] for one value) or "feature_list", and the comment about lengths."""
    lengths = statistics.lengths
    if statistics.odd_steps is not None:
        text = f"{lengths.min} to {lengths.max} steps, {lengths.mean:.3g} on average"
        return "feature_list", text
    if lengths.max <= 1:
        return [], ""
    # From 1,024 on, `counts` has ranges of lengths.
    filled = sum(n for length, n in lengths.counts.items() if length != "0")
    text = f"{lengths.min} to {lengths.max} values, {lengths.mean:.3g} on average"
    if statistics.dtype == "float32" and statistics.values == lengths.max * filled:
        return [lengths.max], f"{lengths.max} values"
    return "variable", text


def _feature(name: str, statistics: FeatureStatistics, rows: int, kind: Kind) -> Entry:
    shape, lengths = _shape(statistics)
    value: dict[str, Any] = {"dtype": statistics.dtype}
    comments = []
    if shape != []:
        value.update({"feature_list": True} if shape == "feature_list" else {"shape": shape})
        comments.append(lengths)
    missing = percent(statistics.missing, rows)
    if not statistics.missing:
        comments.append("in every record")
    elif shape in ("variable", "feature_list"):
        comments.append(f"empty in {missing} of the records")
    else:
        value["default"], meaning = _default(statistics, kind)
        comments.append(f"missing in {missing} of the records; they get {meaning}")
    words = statistics.words
    if words is not None and statistics.dtype == "string":
        if words.empty:
            empty = counted(words.empty, "value")
            comments.append(f"{empty} with the empty string, which means missing")
        if words.not_words:
            comments.append(f"{counted(words.not_words, 'value')} without text of up to 256 bytes")
        if words.integers:
            comments.append("every word is an integer: an id or a code")
    if words is not None and statistics.dtype == "int64" and shape == []:
        missing_words = dict(words.top).get("-1", 0)
        if missing_words and kind.category:
            comments.append(f"{counted(missing_words, 'value')} with -1, which means missing")
    if statistics.numbers is not None and statistics.numbers.non_finite:
        comments.append(
            f"{counted(statistics.numbers.non_finite, 'value')} with NaN or infinity, which stop "
            "training: repair the records"
        )
    return Entry(name, value, "; ".join(comments))


def _default(statistics: FeatureStatistics, kind: Kind) -> tuple[Any, str]:
    if statistics.dtype == "string":
        return "", 'the empty string "", which means missing'
    if kind.category:
        return -1, "-1, which means missing"
    if statistics.numbers is None:  # Only NaN: the feature is ignored, but its entry must be valid.
        return 0.0, "0"
    marker = missing_numbers.marker(statistics.numbers)
    if marker is not None:
        return marker, f"{marker:,}, which no record has, so it means missing"
    return missing_numbers.median(statistics.numbers), "the median"


def deep_column(name: str, *, ids: int, size: int, taken: frozenset[str]) -> Entry:
    """The column of a categorical column for a neural network: an indicator or an embedding.

    Args:
      name: the categorical column.
      ids: the number of different values.
      size: the number of ids of the column.
      taken: names that the new column must not have.
    """
    if size <= _LARGEST_INDICATOR:
        hot = free_name(f"{name}_hot", taken)
        return Entry(hot, {"indicator": name}, f"one-hot, because {size} ids need no embedding")
    categories = min(ids, size)
    return Entry(
        free_name(f"{name}_emb", taken),
        {"embedding": name, "dimension": vocabularies.embedding_dimension(categories)},
        f"the fourth root of {categories:,} categories, {categories**0.25:.1f}, rounded "
        "up to a power of two, 4 to 64",
    )


def free_name(name: str, taken: frozenset[str]) -> str:
    """The name, or a longer one if it is taken."""
    while name in taken:
        name += "_column"
    return name


def _number(
    name: str,
    statistics: FeatureStatistics,
    feature: Entry,
    taken: frozenset[str],
    counts: Optional[Mapping[Any, int]],
) -> Choice:
    numbers = statistics.numbers
    assert numbers is not None
    shape, lengths = _shape(statistics)
    if shape == "variable":
        return Choice(
            feature,
            ignored=True,
            why=f"lists of numbers with different lengths ({lengths}) need a sequence_numeric or "
            "ragged column and a custom model that reads its group; write such a model, or store "
            "the same number of values in every record, or their sum, mean or maximum",
        )
    rest = number_shapes.rest_of(numbers, counts)
    entry, why = _normalizer(number_shapes.long_tail(numbers, rest))
    if shape == "feature_list":
        step = free_name(f"{name}_step", taken)
        about = f"{_range(numbers)}; {different(statistics)}; {why}"
        column = Entry(step, {"sequence_numeric": name, "normalizer": entry}, about)
        return Choice(feature, (column,), steps=(step,))
    lacks = missing_numbers.is_known(feature.value.get("default"), numbers)
    scaled = free_name(f"{name}_scaled", taken)
    number: dict[str, Any] = {"numeric": name}
    if lacks:
        number["missing"] = missing_numbers.median(numbers)
        why += "; a missing value counts as the median"
    number["normalizer"] = entry
    about = f"{_range(numbers)}; {different(statistics)}; {why}"
    columns, deep = [Entry(scaled, number, about)], [scaled]
    wide = []
    cut = number_shapes.buckets(numbers, rest, _QUANTILES, STATISTICS_FILE)
    if shape == [] and cut is not None:
        wide.append(free_name(f"{name}_bucket", taken))
        own = {"missing": "own_bucket"} if lacks else {}
        columns.append(Entry(wide[0], {"bucketized": name, **cut[0], **own}, cut[1]))
    if lacks:
        deep.append(free_name(f"{name}_missing", taken))
        wide += [] if wide else deep[-1:]
        columns.append(Entry(deep[-1], {"is_missing": name}, "1 if it is missing, otherwise 0"))
    return Choice(feature, tuple(columns), tuple(wide), tuple(deep))


def _time(
    name: str,
    statistics: FeatureStatistics,
    rows: int,
    kind: Kind,
    time: times.TimeFeature,
    taken: frozenset[str],
) -> Choice:
    feature = _feature(name, statistics, rows, kind)
    if "default" in feature.value and statistics.dtype == "int64":
        feature.value["default"] = -1
    if not time.parts:
        few = "the rows have one hour, not all weekdays and not all months"
        why = f"{time.why}, and {few}, so no part of it helps with the times of new rows"
        return Choice(feature, ignored=True, time=time, why=why)
    columns, deep = [], []
    for part in time.parts:
        entry = Entry(free_name(f"{name}_{part}", taken), times.column(name, time, part), time.why)
        size = SIZES[part]
        columns += [entry, deep_column(entry.name, ids=size, size=size, taken=taken)]
        deep.append(columns[-1].name)
    wide = tuple(column.name for column in columns[::2])
    return Choice(feature, tuple(columns), wide, tuple(deep), time=time)


def _range(numbers: Numbers) -> str:
    low, high, mean = map(with_commas, (numbers.min, numbers.max, numbers.mean))
    return f"{low} to {high}, mean {mean}, stddev {with_commas(numbers.stddev)}"


def _normalizer(long_tail: bool) -> tuple[Any, str]:
    if long_tail:
        return "log1p", "a long tail to the right and nothing below 0, so log1p"
    return {"zscore": {"statistics": STATISTICS_FILE}}, "scaled to mean 0 and stddev 1"


def _category(
    name: str,
    statistics: FeatureStatistics,
    feature: Entry,
    kind: Kind,
    words: VocabularyWords,
    taken: frozenset[str],
) -> Choice:
    start = kind.why if kind.why.startswith("only") else different(statistics)
    if kind.why != start and kind.why:
        start = f"{kind.why}; {start}"
    covered = sum(count for _, count in words.words)
    share = percent(covered, statistics.values)
    ids = statistics.cardinality.value
    value: dict[str, Any]
    use_vocabulary = (
        words.exact
        and 0 < len(words.words) <= _LARGEST_VOCABULARY
        and 2 * covered >= statistics.values
    )
    if use_vocabulary:
        oov = vocabularies.oov_buckets(words.rare + len(words.unusable))
        size = len(words.words) + oov
        value = {
            "vocabulary": name,
            "file": f"{VOCABULARY_FOLDER}/{name}.txt",
            "oov_buckets": oov,
        }
        others = (
            f"{counted(words.rare, 'rarer value')} and all new values share "
            f"{counted(oov, 'extra id')}"
            if words.rare
            else "all new values share one extra id"
        )
        covers = "covers" if len(words.words) == 1 else "cover"
        why = (
            f"{start}; a vocabulary, because "
            f"{counted(len(words.words), 'frequent value')} {covers} {share} of all values; "
            f"{others}"
        )
        if words.unusable:
            examples = ", ".join(map(repr, words.unusable[:3]))
            unusable = counted(len(words.unusable), "word")
            why += f"; a vocabulary file cannot store {unusable}: {examples}"
    else:
        size = vocabularies.hash_size(ids)
        value = {"hash_bucket": name, "size": size}
        reason = (
            f"frequent words cover only {share} of all values"
            if words.exact
            else "too many for a vocabulary"
        )
        why = (
            f"{start}; hashed, because {reason}; in {size:,} buckets about "
            f"{percent(vocabularies.collision_share(ids, size), 1)} of the values share an id"
        )
    deep = deep_column(name, ids=ids, size=size, taken=taken)
    columns = [Entry(name, value, why), deep]
    if statistics.odd_steps is None:
        return Choice(feature, tuple(columns), (name,), (deep.name,))
    step = free_name(f"{name}_step", taken)
    dense = free_name(f"{step}_{'hot' if 'indicator' in deep.value else 'emb'}", taken)
    of_step = {k: step if v == name else v for k, v in deep.value.items()}
    columns += [
        Entry(step, {**value, "sequence": True}, "the same ids, one for each step, in order"),
        Entry(dense, of_step, "the vector of each step"),
    ]
    return Choice(feature, tuple(columns), (name,), (deep.name,), steps=(dense,))
