"""Says why a model cannot learn from a feature: one value, no value that it can read, or a key."""

from __future__ import annotations

from feature_specs.statistics import FeatureStatistics
from input_pipelines.prepare.analyze import feature_names
from input_pipelines.prepare.analyze.numbers import with_commas
from input_pipelines.prepare.analyze.value_kinds import Kind

_KEY_ROWS, _KEY_SHARE = 1000, 0.9


def reason(name: str, statistics: FeatureStatistics, rows: int, kind: Kind, wanted: bool) -> str:
    """Why a model cannot learn from a feature, or an empty string.

    Args:
      name: the feature.
      statistics: its statistics. It has a type and a value.
      rows: the number of records.
      kind: what its values are.
      wanted: whether the user wants it, so that a key is used.
    """
    cardinality, words, numbers = statistics.cardinality, statistics.words, statistics.numbers
    if statistics.dtype == "string" and words is not None and not words.top:
        if not words.not_words:
            return "every value is the empty string"
        return (
            "no value is text that a vocabulary could hold; images, and numbers as raw bytes, are "
            "read with decode"
        )
    if statistics.dtype == "float32" and numbers is None:
        return "no value is finite"
    if numbers is not None and numbers.min == numbers.max and not kind.category:
        return f"every finite value is the same, {with_commas(numbers.min)}"
    # A category with one value has information if some records lack it; a number must vary.
    if cardinality.value <= 1 and not statistics.missing and statistics.lengths.max == 1:
        value = words.top[0][0] if words is not None else ""
        return f"every value is the same, {value!r}"
    if not wanted and is_key(name, statistics, rows):
        return (
            f"{different(statistics)} in {statistics.values:,} records: a key of the record, "
            f"from which a model cannot learn (override: --categorical={name})"
        )
    return ""


def is_key(name: str, statistics: FeatureStatistics, rows: int) -> bool:
    """Whether nearly every record has another value: of text, or of integers named as ids."""
    if statistics.dtype != "string":
        if statistics.dtype != "int64" or not feature_names.named_as_id(name):
            return False
    return (
        statistics.lengths.max == 1
        and rows >= _KEY_ROWS
        and statistics.cardinality.value >= _KEY_SHARE * statistics.values
    )


def different(statistics: FeatureStatistics) -> str:
    """The number of different values as text."""
    about = "" if statistics.cardinality.exact else "about "
    count = statistics.cardinality.value
    return f"{about}{count:,} different values" if count != 1 else "1 value"
