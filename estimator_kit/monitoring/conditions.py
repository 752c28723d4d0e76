"""What the conditions of the section `monitoring` say about the version that is live.

    findings = judge(spec.monitoring, periods, live=7, at_gate={"auc/click": 0.71})

A condition reads the newest periods of the live version that can be judged: the period is over,
its labels had their time if the metric needs them, and it has at least `min_rows` rows. The
condition is broken if the newest `periods` of them all break it. So one bad period does not count
if the next one is good, and periods with few rows neither break nor repair anything; the finding
says why the newest one does not count. A period without any log has no request. This module uses
neither TensorFlow nor the disk.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Optional

from estimator_kit.model.heads import row_metrics
from estimator_kit.monitoring.results import Finding, Metric, PeriodResult, VersionResult
from feature_specs.errors import counted
from feature_specs.heads import METRICS
from feature_specs.sections.monitoring import OF_REQUESTS, MonitorCondition, Monitoring

# The name of a period, its metric, and whether it breaks the condition.
_Judged = tuple[str, Metric, bool]


def judge(
    section: Monitoring,
    periods: Sequence[PeriodResult],
    *,
    live: Optional[int],
    at_gate: Mapping[str, float],
    silent: Sequence[str] = (),
) -> list[Finding]:
    """All findings, in the order of the conditions; of slices, the values in alphabetical order.

    Args:
      section: the section of the spec.
      periods: all periods, the oldest first.
      live: the version that is live, or None.
      at_gate: the metrics of that version at the gate of its cycle.
      silent: the names of later periods, which are over and have no log, the oldest first.
    """
    own = [
        (period, version)
        for period in periods
        for version in period.versions
        if version.version == live and live is not None and period.over
    ]
    findings: list[Finding] = []
    for condition in section.conditions:
        needs_gate = condition.max_loss is not None
        if needs_gate and condition.metric not in at_gate:
            note = "the gate has no evaluation of the live version, so max_loss is not judged"
            findings.append(_finding(condition, "", None, [], note))
            continue
        before = at_gate.get(condition.metric)
        if condition.slice is None:
            judged = list(_judged(condition, own, "", before))
            if live is not None and condition.metric in OF_REQUESTS:
                nothing = Metric(value=0.0, rows=0)
                is_broken = _is_broken(condition, nothing, before)
                judged += [(name, nothing, is_broken) for name in silent]
            findings.append(_verdict(condition, "", judged, own))
            continue
        names = {
            name
            for _, version in own
            for name in version.slices.get(condition.metric, {})
            if name.startswith(f"{condition.slice}=")
        }
        of_slices = {name: list(_judged(condition, own, name, before)) for name in sorted(names)}
        findings += [
            _verdict(condition, name, judged, own) for name, judged in of_slices.items() if judged
        ]
        if not any(of_slices.values()):
            findings.append(_verdict(condition, condition.slice, [], []))
    return findings


def text_of(condition: MonitorCondition) -> str:
    """The condition, for example `auc/click min 0.7`."""
    bounds = ((key, getattr(condition, key)) for key in ("min", "max", "max_loss"))
    texts = [
        f"{key} {bound if isinstance(bound, str) else f'{bound:g}'}"
        for key, bound in bounds
        if bound is not None
    ]
    return " ".join([condition.metric, *texts])


def _judged(
    condition: MonitorCondition,
    own: Sequence[tuple[PeriodResult, VersionResult]],
    where: str,
    before: Optional[float],
) -> Iterator[_Judged]:
    for period, version in own:
        metric = _metric(condition, version, where)
        if metric is not None and not _why_not(condition, period, metric):
            yield period.name, metric, _is_broken(condition, metric, before)


def _why_not(condition: MonitorCondition, period: PeriodResult, metric: Optional[Metric]) -> str:
    """Why a period does not count; empty if it does."""
    if condition.of_rows and not period.final:
        return "its labels are still open"
    if metric is None:
        return "it was not measured"
    if metric.rows < condition.min_rows and condition.metric not in OF_REQUESTS:
        return f"{counted(metric.rows, 'row')}, fewer than min_rows {condition.min_rows}"
    return "it is not defined" if metric.value is None else ""


def _metric(condition: MonitorCondition, version: VersionResult, where: str) -> Optional[Metric]:
    """The value that a condition bounds; None if it was not measured."""
    if where:
        return version.slices.get(condition.metric, {}).get(where)
    if condition.of_rows:
        return version.metrics.get(condition.metric)
    kind, _, name = condition.metric.partition("/")
    value: Optional[float] = None
    if kind in OF_REQUESTS:
        value = float(getattr(version, kind))
    elif kind == "score_drift":
        score = version.scores.get(name)
        value = score.drift if score is not None else None
    else:
        feature = version.features.get(name)
        value = getattr(feature, kind) if feature is not None else None
    return Metric(value=value, rows=version.rows) if value is not None else None


def _is_broken(condition: MonitorCondition, metric: Metric, before: Optional[float]) -> bool:
    """Whether even the better end of the interval breaks a bound; without interval, the value."""
    assert metric.value is not None, "a metric without a value is not judged"
    low = high = metric.value
    if condition.by == "interval" and metric.low is not None and metric.high is not None:
        low, high = metric.low, metric.high
    if condition.min is not None and high < condition.min:
        return True
    if condition.max is not None and low > condition.max:
        return True
    if condition.max_loss is None or before is None:
        return False
    name = condition.metric.partition("/")[0]
    least = min(_badness(name, value) for value in _candidates(name, low, high))
    return least - _badness(name, before) > condition.loss_allowed(before)


def _candidates(name: str, low: float, high: float) -> list[float]:
    """The ends of an interval; if 1 is best and inside, 1."""
    is_inside = METRICS[name].better == "one" and low <= 1 <= high
    return [1.0] if is_inside else [low, high]


def _badness(name: str, value: float) -> float:
    badness = row_metrics.badness(name, value)
    return math.inf if math.isnan(badness) else badness


def _verdict(
    condition: MonitorCondition,
    where: str,
    judged: list[_Judged],
    own: Sequence[tuple[PeriodResult, VersionResult]],
) -> Finding:
    newest = judged[-condition.periods :]
    last = ""
    if own:
        period, version = own[-1]
        why = _why_not(condition, period, _metric(condition, version, where))
        last = f"{period.name} does not count: {why}" if why else ""
    if not newest:
        note = "no period of the live version can be judged"
        return _finding(condition, where, None, [], f"{note}; {last}" if last else note)
    broken = len(newest) == condition.periods and all(entry[2] for entry in newest)
    note = ""
    if not broken and all(entry[2] for entry in newest):
        note = f"{condition.periods} periods decide"
    notes = "; ".join(filter(None, [note, last]))
    return _finding(condition, where, broken, newest, notes)


def _finding(
    condition: MonitorCondition,
    where: str,
    broken: Optional[bool],
    newest: list[_Judged],
    note: str,
) -> Finding:
    return Finding(
        text=text_of(condition),
        slice=where,
        then=condition.then,
        broken=broken,
        periods=[entry[0] for entry in newest],
        values=[entry[1].value for entry in newest],
        note=note,
    )
