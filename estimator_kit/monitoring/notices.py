"""What tells of monitoring: a textfile for Prometheus, and the page `monitor.html`.

Both are made from the report, and can be made again. Nothing reads them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from estimator_kit.monitoring import results
from estimator_kit.monitoring.results import MonitorReport, VersionResult
from estimator_kit.observing import prometheus
from estimator_kit.observing.page import page


def prometheus_text(report: MonitorReport, *, model_dir: str) -> str:
    """The newest numbers of each version, in Prometheus's text format.

    Counts, shares and drift are of the newest period that is over. Metrics of rows are of the
    newest one whose labels had their time.
    """
    gauges = prometheus.Gauges("estimator_kit_monitoring", model_dir)
    gauge = gauges.add
    gauge("until_timestamp_seconds", "The time of the latest look.", {(): report.until})
    gauge("live_version", "The version that is live.", {(): report.live})
    gauge("roll_back", "Whether a condition says so.", {(): report.roll_back})
    broken = {(f.text, f.slice): bool(f.broken) for f in report.findings if f.broken is not None}
    gauge("broken", "Whether a condition is broken.", broken, "condition", "slice")
    counts, drift, missing, unknown, score_drift, metrics, bounds = ({} for _ in range(7))
    for version, name in _newest(report, final=False):
        for what in ("requests", "rows", "open", "labeled", "unlabeled"):
            counts[name, what] = getattr(version, what)
        for feature, measured in version.features.items():
            drift[name, feature] = measured.drift
            missing[name, feature] = measured.missing
            unknown[name, feature] = measured.unknown
        for objective, score in version.scores.items():
            score_drift[name, objective] = score.drift
    for version, name in _newest(report, final=True):
        for metric, value in version.metrics.items():
            metrics[name, metric] = value.value
            bounds[name, metric, "low"] = value.low
            bounds[name, metric, "high"] = value.high
    gauge("count", "Requests, and rows by the state of their labels.", counts, "version", "what")
    gauge("drift", "Drift of features from the training.", drift, "version", "feature")
    gauge("missing", "Share of rows without a value.", missing, "version", "feature")
    gauge("unknown", "Share of unknown values.", unknown, "version", "feature")
    gauge(
        "score_drift", "Drift of scores from the evaluation.", score_drift, "version", "objective"
    )
    gauge("metric", "Metrics of rows with labels.", metrics, "version", "metric")
    gauge("metric_interval", "Their intervals.", bounds, "version", "metric", "end")
    return gauges.text()


def _newest(report: MonitorReport, *, final: bool) -> Iterator[tuple[VersionResult, str]]:
    """The result of each version in its newest period that is over, and if asked, final."""
    seen: set[str] = set()
    for period in reversed(report.periods):
        if not (period.final if final else period.over):
            continue
        for version in period.versions:
            name = version.name
            if name not in seen:
                seen.add(name)
                yield version, name


def write_page(model_dir: str, report: MonitorReport) -> str:
    """Writes `monitor.html`, and returns its path. Raises ConfigError without the extra."""
    page.check_installed()
    from estimator_kit.monitoring import monitor_page

    path = os.path.join(model_dir, results.PAGE)
    page.write_sections(
        path,
        f"Monitoring of {os.path.basename(os.path.abspath(model_dir))}",
        monitor_page.headline(report),
        monitor_page.sections(report),
    )
    return path
