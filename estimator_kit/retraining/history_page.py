"""`history.html` of a retraining directory: all cycles in one page.

It draws the reports that the cycles have written with their `drift.json`, and the versions of the
serving directory. It reads nothing.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any, Optional

import plotly.graph_objects as go

from estimator_kit.observing.outcome import number
from estimator_kit.observing.page import charts
from estimator_kit.observing.page.sections import Section, with_charts
from estimator_kit.retraining.cycle_page import difference, start_of
from estimator_kit.retraining.cycle_report import Report
from estimator_kit.retraining.data_checks import Drift
from estimator_kit.retraining.promotion import PastVersion
from feature_specs.errors import counted

_COLORS = {"promoted": charts.COLORS[2], "refused": charts.COLORS[7]}
# How many features the chart of drift shows, and how many labels of periods an axis has.
_MOST_LINES, _MOST_TICKS = 8, 12

# All versions and canaries, the oldest first: `live`, `canary`, `kept` or `removed`.
Versions = Sequence[tuple[PastVersion, str]]


def headline(reports: Sequence[Report], versions: Versions) -> str:
    """What is live, in one sentence."""
    count = f"{counted(len(reports), 'cycle')} of retraining"
    live = next((version for version, state in versions if state == "live"), None)
    if live is None:
        return f"{count}; no model is live yet"
    return f"{count}; version {live.version} is live ({_origin(live)}, since {_time(live.at)})"


def sections(
    reports: Sequence[Report], drifts: Sequence[Optional[Drift]], versions: Versions
) -> list[Section]:
    """The sections of the page.

    Args:
      reports: the reports of all cycles, the oldest first.
      drifts: the `drift.json` of each of them.
      versions: see `Versions`.
    """
    all_sections = [
        _cycles(reports),
        _not_promoted(reports),
        _metrics(reports),
        _versions(versions),
        _labels(reports),
        _drift(reports, drifts),
        _data(reports),
        _warnings(reports),
        _seconds(reports),
    ]
    return [section for section in all_sections if section is not None]


def _cycles(reports: Sequence[Report]) -> Section:
    rows = [
        [
            report.cycle,
            report.label or "",
            report.outcome,
            str(report.version or ""),
            f"{report.window.rows:,}",
            start_of(report),
            str(len(report.checks)),
            "; ".join(f"{name}: {why}" for name, why in report.window.left_out.items()),
        ]
        for report in reports[::-1]
    ]
    names = [
        "cycle",
        "evaluated on",
        "outcome",
        "version",
        "rows",
        "started from",
        "warnings",
        "left out",
    ]
    return Section("Cycles, the newest first", table=(names, rows))


def _not_promoted(reports: Sequence[Report]) -> Optional[Section]:
    """A row for each failed condition, and for each error."""
    rows = []
    for report in reports[::-1]:
        place = [report.cycle, report.label or "", report.outcome]
        for finding in report.failed:
            condition = f"{finding.text} ({finding.slice})" if finding.slice else finding.text
            values = [number(finding.value), number(finding.live)]
            rows.append([*place, condition, *values, difference(finding), finding.note])
        if not report.failed and report.problem:
            rows.append([*place, "", "", "", "", report.problem])
    if not rows:
        return None
    names = [
        "cycle", "evaluated on", "outcome", "failed condition", "candidate", "live",
        "candidate - live", "problem",
    ]  # fmt: skip
    return Section("Refused, stopped and failed cycles", table=(names, rows))


def _metrics(reports: Sequence[Report]) -> Optional[Section]:
    names = dict.fromkeys(name for report in reports for name in report.metrics)
    return with_charts(
        "Live and candidate by cycle",
        "Both models are scored on the same rows, which are newer than the training. Bars show the "
        "interval of a metric, if a condition of the gate names it. A cross marks a cycle that was "
        "not promoted.",
        [_metric(reports, name) for name in names],
    )


def _metric(reports: Sequence[Report], name: str) -> Any:
    with_metric = [report for report in reports if name in report.metrics]
    fig = _by_cycle(reports, name, name)
    both = [report.metrics[name] for report in with_metric]
    for whose, values in (
        ("live", [each.live for each in both]),
        ("candidate", [each.candidate for each in both]),
    ):
        intervals = [report.intervals.get(name, {}).get(whose) for report in with_metric]
        marker: dict[str, Any] = {"size": 7}
        if whose == "candidate":
            marker = {
                "size": 9,
                "symbol": ["circle" if r.outcome == "promoted" else "x" for r in with_metric],
                "color": [_COLORS.get(r.outcome, charts.COLORS[3]) for r in with_metric],
            }
        fig.add_trace(
            go.Scatter(
                x=_labels_of(reports, with_metric), y=values, mode="lines+markers", name=whose,
                text=[" ".join([r.outcome, *r.reasons]) for r in with_metric], marker=marker,
                error_y={
                    "type": "data", "symmetric": False,
                    "array": [i[1] - v if i and v is not None else 0.0
                              for i, v in zip(intervals, values)],
                    "arrayminus": [v - i[0] if i and v is not None else 0.0
                                   for i, v in zip(intervals, values)],
                },
            )
        )  # fmt: skip
    return fig


def _versions(versions: Versions) -> Optional[Section]:
    rows = [
        [str(each.version), state, _time(each.at), _origin(each), str(each.parent or "")]
        for each, state in versions[::-1]
    ]
    if not rows:
        return None
    rollbacks = sum(each.rollback_of is not None for each, _ in versions)
    went_live = sum(each.label is None for each, _ in versions)
    return Section(
        "Versions and rollbacks",
        f"Versions that went live: {went_live}, of them by a rollback: {rollbacks}.",
        table=(["version", "state", "live since", "made by", "replaced version"], rows),
    )


def _origin(version: PastVersion) -> str:
    source = f"cycle {version.cycle}" if version.cycle else "another program"
    if version.label is not None:
        return f"{source}, as a canary"
    if version.canary is not None:
        return f"promotion of canary {version.canary}, {source}"
    if version.rollback_of is None:
        return source
    return f"rollback to version {version.rollback_of}, {source}"


def _time(seconds: Optional[float]) -> str:
    if seconds is None:
        return "unknown"
    at = datetime.datetime.fromtimestamp(seconds, tz=datetime.timezone.utc)
    return at.strftime("%Y-%m-%d %H:%M UTC")


def _labels(reports: Sequence[Report]) -> Optional[Section]:
    means: dict[str, dict[str, float]] = {}
    for report in reports:
        for label, by_period in report.label_means.items():
            means.setdefault(label, {}).update(by_period)
    figures = []
    for label, by_period in means.items():
        names = sorted(by_period)
        fig = _figure(f"Mean of the label {label}", "period of the data", "mean")
        fig.add_trace(
            go.Scatter(
                x=names, y=[by_period[each] for each in names], mode="lines+markers", name=label
            )
        )
        figures.append(fig)
    text = "For a label that is 0 or 1, the mean is the share of positives."
    return with_charts("Label rates", text, figures)


def _drift(reports: Sequence[Report], drifts: Sequence[Optional[Drift]]) -> Optional[Section]:
    """The distance of each feature, as a share of its threshold."""
    distances: dict[str, dict[str, float]] = {}
    for label, drift in zip(_labels_of(reports, reports), drifts):
        for entry in drift.measures if drift is not None else ():
            threshold = entry.stop if entry.stop is not None else entry.warn
            if threshold:
                name = f"{entry.name} {entry.measure}"
                distances.setdefault(name, {})[label] = entry.distance / threshold
    if not distances:
        return None
    worst = sorted(distances, key=lambda name: -max(distances[name].values()))[:_MOST_LINES]
    fig = _by_cycle(reports, "Distance as a share of the threshold", "distance / threshold")
    for name in worst:
        by_period = distances[name]
        fig.add_trace(
            go.Scatter(
                x=list(by_period), y=list(by_period.values()), mode="lines+markers", name=name
            )
        )
    fig.add_hline(y=1.0, line_dash="dot", line_color=charts.COLORS[7])
    text = (
        "How far the new periods of a cycle are from the training of the cycle before. Above the "
        "dotted line, a distance is over its threshold: `stop` in the spec, or `warn` if it has no "
        f"`stop`. The {len(worst)} features with the largest values are shown."
    )
    return with_charts("Drift by cycle", text, [fig])


def _data(reports: Sequence[Report]) -> Optional[Section]:
    labels = _labels_of(reports, reports)
    rows = _by_cycle(reports, "Rows of the training window", "rows")
    rows.add_trace(go.Bar(x=labels, y=[r.window.rows for r in reports], name="rows"))
    figures = [rows]
    for name in dict.fromkeys(name for report in reports for name in report.measured):
        fig = _by_cycle(reports, name, name)
        values = [report.measured.get(name) for report in reports]
        fig.add_trace(go.Scatter(x=labels, y=values, mode="lines+markers", name=name))
        figures.append(fig)
    return with_charts("Data and size by cycle", "", figures)


def _warnings(reports: Sequence[Report]) -> Optional[Section]:
    rows = [
        [report.cycle, report.label or "", finding.verdict, finding.text]
        for report in reports[::-1]
        for finding in report.checks
    ]
    if not rows:
        return None
    return Section("Warnings", table=(["cycle", "evaluated on", "verdict", "finding"], rows))


def _seconds(reports: Sequence[Report]) -> Optional[Section]:
    stages = dict.fromkeys(stage for report in reports for stage in report.seconds)
    fig = _by_cycle(reports, "Seconds by stage", "seconds", barmode="stack")
    for stage in stages:
        values = [report.seconds.get(stage, 0.0) for report in reports]
        fig.add_trace(go.Bar(x=_labels_of(reports, reports), y=values, name=stage))
    return with_charts("Time", "", [fig] if stages else [])


def _by_cycle(reports: Sequence[Report], title: str, y: str, **layout: Any) -> Any:
    """A figure whose horizontal axis has all cycles in their order."""
    fig = _figure(title, "evaluated on", y, **layout)
    order = _labels_of(reports, reports)
    fig.update_xaxes(categoryorder="array", categoryarray=order)
    return fig


def _figure(title: str, x: str, y: str, **layout: Any) -> Any:
    """A figure with periods as names. As dates, their axis would have hours between two days."""
    fig = charts.figure(title, x, y, **layout)
    fig.update_xaxes(type="category", nticks=_MOST_TICKS, tickangle=-30, automargin=True)
    fig.update_layout(legend_y=-0.5)  # Below the names of the periods and the title of the axis.
    return fig


def _labels_of(reports: Sequence[Report], shown: Sequence[Report]) -> list[str]:
    """The label of each cycle, with its name if several cycles have the same label."""
    labels = [report.label for report in reports]
    return [
        report.label
        if report.label and labels.count(report.label) == 1
        else f"{report.label or 'no period'} ({report.cycle})"
        for report in shown
    ]
