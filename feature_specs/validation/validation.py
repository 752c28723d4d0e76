"""Checks whether the entries of a spec fit each other: names exist and refer to the right things.

Each check is a generator of problems. It needs a spec whose single entries are valid. Checks do not
stop each other, so a user sees all problems at once. `parser` runs the checks. This module does not
import TensorFlow.
"""

from __future__ import annotations

from collections.abc import Iterator

from feature_specs.errors import Path, Problem, did_you_mean, nearest, unknown
from feature_specs.kinds import Identity, Vocabulary
from feature_specs.sections.monitoring import OF_FEATURES, OF_OBJECTIVES, OF_REQUESTS
from feature_specs.sections.retraining import (
    GATE_METRICS,
    MODEL_METRICS,
    SHADOW_METRICS,
    Condition,
)
from feature_specs.spec import FeatureSpec

Problems = Iterator[Problem]


def check_columns(spec: FeatureSpec) -> Problems:
    """Every source of a column exists and has the right type. Each kind has its own checks.

    Only `check_cycles` reports a column that is made from itself.
    """
    for name, column in spec.columns.items():
        yield from column.problems(spec, name)


def check_lists_of_lists(spec: FeatureSpec) -> Problems:
    """Only ragged columns read a list of lists."""
    for name, column in spec.columns.items():
        yield from column.nested_problems(spec, name)


def check_cycles(spec: FeatureSpec) -> Problems:
    """No column is made from itself."""

    seen: set[str] = set()
    reported: set[str] = set()
    for start in spec.columns:
        trail = [start]
        stack = [iter(spec.columns[start].parents(spec))]
        while stack:
            for name in stack[-1]:
                if name in trail:
                    cycle = [*trail[trail.index(name) :], name]
                    if not reported.intersection(cycle):
                        reported.update(cycle)
                        yield Problem(("columns", name), _cycle_text(spec, cycle))
                elif name not in seen:
                    seen.add(name)
                    trail.append(name)
                    stack.append(iter(spec.columns[name].parents(spec)))
                    break
            else:
                stack.pop()
                trail.pop()


def _cycle_text(spec: FeatureSpec, cycle: list[str]) -> str:
    if len(cycle) > 2:
        return f"columns form a cycle: {' -> '.join(cycle)}. Change a source to break it."
    if cycle[0] in spec.features:
        return f"the column is made from itself. Rename it, so that {cycle[0]!r} means the feature."
    return "the column is made from itself. Name a feature or another column."


def check_drift(spec: FeatureSpec) -> Problems:
    """Thresholds name existing features and labels, and measures that fit their dtypes."""
    for section, entries, others in (
        ("features", spec.features, spec.labels),
        ("labels", spec.labels, spec.features),
    ):
        for name, measures in getattr(spec.drift, section).items():
            path: Path = ("drift", section, name)
            if name not in entries:
                what = section[:-1]
                if name in others:
                    other = "labels" if section == "features" else "features"
                    yield Problem(path, f"{name!r} is not a {what}. Move it to drift.{other}.")
                else:
                    yield unknown(path, name, f"the name of a {what}", list(entries))
                continue
            dtype = entries[name].dtype
            decode = spec.features[name].decode if section == "features" else None
            if decode is not None and (measures.l_infinity or measures.jensen_shannon):
                yield Problem(
                    path,
                    f"{name!r} is decoded from bytes. Drift only measures how often they are "
                    "missing. Set only missing.",
                )
                continue
            classes = section == "labels" and (
                spec.label_classes(name) is not None or spec.items_of_label(name) is not None
            )
            if measures.l_infinity is not None and dtype == "float32" and not classes:
                yield Problem(
                    (*path, "l_infinity"),
                    f"{name!r} is float32, but l_infinity is for categories. Use jensen_shannon.",
                )
            if measures.jensen_shannon is not None and dtype == "string":
                yield Problem(
                    (*path, "jensen_shannon"),
                    f"{name!r} is a string, but jensen_shannon is for numbers. Use l_infinity.",
                )


def check_filter(spec: FeatureSpec) -> Problems:
    """Filters name features with one value, and their conditions fit the dtypes."""
    for i, entry in enumerate(spec.filter):
        path: Path = ("filter", i)
        feature = spec.features.get(entry.feature)
        if feature is None:
            choices = list(spec.features)
            yield unknown((*path, "feature"), entry.feature, "the name of a feature", choices)
        elif not feature.single:
            yield Problem(
                (*path, "feature"),
                f"feature {entry.feature!r} has {feature.form}, expected one value per row",
            )
        elif feature.decode is not None:
            yield Problem(
                (*path, "feature"),
                f"feature {entry.feature!r} has encoded bytes, which a filter cannot compare",
            )
        else:
            for key, message in entry.misfits(feature.dtype):
                yield Problem((*path, key), message)


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
        check = _check_shadow_metric if condition.of_requests else _check_metric
        yield from check(spec, (*place, "metric"), condition)


def check_monitoring(spec: FeatureSpec) -> Problems:
    """All names exist, and logs have the metrics of the conditions."""
    section = spec.monitoring
    if section.key is not None:
        yield from _check_feature(spec, ("monitoring", "key"), section.key)
    for name in section.no_label_means:
        path: Path = ("monitoring", "no_label_means", name)
        label = spec.labels.get(name)
        if label is None:
            yield unknown(path, name, "the name of a label", list(spec.labels))
        elif label.dtype == "string" or not label.single:
            yield Problem(path, f"label {name!r} is not one number. Remove it.")
        elif label.dtype == "int64" and not section.no_label_means[name].is_integer():
            yield Problem(path, f"label {name!r} is int64, expected a whole number")
    if section.intervals.group_by is not None:
        place: Path = ("monitoring", "intervals", "group_by")
        yield from _check_feature(spec, place, section.intervals.group_by)
    for i, condition in enumerate(section.conditions):
        place = ("monitoring", "conditions", i)
        if condition.slice is not None:
            yield from _check_feature(spec, (*place, "slice"), condition.slice)
        if condition.of_rows and section.key is None:
            message = "needs labels. Add key and label_delay to the section monitoring."
            yield Problem((*place, "metric"), message)
        yield from _check_logged_metric(spec, (*place, "metric"), condition)


def _check_logged_metric(spec: FeatureSpec, path: Path, condition: Condition) -> Problems:
    kind = condition.metric.partition("/")[0]
    if kind in GATE_METRICS:
        yield from _check_metric(spec, path, condition)
        return
    measured = [feature for feature in spec.features if feature not in spec.ignored]
    known = [*spec.of_kind(Vocabulary).values(), *spec.of_kind(Identity).values()]
    scored = [name for name, entry in spec.objectives.items() if entry.judged]
    choices = [
        *(f"{kind}/{key}" for kind in OF_FEATURES if kind != "unknown" for key in measured),
        *(f"unknown/{key}" for key in dict.fromkeys(c.source for c in known)),
        *(f"{kind}/{key}" for kind in OF_OBJECTIVES for key in scored),
        *OF_REQUESTS,
    ]
    if condition.metric not in choices:
        metrics = [f"{k.name}/{key}" for key in scored for k in spec.objectives[key].judged_by]
        hint = did_you_mean(condition.metric, [*choices, *metrics])
        yield Problem(path, f"got {condition.metric!r}, expected a metric of logs{hint}")


def _check_feature(spec: FeatureSpec, path: Path, name: str) -> Problems:
    feature = spec.features.get(name)
    if feature is None:
        yield unknown(path, name, "the name of a feature", list(spec.features))
    elif not feature.single or feature.decode is not None or feature.dtype == "float32":
        yield Problem(path, f"feature {name!r} must be a single string or integer per row")


def _check_shadow_metric(spec: FeatureSpec, path: Path, condition: Condition) -> Problems:
    metric, _, objective = condition.metric.partition("/")
    judged = {name: entry for name, entry in spec.objectives.items() if entry.judged}
    entry = judged.get(objective)
    if entry is None:
        hint = did_you_mean(condition.metric, [f"{metric}/{name}" for name in judged])
        yield Problem(path, f"got {condition.metric!r}, expected an objective with scores{hint}")
    elif metric != SHADOW_METRICS[0] and entry.answer is not None and entry.answer.wide:
        yield Problem(
            path,
            f"the head {entry.head} answers a row with several numbers, which have no order. Use "
            f"{SHADOW_METRICS[0]}/{objective}.",
        )
    private = [name for name in spec.used_features() if spec.features[name].private]
    if private:
        yield Problem(
            path,
            f"the model reads the private feature {private[0]!r}, which request logs do not have, "
            "so no model can answer logged requests. Remove the condition, or `private`.",
        )


def _check_metric(spec: FeatureSpec, path: Path, condition: Condition) -> Problems:
    if condition.metric in MODEL_METRICS:
        return
    metric, _, objective = condition.metric.partition("/")
    choices = [
        f"{kind.name}/{key}"
        for key, entry in spec.objectives.items()
        for kind in entry.judged_by
        if entry.judged
    ]
    if condition.metric in choices:
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
        shadow = [f"{kind}/{key}" for kind in SHADOW_METRICS for key in spec.objectives]
        hint = did_you_mean(condition.metric, [*choices, *shadow, *MODEL_METRICS])
        yield Problem(path, f"got {condition.metric!r}, expected a metric of the gate{hint}")
