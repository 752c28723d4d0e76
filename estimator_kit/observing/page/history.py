"""`history.html` of a retraining directory: all cycles in one page.

It draws the reports that the cycles have written (`retraining.report`), and reads nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Optional

import plotly.graph_objects as go

from estimator_kit.observing.page import charts
from estimator_kit.observing.page.sections import Section, with_charts

_COLORS = {"promoted": charts.COLORS[2], "refused": charts.COLORS[7]}

Report = Mapping[str, Any]


def sections(reports: Sequence[Report]) -> list[Section]:
    """The sections of the page.

    Args:
      reports: the reports of all cycles, the oldest first. See `retraining.report.document`.
    """
    made = [_cycles(reports), _metrics(reports), _data(reports), _seconds(reports)]
    return [section for section in made if section is not None]


def _cycles(reports: Sequence[Report]) -> Section:
    rows = [
        [
            report["cycle"],
            report["as_of"] or "",
            report["outcome"],
            str(report["version"] or ""),
            f"{report['window']['rows']:,}",
            reason(report),
        ]
        for report in reports[::-1]
    ]
    names = ["cycle", "as of", "outcome", "version", "rows", "why"]
    return Section("Cycles, the newest first", table=(names, rows))


def reason(report: Report) -> str:
    """Why a cycle was not promoted: the failed conditions with their values, or the error."""
    failed = [found["sentence"] for found in report["gate"] if found["passed"] is False]
    stopped = [found["text"] for found in report["checks"] if found["verdict"] == "stop"]
    return "; ".join([*failed, *stopped]) or (report["problem"] or "")


def _metrics(reports: Sequence[Report]) -> Optional[Section]:
    names = dict.fromkeys(name for report in reports for name in report["metrics"])
    return with_charts(
        "Live and candidate by cycle",
        "Bars show the interval of the difference from the live model, if the gate measured one. "
        "A cross marks a cycle that was not promoted.",
        [_metric(reports, name) for name in names],
    )


def _metric(reports: Sequence[Report], name: str) -> Any:
    found = [report for report in reports if name in report["metrics"]]
    days = [report["as_of"] or report["cycle"] for report in found]
    fig = charts.figure(name, "as of", name)
    live = [report["metrics"][name].get("live") for report in found]
    candidate = [report["metrics"][name].get("candidate") for report in found]
    fig.add_trace(go.Scatter(x=days, y=live, mode="lines+markers", name="live"))
    intervals = [_interval(report, name) for report in found]
    shown = [
        (before + low, before + high) if None not in (before, low, high) else (value, value)
        for before, value, (low, high) in zip(live, candidate, intervals)
    ]
    fig.add_trace(
        go.Scatter(
            x=days,
            y=candidate,
            mode="lines+markers",
            name="candidate",
            text=[f"{report['outcome']} {reason(report)}" for report in found],
            marker={
                "size": 9,
                "symbol": ["circle" if r["outcome"] == "promoted" else "x" for r in found],
                "color": [_COLORS.get(r["outcome"], charts.COLORS[3]) for r in found],
            },
            error_y={
                "type": "data",
                "symmetric": False,
                "array": [_above(high, v) for (_, high), v in zip(shown, candidate)],
                "arrayminus": [_above(v, low) for (low, _), v in zip(shown, candidate)],
            },
        )
    )
    return fig


def _interval(report: Report, name: str) -> tuple[Optional[float], Optional[float]]:
    for found in report["gate"]:
        of_metric = found["text"].startswith(f"{name} ") and not found["slice"]
        if of_metric and found["low"] is not None:
            return found["low"], found["high"]
    return None, None


def _above(high: Optional[float], low: Optional[float]) -> float:
    return max(0.0, high - low) if high is not None and low is not None else 0.0


def _data(reports: Sequence[Report]) -> Optional[Section]:
    days = [report["as_of"] or report["cycle"] for report in reports]
    rows = charts.figure("Rows of the training window", "as of", "rows")
    rows.add_trace(go.Bar(x=days, y=[r["window"]["rows"] for r in reports], name="rows"))
    figures = [rows]
    names = dict.fromkeys(name for report in reports for name in report["measured"])
    for name in names:
        fig = charts.figure(name, "as of", name)
        values = [report["measured"].get(name) for report in reports]
        fig.add_trace(go.Scatter(x=days, y=values, mode="lines+markers", name=name))
        figures.append(fig)
    warnings = [
        [report["as_of"] or "", found["verdict"], found["text"]]
        for report in reports[::-1]
        for found in report["checks"]
    ]
    section = with_charts("Data by cycle", "", figures)
    if section is None or not warnings:
        return section
    return section._replace(table=(["as of", "verdict", "finding"], warnings))


def _seconds(reports: Sequence[Report]) -> Optional[Section]:
    stages = dict.fromkeys(stage for report in reports for stage in report["seconds"])
    days = [report["as_of"] or report["cycle"] for report in reports]
    fig = charts.figure("Seconds by stage", "as of", "seconds", barmode="stack")
    for stage in stages:
        values = [report["seconds"].get(stage, 0.0) for report in reports]
        fig.add_trace(go.Bar(x=days, y=values, name=stage))
    return with_charts("Time", "", [fig] if stages else [])
