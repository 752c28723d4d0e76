"""What the values of a feature say about a label, cross-validated on a sample of rows.

Rules of a first spec ask: do the values of an integer act like names or like a quantity? Does a
feature give the label away? The answers come from predictions of rows that they did not learn from
(5 folds):

    by value      the mean of the label over the rows with the same value
    by order      the mean over 20 bins of about as many rows, and the mean over values nearby
    by a curve    a parabola, for few values

Each mean has 20 more rows with the mean of all. A value with a twentieth of the rows has a separate
bin. R2 is the share of the label's variance that a prediction explains. Imports no TensorFlow.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Optional

import numpy as np

from input_pipelines.prepare.analyze.row_sample import Column

FOLDS = 5
_BINS = 20
_PRIOR_ROWS = 20.0
_MOST_CLASSES = 5

# When values count as names: see `names_not_order`.
_LEAST_ROWS = 1000
_ROWS_OF_A_VALUE, _SHARE_OF_THEM = 20, 0.5
_BETTER, _LEAST_GAIN, _ERRORS = 1.2, 0.001, 4.0


@dataclasses.dataclass(frozen=True)
class Target:
    """A label in the rows of a sample, as numbers to predict.

    Attributes:
      name: the label.
      rows: [n] whether the row has the label.
      values: [n, k] float64: 0 or 1 for two values; the rank of a number, from 0 to 1; for text,
        one column for each of the most frequent classes.
      numbers: [n] float64, the label itself, if it is a number; NaN where it is missing.
      classes: [n] int64, the class of a label with two values or with text; -1 where it is missing.
    """

    name: str
    rows: np.ndarray
    values: np.ndarray
    numbers: Optional[np.ndarray]
    classes: Optional[np.ndarray]


def target(name: str, column: Column) -> Optional[Target]:
    """The target of a label; None if all of its rows are equal."""
    codes, count = column.codes, len(column.distinct)
    if count < 2:
        return None
    numbers = None if column.text else column.numbers
    if count == 2:
        values = np.maximum(codes, 0)[:, None].astype(np.float64)
        return Target(name, column.present, values, numbers, codes)
    if numbers is None:
        sizes = np.bincount(codes[codes >= 0], minlength=count)
        frequent = np.argsort(-sizes, kind="stable")[:_MOST_CLASSES]
        values = (codes[:, None] == frequent).astype(np.float64)
        return Target(name, column.present, values, None, codes)
    sizes = np.bincount(codes[codes >= 0], minlength=count)
    ranks = (np.cumsum(sizes) - sizes / 2) / sizes.sum()
    values = ranks[np.maximum(codes, 0)][:, None]
    return Target(name, column.present, values, numbers, None)


@dataclasses.dataclass(frozen=True)
class Effect:
    """How well values predict a label: R2 by value and by order, and whether that is clear.

    Attributes:
      by_value, by_order: the R2 of both predictions; the better one of those by order.
      errors: the difference of their squared errors over its standard error.
    """

    by_value: float
    by_order: float
    errors: float

    @property
    def names(self) -> bool:
        """Whether the values act like names."""
        clear = self.errors > _ERRORS
        return clear and self.by_value > _BETTER * max(self.by_order, 0.0) + _LEAST_GAIN


def effect(
    column: Column, label: Target, groups: Optional[np.ndarray] = None, *, curve: bool = False
) -> Optional[Effect]:
    """Compares predictions by value and by order; None if there are too few rows to tell.

    There are enough if 1,000 rows have the value and the label, and at least half of them have a
    value that 20 rows have.

    Args:
      column: a feature of integers.
      label: the label.
      groups: [n] rows of one group stay together, so a value that stands for one group (one
        person, with one income) says nothing about others.
      curve: whether order means a parabola. For so few values that each would have its own bin.
    """
    rows = np.flatnonzero(column.present & label.rows)
    distinct, codes, sizes = np.unique(column.values[rows], return_inverse=True, return_counts=True)
    codes = codes.reshape(-1)
    many = sizes[sizes >= _ROWS_OF_A_VALUE].sum()
    if len(rows) < _LEAST_ROWS or len(distinct) < 3 or many < _SHARE_OF_THEM * len(rows):
        return None
    y = label.values[rows]
    folds = folds_of(len(rows) if groups is None else groups[rows])
    total = float(np.square(y - y.mean(0)).sum())
    value = _squares(y, mean_by(codes, y, folds))
    if curve:
        order = _squares(y, _by_curve(distinct, codes, y, folds))
    else:
        heavy = sizes * _BINS >= len(rows)
        bins = _squares(y, mean_by(_bins(sizes, heavy)[codes], y, folds))
        near = _squares(y, _by_neighbors(codes, heavy, y, folds))
        order = bins if bins.sum() < near.sum() else near
    gain = order - value
    error = float(gain.std()) / np.sqrt(len(rows))
    return Effect(
        1 - float(value.sum()) / total,
        1 - float(order.sum()) / total,
        float(gain.mean()) / error if error else 0.0,
    )


def folds_of(rows: object) -> np.ndarray:
    """[n] the fold of each row, from 0 to 4: for a number of rows, or for [n] groups of rows."""
    random = np.random.default_rng(0)
    if isinstance(rows, int):
        return random.integers(0, FOLDS, rows)
    _, places = np.unique(np.asarray(rows), return_inverse=True)
    places = places.reshape(-1)
    return random.integers(0, FOLDS, int(places.max(initial=0)) + 1)[places]


def mean_by(codes: np.ndarray, y: np.ndarray, folds: np.ndarray) -> np.ndarray:
    """[n, k] the mean of `y` [n, k] over the other folds' rows with the same code [n], smoothed."""
    result = np.empty_like(y)
    for fold in range(FOLDS):
        test = folds == fold
        sizes, sums, prior = _sums(codes, y, ~test)
        means = (sums + _PRIOR_ROWS * prior) / (sizes + _PRIOR_ROWS)[:, None]
        result[test] = means[codes[test]]
    return result


def auc(scores: np.ndarray, positive: np.ndarray) -> float:
    """The area under the ROC curve of scores [n]; equal scores count half."""
    _, codes, sizes = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(sizes) - (sizes - 1) / 2)[codes.reshape(-1)]
    yes = int(positive.sum())
    no = len(positive) - yes
    if not yes or not no:
        return 0.5
    return float((ranks[positive].sum() - yes * (yes + 1) / 2) / (yes * no))


def quantile_bins(values: np.ndarray, count: int) -> np.ndarray:
    """[n] the bin of each number: equal numbers share one, and a frequent one has its own."""
    _, codes, sizes = np.unique(values, return_inverse=True, return_counts=True)
    return _bins(sizes, sizes * count >= len(values), count)[codes.reshape(-1)]


def _sums(
    codes: np.ndarray, y: np.ndarray, rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    count = int(codes.max(initial=-1)) + 1
    sizes = np.bincount(codes[rows], minlength=count).astype(np.float64)
    columns: Sequence[np.ndarray] = [
        np.bincount(codes[rows], weights=y[rows, k], minlength=count) for k in range(y.shape[1])
    ]
    return sizes, np.stack(columns, 1), y[rows].mean(0)


def _squares(y: np.ndarray, predictions: np.ndarray) -> np.ndarray:
    """[n] the squared error of each row, summed over the columns."""
    return np.asarray(np.square(y - predictions).sum(1))


def _bins(sizes: np.ndarray, heavy: np.ndarray, count: int = _BINS) -> np.ndarray:
    """The bin of each sorted value: `count` of about as many rows; a heavy value has its own."""
    light = np.where(heavy, 0, sizes).astype(np.float64)
    middle = np.cumsum(light) - light / 2
    bins = np.minimum((middle * count / max(light.sum(), 1)).astype(np.int64), count - 1)
    return np.where(heavy, count + np.cumsum(heavy), bins)


def _by_neighbors(
    codes: np.ndarray, heavy: np.ndarray, y: np.ndarray, folds: np.ndarray
) -> np.ndarray:
    """Predicts by the values next to a value, but not by the value: a twentieth of the rows."""
    result = np.empty_like(y)
    place = np.arange(len(heavy))
    for fold in range(FOLDS):
        test = folds == fold
        sizes, sums, prior = _sums(codes, y, ~test)
        light, light_sums = np.where(heavy, 0, sizes), np.where(heavy[:, None], 0, sums)
        upto = np.concatenate([[0], np.cumsum(light)])
        sums_upto = np.concatenate([np.zeros((1, y.shape[1])), np.cumsum(light_sums, 0)])
        half = light.sum() / _BINS / 2
        first = np.searchsorted(upto, upto[:-1] - half, "right") - 1
        first = np.maximum(np.minimum(first, place - 1), 0)
        last = np.searchsorted(upto, upto[1:] + half, "left")
        last = np.minimum(np.maximum(last, place + 2), len(heavy))
        near = upto[last] - upto[first] - light
        near_sums = sums_upto[last] - sums_upto[first] - light_sums
        near, near_sums = np.where(heavy, sizes, near), np.where(heavy[:, None], sums, near_sums)
        means = (near_sums + _PRIOR_ROWS * prior) / (near + _PRIOR_ROWS)[:, None]
        result[test] = means[codes[test]]
    return result


def _by_curve(
    distinct: np.ndarray, codes: np.ndarray, y: np.ndarray, folds: np.ndarray
) -> np.ndarray:
    x = distinct.astype(np.float64)
    x = (x - x.min()) / (x.max() - x.min())
    terms = np.stack([np.ones_like(x), x, x * x], 1)
    result = np.empty_like(y)
    for fold in range(FOLDS):
        test = folds == fold
        sizes, sums, _ = _sums(codes, y, ~test)
        root = np.sqrt(sizes)[:, None]
        means = sums / np.maximum(sizes, 1)[:, None]
        weights, *_ = np.linalg.lstsq(terms * root, means * root, rcond=None)
        result[test] = (terms @ weights)[codes[test]]
    return result
