"""The conditions of a gate whose spec names none: a candidate may not be clearly worse.

`HeadEntry.judged_by` tells by which metrics an objective is judged. The conditions hold for any
data, so they are relative or have a known scale. For each objective:

    metric                             candidate alone   compared with the live model
    auc, concordance                   at least 0.5      the interval of the loss is within 0.02
    accuracy                                             the same
    log_loss, mean_absolute_error                        the interval is within 5%
    calibration                        from 0.5 to 2     the loss of abs(log) is within 0.2
    the head's first metric, slices                      the loss is within 0.1, or 25%

`mean_squared_error` has no condition: a few rows decide its interval. Slices are the values of each
feature that a categorical column with at most 50 ids reads alone; a slice of fewer than 1,000 rows
is not judged, and larger losses are allowed, because there are many slices. Of `calibration` and
slices, the estimate counts, not the interval.

If the predictions of an objective are not meant as probabilities (`HeadEntry.calibrated`, and the
model), `log_loss` and `calibration` have no condition, unless the head has no other metric.

A spec that names conditions gets only those. This module changes no spec on disk.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from feature_specs.sections.retraining import GATE_METRICS, Condition, Gate
from feature_specs.spec import FeatureSpec

_CONDITIONS: dict[str, tuple[dict[str, Any], ...]] = {
    "auc": ({"min": 0.5}, {"max_loss": 0.02}),
    "concordance": ({"min": 0.5}, {"max_loss": 0.02}),
    "accuracy": ({"max_loss": 0.02},),
    "log_loss": ({"max_loss": "5%"},),
    "mean_absolute_error": ({"max_loss": "5%"},),
    "mean_squared_error": (),
    "calibration": ({"min": 0.5, "max": 2.0}, {"max_loss": 0.2, "by": "estimate"}),
}

if {*_CONDITIONS} != {*GATE_METRICS}:
    raise TypeError(f"_CONDITIONS: expected the metrics {', '.join(GATE_METRICS)}")

_MOST_IDS = 50
_LEAST_ROWS = 1000


def gate_of(spec: FeatureSpec, *, calibrated: bool = True) -> Gate:
    """The gate of a spec, with the conditions of this module if the spec names none.

    Args:
      spec: the feature spec.
      calibrated: `ModelFn.calibrated` of the model.
    """
    gate = spec.retraining.gate
    if gate.conditions is not None:
        return gate
    return gate.model_copy(update={"conditions": tuple(_conditions(spec, calibrated))})


def _conditions(spec: FeatureSpec, calibrated: bool) -> Iterator[Condition]:
    slices = _slices(spec)
    for name, entry in spec.objectives.items():
        if not entry.judged:
            continue
        by = entry.judged_by
        if not (calibrated and entry.calibrated):
            by = tuple(kind for kind in by if not kind.of_probabilities) or by[:1]
        for metric in by:
            for bounds in _CONDITIONS[metric.name]:
                yield Condition(metric=f"{metric.name}/{name}", **bounds)
        first = by[0]
        for feature in slices:
            yield Condition(
                metric=f"{first.name}/{name}",
                # Without an upper bound of the metric, the loss is relative.
                max_loss=0.1 if first.range == (0, 1) else "25%",
                by="estimate",
                slice=feature,
                min_rows=_LEAST_ROWS,
            )


def _slices(spec: FeatureSpec) -> list[str]:
    """The features whose values are slices, in the order of the columns."""
    features_of_slices: dict[str, None] = {}
    for column in spec.columns.values():
        features = list(column.features(spec))
        if not column.categorical or column.keyed or len(features) != 1:
            continue
        if column.id_count(spec) > _MOST_IDS:
            continue
        feature = spec.features[features[0]]
        if feature.single and feature.decode is None and feature.dtype != "float32":
            features_of_slices[features[0]] = None
    return list(features_of_slices)
