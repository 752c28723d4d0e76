"""Checks whether the section `retraining` fits the rest of a spec: labels, metrics, slices.

As in `validation`, the checks are generators of problems. This module does not import TensorFlow.
"""

from __future__ import annotations

from feature_specs.errors import Path, Problem, did_you_mean, nearest, unknown
from feature_specs.sections.retraining import GATE_METRICS, MODEL_METRICS, Condition
from feature_specs.spec import FeatureSpec
from feature_specs.validation.validation import Problems


def check_retraining(spec: FeatureSpec) -> Problems:
    """All names exist, and the gate has the metrics for the heads of their objectives."""
    for name in spec.retraining.label_rate:
        path: Path = ("retraining", "label_rate", name)
        if name not in spec.labels:
            yield unknown(path, name, "the name of a label", list(spec.labels))
        elif spec.labels[name].dtype == "string":
            yield Problem(path, f"label {name!r} has words, which have no mean. Remove it.")
    gate: Path = ("retraining", "gate")
    group = spec.retraining.gate.bootstrap.group_by
    if group is not None:
        yield from _check_feature(spec, (*gate, "bootstrap", "group_by"), group)
    for i, condition in enumerate(spec.retraining.gate.conditions or ()):
        place: Path = (*gate, "conditions", i)
        if condition.slice is not None:
            yield from _check_feature(spec, (*place, "slice"), condition.slice)
        yield from _check_metric(spec, (*place, "metric"), condition)


def _check_feature(spec: FeatureSpec, path: Path, name: str) -> Problems:
    feature = spec.features.get(name)
    if feature is None:
        yield unknown(path, name, "the name of a feature", list(spec.features))
    elif not feature.single or feature.decode is not None or feature.dtype == "float32":
        yield Problem(path, f"feature {name!r} must be a single string or integer per row")


def _check_metric(spec: FeatureSpec, path: Path, condition: Condition) -> Problems:
    if condition.metric in MODEL_METRICS:
        return
    metric, _, objective = condition.metric.partition("/")
    known = [
        f"{kind.name}/{key}"
        for key, entry in spec.objectives.items()
        for kind in entry.judged_by
        if entry.judged
    ]
    if condition.metric in known:
        return
    entry = spec.objectives.get(objective)
    if entry is not None and not entry.judged:
        yield Problem(
            path,
            f"the gate has no metric of the head {entry.head} yet"
            + (" with steps" if entry.steps_in_row is not None else ""),
        )
    elif entry is not None:
        names = [kind.name for kind in entry.judged_by]
        own = ", ".join(f"{name}/{objective}" for name in names)
        # A metric of another head is not a typing mistake, so no similar name is suggested.
        hint = nearest(metric, names) if metric not in {*GATE_METRICS, *MODEL_METRICS} else ""
        yield Problem(
            path,
            f"got {condition.metric!r}, expected a metric that the gate has for the head "
            f"{entry.head}" + (hint or f". Use one of: {own}."),
        )
    else:
        hint = did_you_mean(condition.metric, [*known, *MODEL_METRICS])
        yield Problem(path, f"got {condition.metric!r}, expected a metric of the gate{hint}")
