"""`monitor.html`: what live versions answered, in one page.

It draws the report of `monitor.json`, and reads nothing.
"""

from __future__ import annotations

import datetime
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Optional

import plotly.graph_objects as go

from estimator_kit.monitoring.results import MonitorReport, PeriodResult, VersionResult
from estimator_kit.observing.outcome import number
from estimator_kit.observing.page import charts
from estimator_kit.observing.page.sections import Section, with_charts
from feature_specs.errors import counted

# How many periods have a row in the table, how many lines a chart of features has, and how many
# labels an axis has.
_MOST_ROWS, _MOST_LINES, _MOST_TICKS = 60, 8, 12

_Numbers = Callable[[VersionResult], Optional[float]]


def headline(report: MonitorReport) -> str:
    """What is live, and whether a condition is broken, in one sentence."""
    at = datetime.datetime.fromtimestamp(report.until, tz=datetime.timezone.utc)
    live = f"version {report.live} is live" if report.live is not None else "no version is live"
    verdicts = [finding.broken for finding in report.findings]
    broken, open_ = verdicts.count(True), verdicts.count(None)
    state = f"{counted(broken, 'condition')} broken" if broken else "no condition is broken"
    if open_:
        state += f", {open_:,} of {len(verdicts):,} not judged"
    return f"{live}; {state}; as of {at.strftime('%Y-%m-%d %H:%M UTC')}"


def sections(report: MonitorReport) -> list[Section]:
    """The sections of the page."""
    shown = [
        _conditions(report),
        _canary(report),
        _metrics(report.periods),
        _requests(report.periods),
        _labels(report.periods),
        _scores(report.periods),
        _features(report.periods),
        _slices(report.periods),
        _table(report.periods),
        _notes(report),
    ]
    return [section for section in shown if section is not None]


def _conditions(report: MonitorReport) -> Section:
    words = {True: "BROKEN", False: "kept", None: "not judged"}
    rows = [
        [
            finding.text,
            finding.slice or "all rows",
            words[finding.broken],
            finding.then.replace("_", " "),
            ", ".join(f"{name}: {number(v)}" for name, v in zip(finding.periods, finding.values)),
            finding.note,
        ]
        for finding in report.findings
    ]
    rolled_back = [
        f"Version {bad} was rolled back; version {by} replaced it."
        for bad, by in report.rolled_back.items()
    ]
    intro = " ".join(
        [
            *rolled_back,
            "Conditions of the section monitoring of the spec, for the version that is live.",
        ]
    )
    if not rows:
        none = "The section monitoring of the spec has no conditions."
        return Section("Conditions", " ".join([*rolled_back, none]))
    names = ["condition", "rows", "verdict", "then", "newest judged periods", "note"]
    return Section("Conditions", intro, table=(names, rows))


def _canary(report: MonitorReport) -> Optional[Section]:
    if report.canary is None:
        return None
    rows = [
        [each.period, each.metric, *(f"{number(m.value)} ({m.rows:,} rows)" for m in
         (each.live, each.canary)), number(each.difference), _interval(each)]
        for each in report.compared[::-1]
    ]  # fmt: skip
    live = "no version" if report.live is None else f"version {report.live}"
    intro = (
        f"Version {report.canary} is the canary, and {live} is live. Each is measured on "
        "its own requests whose labels are in. `promote` makes the canary live."
    )
    names = ["period", "metric", "live", "canary", "canary - live", "interval"]
    return Section("Canary", intro, table=(names, rows[:_MOST_ROWS]))


def _metrics(periods: Sequence[PeriodResult]) -> Optional[Section]:
    names = _names(periods, lambda version: version.metrics)
    figures = []
    for name in names:
        fig = _figure(periods, name, name)
        for version, points in _by_version(periods):
            with_metric = [(p, v.metrics[name]) for p, v in points if name in v.metrics]
            values = [metric.value for _, metric in with_metric]
            fig.add_trace(
                go.Scatter(
                    x=[period.name for period, _ in with_metric], y=values,
                    mode="lines+markers", name=f"version {version}",
                    text=[f"{metric.rows:,} rows" for _, metric in with_metric],
                    error_y={
                        "type": "data", "symmetric": False,
                        "array": [_length(m.value, m.high) for _, m in with_metric],
                        "arrayminus": [_length(m.low, m.value) for _, m in with_metric],
                    },
                )
            )  # fmt: skip
        figures.append(fig)
    text = (
        "On rows whose labels are in. Bars show the confidence interval. A period whose labels "
        "have not had their time yet may still change."
    )
    return with_charts("Metrics by period", text, figures)


def _length(low: Optional[float], high: Optional[float]) -> float:
    return max(high - low, 0.0) if low is not None and high is not None else 0.0


def _requests(periods: Sequence[PeriodResult]) -> Optional[Section]:
    figures = []
    for name in ("requests", "rows"):
        fig = _figure(periods, name.capitalize(), name, barmode="stack")
        for version, points in _by_version(periods):
            values = [getattr(v, name) for _, v in points]
            x = [period.name for period, _ in points]
            fig.add_trace(go.Bar(x=x, y=values, name=f"version {version}"))
        figures.append(fig)
    return with_charts("Requests by period", "", figures if periods else [])


def _labels(periods: Sequence[PeriodResult]) -> Optional[Section]:
    states = {
        "labeled": "with a label",
        "unlabeled": "without a label after the delay",
        "open": "open",
        "without_key": "without a key",
    }
    if not any(getattr(v, s) for p in periods for v in p.versions for s in states):
        return None
    fig = _figure(periods, "Rows by the state of their labels", "rows", barmode="stack")
    for state, words in states.items():
        totals = [sum(getattr(v, state) for v in period.versions) for period in periods]
        fig.add_trace(go.Bar(x=[period.name for period in periods], y=totals, name=words))
    text = "Labels are open until the delay of the section monitoring has passed."
    return with_charts("Labels", text, [fig])


def _scores(periods: Sequence[PeriodResult]) -> Optional[Section]:
    figures = []
    for name in _names(periods, lambda version: version.scores):
        of_means: dict[str, _Numbers] = {
            "score": functools.partial(_mean_score, name),
            "label": functools.partial(_mean_label, name),
        }
        figures.append(_lines(periods, f"Mean score and label, {name}", "mean", of_means))
        of_drift: dict[str, _Numbers] = {"": functools.partial(_score_drift, name)}
        figures.append(_lines(periods, f"Drift of scores, {name}", "distance", of_drift))
    text = (
        "The drift of scores is their distance from the scores of the same version in its "
        "evaluation: from 0, nothing changed, to 1."
    )
    return with_charts("Scores by period", text, [fig for fig in figures if fig is not None])


def _mean_score(name: str, version: VersionResult) -> Optional[float]:
    return version.scores[name].mean if name in version.scores else None


def _mean_label(name: str, version: VersionResult) -> Optional[float]:
    return version.label_means.get(name)


def _score_drift(name: str, version: VersionResult) -> Optional[float]:
    return version.scores[name].drift if name in version.scores else None


def _features(periods: Sequence[PeriodResult]) -> Optional[Section]:
    """Drift, missing and unknown values of the features with the largest values."""
    figures = []
    for what, title, y in (
        ("drift", "Drift of features from the training", "distance"),
        ("missing", "Rows without a value", "share"),
        ("unknown", "Values outside of the vocabulary", "share"),
    ):
        values: dict[str, dict[str, float]] = {}
        for period in periods:
            for version in period.versions:
                for name, feature in version.features.items():
                    value = getattr(feature, what)
                    if value is not None:
                        by_period = values.setdefault(name, {})
                        by_period[period.name] = max(value, by_period.get(period.name, 0.0))
        worst = sorted(values, key=lambda name: (-max(values[name].values()), name))
        if not worst:
            continue
        fig = _figure(periods, title, y)
        for name in worst[:_MOST_LINES]:
            points = values[name]
            fig.add_trace(
                go.Scatter(x=[*points], y=[*points.values()], mode="lines+markers", name=name)
            )
        figures.append(fig)
    newest, where = next(
        ((v, p.name) for p in reversed(periods) for v in reversed(p.versions) if v.features),
        (None, ""),
    )
    text = (
        f"The {_MOST_LINES} features with the largest values; of several versions in a period, the "
        "worst."
    )
    if newest is not None:
        text += f" The table is of version {newest.name} in {where}."
    section = with_charts("Features by period", text, figures)
    if section is None or newest is None:
        return section
    rows = [
        [name, f.measure or "", *map(number, (f.drift, f.missing, f.unknown)), "; ".join(f.moved)]
        for name, f in sorted(newest.features.items(), key=lambda pair: -(pair[1].drift or 0.0))
    ]
    names = ["feature", "measure", "drift", "missing", "unknown", "what moved"]
    return section._replace(table=(names, rows))


def _slices(periods: Sequence[PeriodResult]) -> Optional[Section]:
    rows = [
        [period.name, version.name, metric, where, number(value.value), _interval(value),
         f"{value.rows:,}"]
        for period in periods[::-1]
        for version in version_order(period)
        for metric, by_slice in version.slices.items()
        for where, value in by_slice.items()
    ]  # fmt: skip
    names = ["period", "version", "metric", "slice", "value", "interval", "rows"]
    return Section("Slices", table=(names, rows[:_MOST_ROWS])) if rows else None


def _interval(metric: Any) -> str:
    if metric.low is None or metric.high is None:
        return ""
    return f"{number(metric.low)} to {number(metric.high)}"


def version_order(period: PeriodResult) -> list[VersionResult]:
    """The versions of a period, the newest first."""
    return period.versions[::-1]


def _table(periods: Sequence[PeriodResult]) -> Section:
    metrics = _names(periods, lambda version: version.metrics)
    rows = [
        [
            period.name,
            version.name,
            "labels complete" if period.final else "over" if period.over else "not over",
            *(f"{getattr(version, n):,}" for n in ("requests", "rows", "labeled", "unlabeled")),
            f"{version.open / version.rows:.0%}" if version.rows else "",
            *(number(version.metrics[n].value) if n in version.metrics else "" for n in metrics),
        ]
        for period in periods[::-1]
        for version in version_order(period)
    ]
    names = ["period", "version", "state", "requests", "rows", "labeled", "unlabeled", "open"]
    older = f" Older rows are in monitor.json: {len(rows) - _MOST_ROWS:,}."
    intro = "The newest first." + (older if len(rows) > _MOST_ROWS else "")
    return Section("Periods", intro, table=([*names, *metrics], rows[:_MOST_ROWS]))


def _notes(report: MonitorReport) -> Optional[Section]:
    newest: dict[tuple[str, str], str] = {}
    for period in report.periods:
        for version in period.versions:
            for note in version.notes:
                newest[version.name, note] = period.name
    rows = [[f"version {version}", note, period] for (version, note), period in newest.items()]
    rows += [["not read", f"{count:,} {why}", ""] for why, count in report.not_read.items()]
    rows += [["left out", why, ""] for why in report.left_out.values()]
    return Section("Notes", table=(["what", "note", "newest period"], rows)) if rows else None


def _names(periods: Sequence[PeriodResult], of: Callable[[VersionResult], Any]) -> list[str]:
    """The names in a mapping of all versions, each once."""
    return list(dict.fromkeys(n for p in periods for v in p.versions for n in of(v)))


def _by_version(
    periods: Sequence[PeriodResult],
) -> Iterator[tuple[str, list[tuple[PeriodResult, VersionResult]]]]:
    """The results of each version, the oldest version first."""
    points: dict[str, list[tuple[PeriodResult, VersionResult]]] = {}
    for period in periods:
        for version in period.versions:
            points.setdefault(version.name, []).append((period, version))
    yield from sorted(points.items(), key=lambda pair: (len(pair[0]), pair[0]))


def _lines(
    periods: Sequence[PeriodResult], title: str, y: str, numbers: dict[str, _Numbers]
) -> Optional[Any]:
    """A line of each version for each kind of numbers; None without numbers."""
    fig = _figure(periods, title, y)
    for version, points in _by_version(periods):
        for words, of in numbers.items():
            pairs = [(period.name, of(result)) for period, result in points]
            pairs = [(name, value) for name, value in pairs if value is not None]
            if pairs:
                x, values = zip(*pairs)
                name = f"version {version} {words}".rstrip()
                fig.add_trace(go.Scatter(x=x, y=values, mode="lines+markers", name=name))
    return fig if fig.data else None


def _figure(periods: Sequence[PeriodResult], title: str, y: str, **layout: Any) -> Any:
    """A figure whose horizontal axis has all periods in their order, as names."""
    fig = charts.figure(title, "period", y, **layout)
    fig.update_xaxes(
        type="category", nticks=_MOST_TICKS, tickangle=-30, automargin=True,
        categoryorder="array", categoryarray=[period.name for period in periods],
    )  # fmt: skip
    fig.update_layout(legend_y=-0.5)  # Below the names of the periods and the title of the axis.
    return fig
