"""The heads: they turn logits into losses, metrics, predictions and signatures.

Each class of `feature_specs.heads` has a class here, in a module of the same name: `Survival` of
`feature_specs.heads.survival` has `SurvivalHead` of `estimator_kit.model.heads.survival`.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from estimator_kit.model.heads.base import Head, closed
from estimator_kit.model.heads.row_metrics import Mean, RowMetric, not_finite
from estimator_kit.model.heads.steps import StepHead
from feature_specs.heads import HEADS, Objective
from feature_specs.heads.base import HeadEntry
from feature_specs.spec import FeatureSpec


def _code_of(entry: type[HeadEntry]) -> type[Head]:
    """The class of a head. Its metrics of rows are those that the entry names."""
    module = importlib.import_module(f"{__name__}.{entry.__module__.rpartition('.')[2]}")
    head: type[Head] = getattr(module, f"{entry.__name__}Head")
    first = entry.main[:1] if entry.answer is not None else ()
    judging = {kind.name for kind in entry.judged_by} | {choice.name for choice in first}
    closed(judging, head.row_metrics)
    return head


CODE: dict[str, type[Head]] = {name: _code_of(entry) for name, entry in HEADS.items()}


def make_heads(spec: FeatureSpec) -> dict[str, Head]:
    """The heads of a spec by the name of the objective, in its order."""
    heads = {
        name: CODE[entry.head].for_entry(entry)(spec, name)
        for name, entry in spec.objectives.items()
    }
    return {
        name: head if head.config.steps_in_row is None else StepHead(spec, head)
        for name, head in heads.items()
    }


def row_metric(
    name: str, head: str, labels: NDArray[Any], outputs: NDArray[Any], weights: NDArray[Any]
) -> RowMetric:
    """A metric of rows by which a head is judged.

    Args:
      name: the name of the metric.
      head: the name of the head, which says what the outputs are.
      labels: as `judged_labels` returns them.
      outputs: float [rows], or [rows, n] if the answer of the head is wide. See `HeadEntry.answer`.
      weights: float [rows]; 0 leaves a row out.
    """
    weights = np.asarray(weights, np.float64)
    outputs = np.asarray(outputs, np.float64)
    if not_finite(outputs):  # NaN would sort above all scores.
        return Mean(np.full(len(weights), np.nan), weights)
    return CODE[head].row_metrics[name](np.asarray(labels, np.float64), outputs, weights)


def judged_labels(entry: Objective, labels: NDArray[Any]) -> NDArray[Any]:
    """Labels of an evaluation as `row_metric` expects them, by default without their parts."""
    return CODE[entry.head].judged_labels(entry, labels)


__all__ = ["CODE", "Head", "StepHead", "judged_labels", "make_heads", "row_metric"]
