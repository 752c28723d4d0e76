"""The user's decisions about features: `--categorical`, `--numeric` and `--ignore`, checked.

Overrides(categorical=("app",), numeric=("hour",), ignore=("session",))
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping, Sequence

from feature_specs.entry import NAME_PATTERN
from feature_specs.errors import did_you_mean
from feature_specs.statistics import FeatureStatistics
from input_pipelines.errors import DataError

_EXAMPLES = 3


@dataclasses.dataclass(frozen=True)
class Overrides:
    """Names of features: whose values are categories or numbers, and which are ignored."""

    categorical: Sequence[str] = ()
    numeric: Sequence[str] = ()
    ignore: Sequence[str] = ()

    @property
    def used(self) -> frozenset[str]:
        """The features that get columns, whatever a rule says."""
        return frozenset([*self.categorical, *self.numeric])

    def by_flag(self) -> dict[str, Sequence[str]]:
        return {name: getattr(self, name) for name in ("categorical", "numeric", "ignore")}


NO_OVERRIDES = Overrides()


def check_name(flag: str, name: str) -> None:
    """Raises DataError if a spec cannot have a feature or label that a flag names."""
    if not re.fullmatch(NAME_PATTERN, name):
        raise DataError(
            f"--{flag}: the name {name!r} cannot be part of a TensorFlow variable's name; use "
            "letters, digits, _, - and ., and start with a letter or digit"
        )


def check(
    overrides: Overrides,
    labels: Sequence[str],
    features: Mapping[str, FeatureStatistics],
    words: Mapping[str, Sequence[str]],
) -> None:
    """Checks that every decision is possible.

    Args:
      overrides: the decisions.
      labels: the labels.
      features: the statistics of all features.
      words: the words of text features in `overrides.numeric`, in decreasing frequency.

    Raises:
      DataError: a name does not exist, or its values do not fit the decision.
    """
    for flag, names in overrides.by_flag().items():
        for name in names:
            if name in labels:
                raise DataError(f"--{flag}: {name!r} is a label. Remove it from one of the flags")
            if name not in features:
                choices = [other for other in features if other not in labels]
                raise DataError(
                    f"--{flag}: no record has a feature {name!r}{did_you_mean(name, choices)}"
                )
    for name in overrides.used:
        flag = "categorical" if name in overrides.categorical else "numeric"
        check_name(flag, name)
        if not features[name].values:
            raise DataError(f"--{flag}: feature {name!r} has no value in any record. Remove it")
    for name in overrides.categorical:
        if features[name].dtype == "float32":
            raise DataError(
                f"--categorical: the values of {name!r} are float32, and categories are text or "
                "integers. Write them as text, or without a decimal point"
            )
    for name in overrides.numeric:
        _check_numeric(name, features[name], words.get(name, ()))


def _check_numeric(name: str, feature: FeatureStatistics, words: Sequence[str]) -> None:
    if feature.dtype == "int64" and feature.lengths.max > 1:
        raise DataError(
            f"--numeric: {name!r} has up to {feature.lengths.max} integers in a record, expected "
            "one. Write the list as floats, or remove the name"
        )
    if feature.dtype != "string":
        return
    others = [word for word in words if not _is_number(word)][:_EXAMPLES]
    if others:
        raise DataError(
            f"--numeric: {name!r} is text. The most frequent values that are not numbers: "
            f"{', '.join(map(repr, others))}. If they mean a missing value, name them with "
            "--csv_missing, or correct them"
        )
    raise DataError(
        f"--numeric: {name!r} is text, although its values are numbers, such as "
        f"{', '.join(map(repr, words[:_EXAMPLES]))}. Write them as numbers: without quotes, and "
        "without zeros at the front"
    )


def _is_number(word: str) -> bool:
    try:
        return math.isfinite(float(word))
    except ValueError:
        return not word
