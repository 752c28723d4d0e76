"""What the report page of a cycle of retraining shows before the sections of its training.

It draws the report of the cycle and its `drift.json`, and reads nothing.
"""

from __future__ import annotations

from typing import Any, Optional

import plotly.graph_objects as go

from estimator_kit.observing.outcome import number
from estimator_kit.observing.page import charts
from estimator_kit.observing.page.sections import Section, with_charts
from estimator_kit.retraining.cycle_report import Report
from estimator_kit.retraining.data_checks import Drift, Measure
from estimator_kit.retraining.gate import Finding
from feature_specs.statistics import population

# How many distributions the page shows, the worst first.
_MOST_FEATURES = 30


def sections(report: Report, drift: Optional[Drift]) -> list[Section]:
    """The sections of a cycle."""
    all_sections = [_cycle(report), _gate(report), _drift(drift)]
    return [section for section in all_sections if section is not None]


def start_of(report: Report) -> str:
    """The model that a cycle started from, and the reason if it was not the first choice."""
    start = report.start
    if start is None:
        return ""
    source = f" (cycle {start.cycle})" if start.cycle else ""
    reason = f": {start.reason}" if start.reason else ""
    return f"{start.kind}{source}{reason}"


def difference(finding: Finding) -> str:
    """The interval of candidate minus live of a condition, or "" if the gate measured none."""
    if finding.low is None or finding.high is None:
        return ""
    return f"{finding.low:+.4g} to {finding.high:+.4g}{finding.change.removeprefix('difference')}"


def _cycle(report: Report) -> Section:
    window = report.window
    rows_counted = population(window.rows, window.dropped, "row")
    rows = [
        ["as of", report.as_of or ""],
        ["trained on", f"{_span(window.train)}, {rows_counted}"],
        ["evaluated on", _span(window.evaluate)],
        *([f"left out {name}", why] for name, why in window.left_out.items()),
        ["late", ", ".join(window.late)],
        ["rewritten", ", ".join(window.rewritten)],
        *([finding.verdict, finding.text] for finding in report.checks),
        ["started from", start_of(report)],
        *([f"weights {what}", str(count)] for what, count in report.warm_start.items()),
        ["problem", report.problem or ""],
    ]
    return Section("Cycle", table=(["", ""], [row for row in rows if row[1]]))


def _span(names: list[str]) -> str:
    if not names:
        return "no period"
    return names[0] if len(names) == 1 else f"{len(names)} periods from {names[0]} to {names[-1]}"


def _gate(report: Report) -> Optional[Section]:
    """Every condition with its value; without conditions, the metrics of both models."""
    if not report.gate:
        names = ["metric", "live", "candidate"]
        metrics = [
            [name, number(both.live), number(both.candidate)]
            for name, both in report.metrics.items()
        ]
        text = "The gate of the spec has no conditions, so every candidate goes live."
        return Section("Gate", text, table=(names, metrics)) if metrics else None
    verdicts = {True: "passed", False: "REFUSED", None: "not judged"}
    rows = [
        [
            finding.text,
            finding.slice or "all rows",
            verdicts[finding.passed],
            number(finding.value),
            number(finding.live),
            difference(finding),
            finding.note,
        ]
        for finding in report.gate
    ]
    names = ["condition", "rows", "verdict", "candidate", "live", "candidate - live", "note"]
    text = f"Both models are scored on the same {report.rows_evaluated or 0:,} rows."
    return Section("Gate", text, table=(names, rows))


def _drift(drift: Optional[Drift]) -> Optional[Section]:
    """Both distributions of each feature and label, with the distance and the thresholds."""
    if drift is None or not drift.measures:
        return None
    rows = [
        [
            f"{entry.kind} {entry.name}",
            entry.measure,
            f"{entry.distance:.4f}",
            *("" if limit is None else f"{limit:g}" for limit in (entry.warn, entry.stop)),
            "" if entry.verdict == "-" else entry.verdict,
        ]
        for entry in drift.measures
    ]
    drawn = [entry for entry in drift.measures if entry.parts and entry.measure != "missing"]
    section = with_charts(
        "Drift",
        f"The {drift.rows or 0:,} rows of the new periods, compared with "
        f"{drift.rows_before or 0:,} rows that the cycle as of {drift.compared_with} trained on. "
        "Values that less than 1% of the rows have are not shown. The features with the largest "
        "distances come first.",
        [_distributions(entry) for entry in drawn[:_MOST_FEATURES]],
    )
    table = (["what", "measure", "distance", "warn", "stop", "verdict"], rows)
    return section._replace(table=table) if section is not None else Section("Drift", table=table)


def _distributions(entry: Measure) -> Any:
    thresholds = [
        (key, x) for key, x in (("warn", entry.warn), ("stop", entry.stop)) if x is not None
    ]
    limits = ", ".join(f"{key} {limit:g}" for key, limit in thresholds)
    title = f"{entry.name}: {entry.measure} {entry.distance:.4f}"
    fig = charts.figure(f"{title} ({limits or 'no threshold'})", "", "share", barmode="group")
    names = [part.name for part in entry.parts]
    fig.add_trace(go.Bar(x=names, y=[part.before for part in entry.parts], name="cycle before"))
    fig.add_trace(go.Bar(x=names, y=[part.now for part in entry.parts], name="new periods"))
    fig.update_xaxes(type="category", automargin=True)
    return fig
