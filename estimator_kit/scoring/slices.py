"""Metrics of parts of the evaluation rows: `observed/slices.json`, by `--slices=country,device`.

    found = slices(spec, rows, predictions, ["country", "device"])

A slice is all rows with one value of a feature. Each slice has the metric of its objective, with a
bootstrap interval. The result contains the 20 most frequent values of a feature, if they have at
least 50 rows. `left_out` is the number of remaining rows. The module reads only its
arguments and writes nothing.

`difference` gives intervals for the difference of two models on the same rows, by the bootstrap.
Each sample draws rows, or whole groups of rows, with replacement, as many as the data have. Both
models are scored on the same sample. The interval is given by the middle quantiles of the
differences (Efron and Tibshirani, 1993, chapter 13). Since both models see the same rows, an easy
or hard day does not affect the difference. Use groups for rows that depend on each other, such as
the rows of one user: with single rows, the intervals would be too narrow.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Optional

import numpy as np
from numpy.typing import NDArray

from estimator_kit.errors import ConfigError
from estimator_kit.model.heads import row_metric
from estimator_kit.observing.measured_export import ObjectiveSlices, Overall, Slice, Slices
from estimator_kit.scoring.eval_rows import EvalRows
from feature_specs.errors import did_you_mean
from feature_specs.spec import FeatureSpec

Score = Callable[[Optional[NDArray[Any]]], float]


class Interval(NamedTuple):
    """A difference and its interval; NaN if undefined."""

    estimate: float
    low: float
    high: float


def difference(
    first: Score,
    second: Score,
    *,
    rows: int,
    groups: Optional[NDArray[Any]] = None,
    samples: int = 500,
    confidence: float = 0.95,
    seed: int = 1,
) -> Interval:
    """Returns first - second, with its interval.

    Args:
      first, second: each scores a model. The argument is how often each row was drawn (float64
        [rows]); None means once each.
      rows: the number of rows.
      groups: [rows], group numbers from 0. Rows of one group are drawn together. Without it, each
        row is drawn separately.
      samples: the number of draws. A draw with an undefined score (for example without a positive
        row) is left out. If more than a tenth are left out, the interval is undefined.
      confidence: the confidence of the interval.
      seed: the seed of the draws. The same seed gives the same interval.
    """
    estimate = first(None) - second(None)
    units = rows if groups is None else int(groups.max(initial=-1)) + 1
    if math.isnan(estimate) or units == 0:
        return Interval(math.nan, math.nan, math.nan)
    random = np.random.default_rng(seed)
    differences = []
    for _ in range(samples):
        drawn = np.bincount(random.integers(0, units, units), minlength=units).astype(np.float64)
        counts = drawn if groups is None else drawn[groups]
        value = first(counts) - second(counts)
        if math.isfinite(value):
            differences.append(value)
    if len(differences) < 0.9 * samples:
        return Interval(estimate, math.nan, math.nan)
    outside = (1 - confidence) / 2
    low, high = np.quantile(differences, [outside, 1 - outside])
    return Interval(estimate, float(low), float(high))


MOST_VALUES, LEAST_ROWS = 20, 50
_SAMPLES = 200


def check(spec: FeatureSpec, names: Sequence[str]) -> None:
    """Raises ConfigError if --slices names a feature that cannot divide rows into slices."""
    for name in names:
        feature = spec.features.get(name)
        if feature is None:
            raise ConfigError(
                f"--slices: unknown feature {name!r}{did_you_mean(name, spec.features)}"
            )
        if feature.dtype == "float32" or feature.shape != ():
            raise ConfigError(
                f"--slices: {name} contains {'floats' if feature.dtype == 'float32' else 'lists'}, "
                "expected a feature with a single string or integer."
            )


def slices(
    spec: FeatureSpec, rows: EvalRows, predictions: Mapping[str, NDArray[Any]], names: Sequence[str]
) -> Slices:
    """The metric of each slice.

    Args:
      spec: the feature spec.
      rows: the rows of the evaluation, with the features of `names`.
      predictions: the predictions by objective, as `EvalRows.predictions` returns them.
      names: the features to slice by.
    """
    objectives = {}
    for objective, predicted in predictions.items():
        labels, weights = rows.labels(objective), rows.weights(objective)
        head = spec.objectives[objective].head
        name = spec.objectives[objective].main[0].name
        overall_metric = row_metric(name, head, labels, predicted, weights).value()
        parts: list[Slice] = []
        left_out: dict[str, int] = {}
        for feature in names:
            values = rows.values(feature)
            shown, left_out[feature] = _values(values)
            for value in shown:
                at = values == value
                metric = row_metric(name, head, labels[at], predicted[at], weights[at])
                parts.append(_slice(feature, value, int(at.sum()), metric))
        overall = Overall(value=float(overall_metric), rows=len(labels))
        objectives[objective] = ObjectiveSlices(
            metric=name, overall=overall, slices=parts, left_out=left_out
        )
    return Slices(objectives=objectives)


def _values(values: NDArray[Any]) -> tuple[list[Any], int]:
    """The values to show, the most frequent first, and the number of rows with other values."""
    distinct, counts = np.unique(values, return_counts=True)
    order = np.argsort(-counts, kind="stable")[:MOST_VALUES]
    shown = [i for i in order if counts[i] >= LEAST_ROWS]
    return [distinct[i] for i in shown], int(counts.sum() - counts[shown].sum())


def _slice(feature: str, value: Any, rows: int, metric: Any) -> Slice:
    interval = difference(metric.value, lambda counts: 0.0, rows=rows, samples=_SAMPLES)
    return Slice(
        feature=feature,
        value=_text(value),
        rows=rows,
        metric=float(interval.estimate),
        low=float(interval.low),
        high=float(interval.high),
    )


def _text(value: Any) -> str:
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)
