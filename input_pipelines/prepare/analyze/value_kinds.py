"""Decides what the values of each feature are: categories, numbers, or both, and says why.

Text has categories, and a float32 is a number. An int64 is, by the first rule that fits:

  1. a list: categories;
  2. up to 50 values: categories. Also a number if it is a scale: at least 5 values that fill at
     least two thirds of their range, or a name such as `age`, and no name such as `race` or
     `hour`, after whose last value the first one follows;
  3. a name such as `age` or `n_clicks`: a number;
  4. a name such as `device_id`, `app` or `os_build`: categories (`os_build` is a number if the
     sample shows that its order predicts a label as well as its values do);
  5. values spread thinly or evenly over a large range, as ids and hashes are; or all within 1% of
     each other, as codes that begin with the same digits are: categories;
  6. named after a feature of text, and the same wherever the text is the same (`field_cd` and
     `field`): categories;
  7. the mean of a label by value predicts it clearly better than the order of the values does
     (`label_effect`): categories. If such a value is the same in all rows of an id, rows of one id
     are kept together;
  8. otherwise: a number.

`--categorical`, `--numeric` and `--ignore` come before all rules. Only reads, and writes nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Optional

import numpy as np

from feature_specs.statistics import FeatureStatistics
from input_pipelines.prepare.analyze import feature_names, label_effect
from input_pipelines.prepare.analyze.label_effect import Target
from input_pipelines.prepare.analyze.numbers import with_commas
from input_pipelines.prepare.analyze.overrides import Overrides
from input_pipelines.prepare.analyze.row_sample import Column

FEW_INTEGERS = 50
_SCALE_VALUES, _SCALE_FILLED = 5, 2 / 3
_MANY_VALUES, _THIN = 1000, 1000
_HASH_VALUES, _HASH_SPREAD = 200, 20
_CODES, _CLOSE = 1000, 0.01
_LEAST_ROWS = 1000


@dataclasses.dataclass(frozen=True)
class Kind:
    """What the values of a feature are.

    Attributes:
      category, number: whether it gets columns of categories, and a column of its number.
      why: the reason, for a feature of integers or an override.
      rule: the reason in words that fit several features.
      report: whether a user may want to know it: the rule is not obvious.
      override: the flag that changes it; "" if the user gave one.
    """

    category: bool
    number: bool
    why: str = ""
    report: bool = False
    override: str = ""
    rule: str = ""

    @property
    def text(self) -> str:
        return (
            "category and number"
            if self.category and self.number
            else ("category" if self.category else "number")
        )


def decide(
    features: Mapping[str, FeatureStatistics],
    counts: Mapping[str, Optional[Mapping[Any, int]]],
    sample: Mapping[str, Column],
    targets: Sequence[Target],
    overrides: Overrides,
) -> dict[str, Kind]:
    """The kind of each feature that has a type.

    Args:
      features: statistics by name, without labels.
      counts: how often each value of a number occurs, where that is known.
      sample: the columns of a sample of rows; may lack features.
      targets: the labels in these rows.
      overrides: the user's decisions.
    """
    rows = _Rows(sample, targets, [n for n, f in features.items() if _maybe_id(n, f)])
    kinds = {}
    for name, feature in features.items():
        if feature.dtype is None:
            continue
        if name in overrides.categorical:
            kinds[name] = Kind(
                True, False, "--categorical names it", report=True, rule="as you said"
            )
        elif name in overrides.numeric:
            kinds[name] = Kind(False, True, "--numeric names it", report=True, rule="as you said")
        elif feature.dtype != "int64":
            kinds[name] = Kind(feature.dtype == "string", feature.dtype != "string")
        else:
            kinds[name] = _integers(name, feature, counts.get(name), rows)
    return kinds


def _integers(
    name: str, feature: FeatureStatistics, counts: Optional[Mapping[Any, int]], rows: _Rows
) -> Kind:
    if feature.lengths.max > 1 or feature.odd_steps is not None:
        return Kind(True, False, "a list of integers")
    name_says = feature_names.suggests(name)
    number, category = f"--numeric={name}", f"--categorical={name}"
    values = feature.cardinality
    if values.exact and values.value <= FEW_INTEGERS:
        return _few(name, feature, name_says, rows)
    if name_says == "quantity":
        return Kind(False, True, override=category)
    if name_says == "category":
        why = "its name says that it is an id or a code"
        return Kind(True, False, why, True, number, "the names say that they are ids or codes")
    if name_says and not rows.ordered(name):
        why = "its name begins with the name of an id or a code"
        return Kind(
            True, False, why, True, number, "the names begin with the names of ids or codes"
        )
    why = _spread(feature, counts) or rows.code_of(name)
    if why:
        return Kind(True, False, why, True, number, "integers spread as ids or codes are")
    if rows.names_not_order(name):
        count = f"{'' if values.exact else 'about '}{values.value:,}"
        why = f"{count} integers without order in their effect"
        rule = "integers without order in their effect"
        return Kind(True, False, why, True, number, rule)
    return Kind(False, True, override=category)


def _few(
    name: str,
    feature: FeatureStatistics,
    name_says: Optional[feature_names.Suggestion],
    rows: _Rows,
) -> Kind:
    count, numbers = feature.cardinality.value, feature.numbers
    why = f"only {count} different integers" if count != 1 else "only 1 integer"
    number = f"--numeric={name}"
    if numbers is None or count < _SCALE_VALUES or name_says == "category":
        return Kind(True, False, why, override=number)
    if feature_names.named_as_cycle(name):
        return Kind(True, False, why, override=number)
    filled = count >= _SCALE_FILLED * (int(numbers.max) - int(numbers.min) + 1)
    if not filled and name_says != "quantity":
        return Kind(True, False, why, override=number)
    code = rows.code_of(name)
    if code:
        return Kind(True, False, f"{why}; {code}", True, number, "few integers, codes of a text")
    if rows.names_not_order(name, curve=True):
        rule = "few integers without order in their effect"
        why += " without order in their effect"
        return Kind(True, False, why, True, number, rule)
    if feature.missing and numbers.min < 0:  # The default -1 would be a number, too.
        return Kind(True, False, why, override=number)
    override = f"--categorical={name}"
    return Kind(True, True, f"{why} that fill a scale", True, override, "few integers on a scale")


def _spread(feature: FeatureStatistics, counts: Optional[Mapping[Any, int]]) -> str:
    numbers, values = feature.numbers, feature.cardinality
    if numbers is None:
        return ""
    low, high = int(numbers.min), int(numbers.max)
    over = f"over {with_commas(low)} to {with_commas(high)}"
    spread = high - low + 1
    if values.value > _MANY_VALUES and spread > _THIN * values.value:
        about = "" if values.exact else "about "
        return f"{about}{values.value:,} different integers thinly spread {over}, as ids are"
    if counts is None:
        return ""
    if values.value >= _HASH_VALUES and spread > _HASH_SPREAD * values.value and _hashed(counts):
        return (
            f"{values.value:,} different integers spread evenly {over}, a few of them frequent, "
            "as hashes are"
        )
    others = sorted(value for value in counts if value not in (-1, 0))
    if not others or len(others) > _CODES:
        return ""
    close = others[0] > 0 and others[-1] - others[0] < _CLOSE * others[0]
    often = sum(counts[value] for value in others) >= 2 * _CODES or feature.values >= 20 * len(
        others
    )
    if close and often and not _date(others[0]):
        return (
            f"{len(others):,} different integers from {with_commas(others[0])} to "
            f"{with_commas(others[-1])}, within 1% of each other, as codes are"
        )
    return ""


def _hashed(counts: Mapping[Any, int]) -> bool:
    """Whether values are uniform in their range, but a tenth of them has half the rows."""
    values = np.array(sorted(counts), np.float64)
    if values[0] < 0:
        return False
    places = (values - values[0]) / (values[-1] - values[0])
    steps = np.arange(len(values) + 1) / len(values)
    # The 1% limit of the Kolmogorov-Smirnov test.
    apart = max(np.abs(places - steps[:-1]).max(), np.abs(places - steps[1:]).max())
    sizes = np.sort(np.array(list(counts.values())))[::-1]
    return bool(
        apart < 1.63 / np.sqrt(len(values)) and 2 * sizes[: len(sizes) // 10].sum() > sizes.sum()
    )


def _date(value: int) -> bool:
    """Whether an integer may be seconds since 1970 or later, or a date such as 20240131."""
    return value >= 10**9 or (
        19_000_000 < value < 21_000_000 and 1 <= value // 100 % 100 <= 12 and 1 <= value % 100 <= 31
    )


def _maybe_id(name: str, feature: FeatureStatistics) -> bool:
    return feature.dtype == "string" or (
        feature.dtype == "int64" and feature_names.suggests(name) == "category"
    )


class _Rows:
    """What the rows of a sample say about a feature."""

    def __init__(self, sample: Mapping[str, Column], targets: Sequence[Target], ids: Sequence[str]):
        self._sample, self._targets = sample, targets
        self._ids = [name for name in ids if name in sample]

    def names_not_order(self, name: str, *, curve: bool = False) -> bool:
        """Whether the order of its values says much less about a label than the values do."""
        effects = self._effects(name, curve)
        return any(effect is not None and effect.names for effect in effects)

    def ordered(self, name: str) -> bool:
        """Whether the order of its values says as much about a label as the values do."""
        return any(
            effect is not None and effect.by_order > max(effect.by_value, 0.001)
            for effect in self._effects(name, False)
        )

    def code_of(self, name: str) -> str:
        """Why it is a code of a text; empty if it is not."""
        column = self._sample.get(name)
        for other in self._ids:
            text = self._sample[other]
            named = name.lower().startswith(other.lower()) and name != other
            if column is None or not text.text or not named:
                continue
            if len(text.distinct) >= len(column.distinct) and _constant(column, text):
                return f"the same wherever {other} is the same, as a code of it is"
        return ""

    def _effects(self, name: str, curve: bool) -> list[Optional[label_effect.Effect]]:
        column = self._sample.get(name)
        if column is None or not self._targets:
            return []
        groups = None if curve else self._groups(name, column)
        return [label_effect.effect(column, t, groups, curve=curve) for t in self._targets]

    def _groups(self, name: str, column: Column) -> Optional[np.ndarray]:
        """The rows' values of an id in whose rows the feature is always the same, if any."""
        for other in self._ids:
            ids = self._sample[other]
            count = len(ids.distinct)
            several = 2 * count <= ids.present.sum()
            if other != name and several and count > len(column.distinct):
                if _constant(column, ids):
                    return ids.codes
        return None


def _constant(column: Column, ids: Column) -> bool:
    """Whether rows with the same id have the same value."""
    both = column.present & ids.present
    if both.sum() < _LEAST_ROWS:
        return False
    pairs = ids.codes[both] * (len(column.distinct) + 1) + column.codes[both]
    return len(np.unique(pairs)) == len(np.unique(ids.codes[both]))
