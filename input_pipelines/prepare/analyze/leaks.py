"""Finds features that give a label away, in a sample of rows.

Such a feature is usually known only after the label: the time of the purchase that a model should
predict. A model with it looks perfect, and is useless when it serves. Three checks, each on 1,000
rows or more:

    alone       a prediction from the feature alone has an AUC, or an R2 of ranks, above 0.99. The
                prediction is cross-validated: the mean of the label by value, for values with at
                least 10 rows, or by 200 bins of a number. A missing value is a value
    a value     a value that at least 5% of the rows have always has the same class, although 20 of
                its rows or more should have others. It may also be that the value is missing
    a sum       up to 4 numbers, times weights, are the label, up to a millionth of its variance

Chance explains none of them: for 20 expected exceptions and none, it has a probability of 2e-9.
But an app or a city may have no purchase only because purchases are rare. So one value is only a
suspicion, and the feature is used, if fewer than 200 exceptions are expected, or if the feature is
a category with more than 20 values.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np

from input_pipelines.prepare.analyze import label_effect
from input_pipelines.prepare.analyze.label_effect import Target
from input_pipelines.prepare.analyze.numbers import with_commas
from input_pipelines.prepare.analyze.row_sample import Column

_LEAST_ROWS = 100
_ROWS_OF_A_CLASS = 20
_ROWS_OF_A_VALUE = 10
_ALONE = 0.99
_BINS = 200
_SHARE = 0.05
_EXPECTED, _CERTAIN = 20, 200
_FEW_VALUES = 20
_MOST_TERMS = 4
_REST = 1e-6

# Gets a feature and one of its values, and returns the value as text.
TextOf = Callable[[str, object], str]


@dataclasses.dataclass(frozen=True)
class Leaks:
    """Why features give a label away, by feature: certainly, or perhaps."""

    certain: dict[str, str]
    suspected: dict[str, str]


def find(
    sample: Mapping[str, Column],
    targets: Sequence[Target],
    categories: Collection[str],
    text_of: TextOf,
) -> Leaks:
    """The features that give a label away.

    Args:
      sample: columns by feature, without labels.
      targets: the labels in the same rows.
      categories: the features whose values are categories.
      text_of: the text of a value, for the reason.
    """
    certain: dict[str, str] = {}
    suspected: dict[str, str] = {}
    for label in targets:
        if label.rows.sum() < _LEAST_ROWS:
            continue
        for name, column in sample.items():
            alone = _alone(column, label)
            if alone:
                certain.setdefault(name, alone)
                continue
            why, expected = _one_value(name, column, label, text_of)
            many = name in categories and len(column.distinct) > _FEW_VALUES
            if why:
                suspicion = many or expected < _CERTAIN
                (suspected if suspicion else certain).setdefault(name, why)
        for name, why in _sum(sample, label).items():
            certain.setdefault(name, why)
    return Leaks(certain, {n: why for n, why in suspected.items() if n not in certain})


def _alone(column: Column, label: Target) -> str:
    rows = np.flatnonzero(label.rows)
    y, codes = label.values[rows], column.codes[rows]
    two = y.shape[1] == 1 and label.classes is not None
    if two and min(y.sum(), len(y) - y.sum()) < _ROWS_OF_A_CLASS:
        return ""
    sizes = np.bincount(codes + 1)
    rare = sizes < _ROWS_OF_A_VALUE
    if np.count_nonzero(sizes) < 2:
        return ""
    best = 0.0
    folds = label_effect.folds_of(len(rows))
    by = [np.where(rare[codes + 1], len(sizes), codes + 1)]
    if not column.text and rare.any():
        by.append(label_effect.quantile_bins(codes, _BINS))
    for grouped in by:
        predicted = label_effect.mean_by(grouped, y, folds)
        score = label_effect.auc(predicted[:, 0], y[:, 0] > 0) if two else _r2(y, predicted)
        best = max(best, score)
    if best <= _ALONE:
        return ""
    measure = "AUC" if two else "R2"
    if two and (y[:, 0] > 0).tolist() == (codes >= 0).tolist():
        return f"it has a value exactly where {label.name} is {_shown(label, 1)}"
    return f"it alone predicts {label.name} with {measure} {min(best, 0.9999):.4f}"


def _one_value(name: str, column: Column, label: Target, text_of: TextOf) -> tuple[str, float]:
    """The reason for the most frequent such value, and its expected exceptions."""
    if label.classes is None:
        return "", 0.0
    rows = np.flatnonzero(label.rows)
    codes, classes = column.codes[rows] + 1, label.classes[rows]
    count = int(classes.max()) + 1
    shares = np.bincount(classes, minlength=count) / len(rows)
    sizes = np.bincount(codes, minlength=len(column.distinct) + 1)
    least = max(_SHARE * len(rows), _EXPECTED)
    for code in sorted(np.flatnonzero(sizes >= least).tolist(), key=lambda c: -int(sizes[c])):
        its = classes[codes == code]
        expected = float(len(its) * (1 - shares[its[0]]))
        if expected < _EXPECTED or (its != its[0]).any():
            continue
        where = f"the value {text_of(name, column.distinct[code - 1].item())}" if code else "none"
        return (
            f"where it has {where}, {label.name} is always {_shown(label, int(its[0]))}, in "
            f"{len(its):,} rows without an exception ({expected:,.0f} would be usual)"
        ), expected
    return "", 0.0


def _sum(sample: Mapping[str, Column], label: Target) -> dict[str, str]:
    """Numbers whose weighted sum is the label: each step adds the one that explains most."""
    if label.numbers is None or label.classes is not None:
        return {}
    columns = {n: c for n, c in sample.items() if not c.text and len(c.distinct) > 1}
    rows = label.rows.copy()
    numbers = {n: c.numbers for n, c in columns.items() if (c.present | ~rows).all()}
    if not numbers or rows.sum() < _LEAST_ROWS:
        return {}
    y = label.numbers[rows]
    y = y - y.mean()
    names = list(numbers)
    x = np.stack([numbers[name][rows] for name in names], 1)
    x = (x - x.mean(0)) / np.maximum(x.std(0), 1e-30)
    chosen: list[int] = []
    rest = y
    for _ in range(_MOST_TERMS):
        gains = np.abs(x.T @ rest)
        gains[chosen] = -1
        chosen.append(int(gains.argmax()))
        weights, *_ = np.linalg.lstsq(x[:, chosen], y, rcond=None)
        rest = y - x[:, chosen] @ weights
        if np.square(rest).mean() < _REST * np.square(y).mean():
            scales = np.array([numbers[names[i]][rows].std() for i in chosen])
            text = _formula([names[i] for i in chosen], weights / scales)
            return {names[i]: f"{label.name} is {text}" for i in chosen}
        if len(chosen) == len(names):
            break
    return {}


def _formula(names: Sequence[str], weights: np.ndarray) -> str:
    terms = ""
    for name, weight in zip(names, weights.tolist()):
        sign = " - " if weight < 0 else (" + " if terms else "")
        size = "" if abs(abs(weight) - 1) < 1e-3 else f"{abs(weight):.4g} x "
        terms += f"{sign}{size}{name}"
    return terms.strip() + " in every row, up to a constant"


def _r2(y: np.ndarray, predicted: np.ndarray) -> float:
    total = float(np.square(y - y.mean(0)).sum())
    return 1 - float(np.square(y - predicted).sum()) / total if total else 0.0


def _shown(label: Target, code: int) -> str:
    if label.numbers is None:
        return "one value"
    assert label.classes is not None
    return with_commas(float(label.numbers[label.classes == code][0]))
