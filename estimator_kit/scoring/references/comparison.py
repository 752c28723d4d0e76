"""Compares a model with reference models on the same evaluation rows.

    judge = Judge(spec.objectives["click"], target)
    judge.compare(model_outputs, reference_outputs)     # reference minus model, and a verdict

`scoring.slices.difference` gives the interval: a bootstrap in which both are scored on the
same draws of rows. If an objective has groups, whole groups are drawn. It covers the chance of the
evaluation rows, not the chance of another training.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, Optional

import numpy as np
from numpy.typing import NDArray

from estimator_kit.model.heads import row_metric
from estimator_kit.model.heads.row_metrics import Floats, RowMetric
from estimator_kit.result import Verdict
from estimator_kit.scoring.references.rows import Target
from estimator_kit.scoring.slices import Interval, difference
from feature_specs.heads import Objective
from feature_specs.heads.metrics import MetricChoice

SAMPLES = 300


class Root:
    """The square root of a metric of rows."""

    def __init__(self, metric: RowMetric):
        self._metric = metric

    def value(self, counts: Optional[Floats] = None) -> float:
        value = self._metric.value(counts)
        return math.sqrt(value) if value >= 0 else math.nan


class MeanOfGroups:
    """The mean of one number for each group of rows, of the groups where it is defined.

    Args:
      numbers: float64 [groups], NaN where it is undefined.
      firsts: int64 [groups], a row of each group. All rows of a group have the same count.
    """

    def __init__(self, numbers: Floats, firsts: NDArray[np.int64]):
        defined = np.isfinite(numbers)
        self._numbers, self._firsts = numbers[defined], firsts[defined]

    def value(self, counts: Optional[Floats] = None) -> float:
        drawn = np.ones(len(self._numbers)) if counts is None else counts[self._firsts]
        total = drawn.sum()
        return float(self._numbers @ drawn / total) if total > 0 else math.nan


def ndcg(
    grades: Floats, scores: Floats, weights: Floats, groups: NDArray[np.int64], k: int
) -> MeanOfGroups:
    """NDCG at k of each group, as `model.heads.group_metrics` defines it.

    Args:
      grades, scores, weights: [rows]. Rows with weight 0 do not count.
      groups: [rows], group numbers; -1 for no group.
    """
    counted = np.flatnonzero((weights > 0) & (groups >= 0))
    # Rows with equal scores are in the worst order.
    order = counted[np.lexsort([grades[counted], -scores[counted], groups[counted]])]
    best = counted[np.lexsort([-grades[counted], groups[counted]])]
    changed = np.flatnonzero(np.diff(groups[order], prepend=-1))
    lengths = np.diff(np.append(changed, len(order)))
    ranks = np.arange(len(order)) - np.repeat(changed, lengths)
    discounts = np.where(ranks < k, 1 / np.log2(ranks + 2), 0.0)
    top = np.repeat(np.maximum.reduceat(grades[order], changed), lengths) if len(order) else ranks

    def sums(rows: NDArray[np.int64]) -> Floats:
        # Relative to the largest grade, so that large grades do not overflow.
        gains = np.exp2(grades[rows] - top) - np.exp2(-np.asarray(top, np.float64))
        return np.add.reduceat(gains * discounts, changed) if len(rows) else np.zeros(0)

    gained, possible = sums(order), sums(best)
    nothing = np.full(len(changed), np.nan)
    return MeanOfGroups(
        np.divide(gained, possible, out=nothing, where=possible > 0), order[changed]
    )


Make = Callable[[Floats], RowMetric]


class Judged(NamedTuple):
    """A metric by which models are compared.

    Attributes:
      name: such as auc, rmse or ndcg_at_10.
      larger_is_better: whether a better value is larger.
      make: the metric of outputs.
    """

    name: str
    larger_is_better: bool
    make: Make


class Judge:
    """Compares models on the evaluation rows of one objective.

    Args:
      entry: the objective.
      target: of the evaluation rows.

    Attributes:
      metrics: the metrics, the most important first.
    """

    def __init__(self, entry: Objective, target: Target):
        self._target = target
        # The number of each row's group, from 0. A row without a group is a group alone.
        self._groups: Optional[NDArray[np.int64]] = None
        if target.groups is not None:
            alone = target.groups < 0
            keys = np.where(alone, -1 - np.arange(len(alone)), target.groups)
            self._groups = np.unique(keys, return_inverse=True)[1].reshape(-1).astype(np.int64)
        self.metrics = self._of_groups(entry) if entry.ranks else self._of_rows(entry)

    def values(self, outputs: Floats) -> dict[str, float]:
        """Each metric of some outputs; NaN where it is undefined."""
        return {metric.name: metric.make(outputs).value() for metric in self.metrics}

    def compare(self, model: Floats, reference: Floats) -> tuple[Interval, Verdict]:
        """Reference minus model, of the first metric, and which is better."""
        first = self.metrics[0]
        found = difference(
            first.make(reference).value,
            first.make(model).value,
            rows=len(self._target.labels),
            groups=self._groups,
            samples=SAMPLES,
        )
        return found, verdict(found, first.larger_is_better)

    def _of_rows(self, entry: Objective) -> list[Judged]:
        kinds = dict.fromkeys([entry.main[0].kind, *entry.judged_by])
        return [self._of_kind(entry, MetricChoice(k)) for k in kinds if k.better in ("max", "min")]

    def _of_kind(self, entry: Objective, choice: MetricChoice) -> Judged:
        target, squares = self._target, choice.name == "mean_squared_error"

        def make(outputs: Floats) -> RowMetric:
            rows = target.labels, outputs, target.weights
            metric = row_metric(choice.name, entry.head, *rows)
            return Root(metric) if squares else metric

        name = "rmse" if squares else choice.label
        return Judged(name, choice.kind.better == "max", make)

    def _of_groups(self, entry: Objective) -> list[Judged]:
        chosen = [choice for choice in entry.metric_choices() if choice.name == "ndcg"]
        target, groups = self._target, self._groups
        assert groups is not None and target.groups is not None
        numbers = np.where(target.groups < 0, -1, groups)

        def judged(choice: MetricChoice) -> Judged:
            k = int(choice.value or 1)
            return Judged(
                choice.label,
                True,
                lambda scores: ndcg(target.labels, scores, target.weights, numbers, k),
            )

        return [judged(choice) for choice in chosen or entry.main[:1]]


def verdict(found: Interval, larger_is_better: bool) -> Verdict:
    """Which of reference and model is better, from the interval of reference minus model."""
    if not math.isfinite(found.low) or not math.isfinite(found.high):
        return "undefined"
    if found.low <= 0 <= found.high:
        return "none"
    return "reference" if (found.low > 0) is larger_is_better else "model"
