"""The features of records as numbers for scikit-learn: for trees, and for linear models.

    encoder = Encoder(spec, table.features)          # of the training rows
    encoder.for_trees(targets, seed=1)

Numbers stay as they are, and a missing one is NaN. Words are categories. Integers are numbers, and
categories too if a column reads them as names; for a linear model also if they have few values.

Trees of scikit-learn read categories of up to 254 values. Larger ones become two numbers, as users
of CatBoost and LightGBM do it: the rank of the value by its frequency, and the mean label of the
training rows with this value. To a training row it gives the mean label of the other four fifths
of the rows, so that no row sees its label. 20 more rows with the mean label of all rows are added.
A list becomes its length and the mean of its values, or of the label means of its words.

A linear model gets numbers scaled to mean 0 and standard deviation 1 with a marker for missing
ones, and a 0 or 1 for each of the frequent values of a category.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from estimator_kit.scoring.references.rows import Values

MOST_VALUES = 254
_FOLDS = 5
_DRAWN = 20.0
_MOST_ONE_HOT = 5_000
_LEAST_COUNT = 2

Floats = NDArray[np.float64]


@dataclasses.dataclass(frozen=True)
class Codes:
    """The values of a category in some rows as numbers from 0, the most frequent value first.

    Attributes:
      flat: int64, the code of each value; -1 for a value that no training row has.
      lengths: int64 [rows], how many values a row has.
      count: how many values there are.
    """

    flat: NDArray[np.int64]
    lengths: NDArray[np.int64]
    count: int

    @property
    def rows(self) -> NDArray[np.int64]:
        """The row of each value."""
        return np.repeat(np.arange(len(self.lengths)), self.lengths)


class Category:
    """The values that a feature has in the training rows."""

    def __init__(self, values: Values):
        self._values, counts = np.unique(values.flat, return_counts=True)
        order = np.lexsort([self._values, -counts])
        self._code = np.empty(len(order), np.int64)
        self._code[order] = np.arange(len(order))
        self.counts = counts[order]

    def codes(self, values: Values) -> Codes:
        """The codes of the values of some rows."""
        places = np.searchsorted(self._values, values.flat)
        places = np.minimum(places, max(len(self._values) - 1, 0))
        flat = np.full(len(values.flat), -1, np.int64)
        if len(self._values):
            known = self._values[places] == values.flat
            flat[known] = self._code[places[known]]
        return Codes(flat, values.lengths, len(self.counts))


def one_a_row(flat: NDArray[Any], lengths: NDArray[np.int64]) -> Floats:
    """The first value of each row, float64 [rows]; NaN for a row without values."""
    result = np.full(len(lengths), np.nan)
    starts = np.cumsum(lengths) - lengths
    has = lengths > 0
    result[has] = flat[starts[has]]
    return result


def means(flat: Floats, codes: Codes) -> Floats:
    """The mean of the values of each row that are not NaN; NaN for a row without such a value."""
    known = np.isfinite(flat)
    rows, count = codes.rows[known], len(codes.lengths)
    sums = np.bincount(rows, flat[known], count)
    numbers = np.bincount(rows, minlength=count)
    result: Floats = np.divide(sums, numbers, out=np.full(count, np.nan), where=numbers > 0)
    return result


class LabelMeans:
    """The drawn mean of a target for each code, from the training rows.

    A code whose rows have the targets 1, 1 and 0, where all rows have the mean 0.5, has the mean
    (2 + 20 * 0.5) / (3 + 20) = 0.5217.

    Args:
      codes: of the training rows.
      target: float64 [rows].
      weights: float64 [rows].
      folds: int64 [rows], the part of each row.
    """

    def __init__(
        self, codes: Codes, target: Floats, weights: Floats, folds: NDArray[np.int64]
    ) -> None:
        self._codes, self._folds = codes, folds
        total = weights.sum()
        self._prior = float(target @ weights / total) if total > 0 else 0.0
        rows = codes.rows
        fold = folds[rows]
        cells = fold * codes.count + codes.flat
        size = _FOLDS * codes.count
        self._sums = np.bincount(cells, (target * weights)[rows], size).reshape(_FOLDS, -1)
        self._weights = np.bincount(cells, weights[rows], size).reshape(_FOLDS, -1)

    def of_training(self) -> Floats:
        """For each value of the training rows, without the fold of its row."""
        fold = self._folds[self._codes.rows]
        flat = self._codes.flat
        sums = self._sums.sum(axis=0)[flat] - self._sums[fold, flat]
        weights = self._weights.sum(axis=0)[flat] - self._weights[fold, flat]
        result: Floats = (sums + _DRAWN * self._prior) / (weights + _DRAWN)
        return result

    def of_others(self, codes: Codes) -> Floats:
        """For each value of other rows; the mean of all rows for a new value."""
        drawn = (self._sums.sum(axis=0) + _DRAWN * self._prior) / (
            self._weights.sum(axis=0) + _DRAWN
        )
        result: Floats = np.append(drawn, self._prior)[codes.flat]
        return result


@dataclasses.dataclass(frozen=True)
class Pair:
    """The same columns of training and evaluation rows."""

    train: Any
    evaluated: Any


class Encoder:
    """Turns features of training and evaluation rows into columns.

    Args:
      train, evaluated: the features by name.
    """

    def __init__(self, train: Mapping[str, Values], evaluated: Mapping[str, Values]):
        self._train, self._evaluated = train, evaluated
        integers = {n: v for n, v in train.items() if np.issubdtype(v.flat.dtype, np.integer)}
        categories = {name: Category(values) for name, values in integers.items()}
        self._categories = {
            name: category
            for name, category in categories.items()
            if train[name].names or len(category.counts) <= MOST_VALUES
        }

    def for_trees(
        self, targets: Floats, weights: Floats, *, seed: int = 1
    ) -> tuple[Pair, NDArray[np.bool_]]:
        """The columns float32 [rows, columns], and bool [columns], which are categories.

        Args:
          targets: float64 [rows, n], the numbers whose means stand for values of large categories.
          weights: float64 [rows].
          seed: of the parts of the rows.
        """
        rows = len(weights)
        folds = np.random.default_rng(seed).permutation(rows) % _FOLDS
        train: list[Floats] = []
        evaluated: list[Floats] = []
        are_categories: list[bool] = []

        def add(pair: Pair, is_category: bool = False) -> None:
            train.append(pair.train)
            evaluated.append(pair.evaluated)
            are_categories.append(is_category)

        for name, values in self._train.items():
            others = self._evaluated[name]
            for pair in self._numbers(values, others):
                add(pair)
            # Trees cut numbers where they like, and a second copy as a category made them worse.
            category = self._categories.get(name) if values.names else None
            if category is None:
                continue
            codes, other_codes = category.codes(values), category.codes(others)
            small = codes.count <= MOST_VALUES
            if values.single:
                pairs = (_no_new(one_a_row(c.flat, c.lengths)) for c in (codes, other_codes))
                add(Pair(*pairs), is_category=small)
                if small:
                    continue
            for target in targets.T:
                label_means = LabelMeans(codes, target, weights, folds)
                of_train = means(label_means.of_training(), codes)
                add(Pair(of_train, means(label_means.of_others(other_codes), other_codes)))
        if not train:
            raise ValueError(
                "the groups of the spec read no feature that a reference model can use"
            )
        stacked = (np.stack(part, axis=1).astype(np.float32) for part in (train, evaluated))
        return Pair(*stacked), np.array(are_categories)

    def for_linear(self) -> Pair:
        """The columns as sparse matrices, float64 [rows, columns]."""
        from scipy import sparse

        train: list[Any] = []
        evaluated: list[Any] = []
        for name, values in self._train.items():
            others = self._evaluated[name]
            for pair in self._numbers(values, others):
                for part, scaled in zip((train, evaluated), _scaled(pair)):
                    part.append(sparse.csr_matrix(scaled))
            category = self._categories.get(name)
            if category is None:
                continue
            kept = min(int((category.counts >= _LEAST_COUNT).sum()), _MOST_ONE_HOT)
            for part, each in ((train, values), (evaluated, others)):
                codes = category.codes(each)
                shown = (codes.flat >= 0) & (codes.flat < kept)
                ones = np.ones(int(shown.sum()))
                places = (codes.rows[shown], codes.flat[shown])
                part.append(sparse.csr_matrix((ones, places), (len(codes.lengths), kept)))
        return Pair(*(sparse.hstack(part, format="csr") for part in (train, evaluated)))

    def _numbers(self, values: Values, others: Values) -> list[Pair]:
        """The numbers of a feature, float64 [rows] each."""
        pairs: list[Pair] = []
        both = (values, others)
        if values.single and not values.words:
            pairs.append(Pair(*(one_a_row(v.flat, v.lengths) for v in both)))
        elif not values.single:
            width = _width(values, others)
            if width is not None and not values.words:
                blocks = [v.flat.reshape(-1, width).astype(np.float64) for v in both]
                pairs += [Pair(*(block[:, i] for block in blocks)) for i in range(width)]
            else:
                pairs.append(Pair(*(v.lengths.astype(np.float64) for v in both)))
                if not values.words:
                    codes = [Codes(v.flat, v.lengths, 0) for v in both]
                    pairs.append(Pair(*(means(c.flat.astype(np.float64), c) for c in codes)))
        return pairs


def _width(values: Values, others: Values) -> Optional[int]:
    """The number of values of all rows, if they have the same."""
    lengths = np.concatenate([values.lengths, others.lengths])
    return int(lengths[0]) if lengths.any() and (lengths == lengths[0]).all() else None


def _no_new(codes: Floats) -> Floats:
    """Codes whose new values are missing."""
    return np.where(codes < 0, np.nan, codes)


def _scaled(pair: Pair) -> tuple[Floats, Floats]:
    """Numbers scaled like the training rows, and 1 where they are missing: [rows, 2]."""
    known = pair.train[np.isfinite(pair.train)]
    mean = known.mean() if len(known) else 0.0
    deviation = known.std() if len(known) else 0.0
    scaled = []
    for numbers in (pair.train, pair.evaluated):
        missing = ~np.isfinite(numbers)
        value = np.where(missing, mean, numbers) - mean
        value = value / deviation if deviation > 0 else np.zeros(len(value))
        # A linear model must not follow a number far outside of the training rows.
        scaled.append(np.stack([np.clip(value, -10, 10), missing.astype(np.float64)], axis=1))
    return scaled[0], scaled[1]
