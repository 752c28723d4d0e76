"""The checks before a cycle trains: data against spec, drift, label rates, sizes of periods.

Drift also covers jumps in the rate of missing values (its measure `missing`). A finding with the
verdict `stop` ends the cycle before training. The sections `drift` and `retraining` of the spec
decide which findings stop. This module writes nothing.
"""

from __future__ import annotations

import statistics as mathematics
from collections.abc import Iterator, Sequence
from typing import Literal, Optional

from pydantic import Field

from estimator_kit.retraining.cycle_files import CycleFile, StageFile
from estimator_kit.retraining.facts import Facts, label_rate_problem
from estimator_kit.retraining.window import PeriodData, Window
from feature_specs.files import documents
from feature_specs.spec import FeatureSpec
from feature_specs.statistics import Statistics, population
from input_pipelines.integrity import spec_check
from input_pipelines.prepare.analyze import drift
from input_pipelines.prepare.analyze.distances import Part
from input_pipelines.prepare.analyze.drift import DriftReport

# How many records of the newest periods are compared with the spec.
_ROWS = 1000


class Finding(documents.Part):
    """The result of a check.

    Attributes:
      check: `spec`, `drift`, `label_rate`, `period_rows` or `equal_files`.
      verdict: `warn` or `stop`.
      text: a sentence.
    """

    check: str
    verdict: Literal["warn", "stop"]
    text: str


class Checked(StageFile):
    """What the checks found, and `label_means`."""

    NAME = "checks.json"
    findings: list[Finding]
    label_means: dict[str, dict[str, float]] = Field({})


class Measure(documents.Part):
    """A measure of a feature or label; see `drift.Finding`."""

    kind: str
    name: str
    measure: str
    distance: float
    warn: Optional[float]
    stop: Optional[float]
    verdict: str
    parts: list[Part]


class Drift(CycleFile):
    """How far the new periods are from the periods of the cycle before; see `measure_drift`."""

    NAME = "drift.json"
    compared_with: Optional[str] = None
    rows_before: Optional[int] = None
    rows: Optional[int] = None
    measures: list[Measure] = Field([])

    @classmethod
    def of(cls, measured: Optional[DriftReport], before: Optional[Window]) -> Drift:
        """The file for a comparison with the window before, or without one."""
        return cls(
            compared_with=before.as_of if measured is not None and before is not None else None,
            rows_before=measured.rows_before if measured is not None else None,
            rows=measured.rows if measured is not None else None,
            measures=[
                Measure(
                    kind=finding.kind,
                    name=finding.name,
                    measure=finding.measure,
                    distance=finding.distance.value,
                    warn=finding.thresholds.warn,
                    stop=finding.thresholds.stop,
                    verdict=finding.verdict,
                    parts=list(finding.distance.parts),
                )
                for finding in (measured.findings if measured is not None else ())
            ],
        )


def run(
    spec: FeatureSpec,
    window: Window,
    facts: Facts,
    *,
    before: Optional[Window] = None,
    drift_found: Optional[DriftReport] = None,
    other_files: bool = False,
) -> list[Finding]:
    """Runs all checks, and returns their findings.

    Args:
      spec: the feature spec.
      window: the periods of this cycle.
      facts: the facts of their files.
      before: the window of the cycle before.
      drift_found: how far the new periods are from it; None if it has no statistics any more.
      other_files: whether evaluation reads other files of a period than training. Then the sizes
        are compared separately for training and evaluation.

    Raises:
      DataError: a file cannot be read.
      MissingPackageError: a check needs statistics, and the package for them is not installed.
    """
    return [
        *_against_spec(spec, window),
        *_drift(spec, before, drift_found),
        *_label_rates(spec, window, facts),
        *_sizes(spec, window, other_files),
        *_equal_files(window),
    ]


def _against_spec(spec: FeatureSpec, window: Window) -> Iterator[Finding]:
    paths = [*window.train[-1].paths, *window.evaluate[-1].paths]
    report = spec_check.check(spec, paths, rows=_ROWS)
    yield from (Finding(check="spec", verdict="stop", text=text) for text in report.errors)
    yield from (Finding(check="spec", verdict="warn", text=text) for text in report.warnings)


def measure_drift(
    spec: FeatureSpec, window: Window, facts: Facts, before: Window, statistics: Statistics
) -> DriftReport:
    """Compares the new periods of a window with the training files of the cycle before.

    Args:
      spec, window, facts: see `run`.
      before: the window of the cycle before.
      statistics: the statistics of its training files.
    """
    old_digests = {period.digest for period in (*before.train, *before.evaluate)}
    both = (*window.train, *window.evaluate)
    new = [period for period in both if period.digest not in old_digests]
    files = [file for period in new for file in period.files] or window.train_files
    return drift.compare(spec, statistics, facts.statistics(files))


def label_means(spec: FeatureSpec, window: Window, facts: Facts) -> dict[str, dict[str, float]]:
    """`{label: {period: mean}}` of periods whose statistics are stored. It reads no records."""
    means_by_label: dict[str, dict[str, float]] = {label: {} for label in spec.labels}
    for period in (*window.train, *window.evaluate):
        statistics = facts.known_statistics(period.files) if period.files else None
        for label, means in means_by_label.items():
            feature = statistics.features.get(label) if statistics is not None else None
            if feature is not None and feature.numbers is not None:
                means[period.name] = feature.numbers.mean
    return {label: means for label, means in means_by_label.items() if means}


def _drift(
    spec: FeatureSpec, before: Optional[Window], report: Optional[DriftReport]
) -> Iterator[Finding]:
    if not spec.drift.any or before is None:
        return
    if report is None:
        yield Finding(
            check="drift",
            verdict="warn",
            text="drift is not checked: the last cycle's window as of "
            f"{before.as_of} has no statistics, and its files were removed or changed, or the "
            "filter drops all their rows",
        )
        return
    for text in report.errors:
        yield Finding(check="drift", verdict=spec.retraining.drift, text=text)
    for text in report.warnings:
        yield Finding(check="drift", verdict="warn", text=text)


def _label_rates(spec: FeatureSpec, window: Window, facts: Facts) -> Iterator[Finding]:
    for label, rate in spec.retraining.label_rate.items():
        if rate.otherwise == "leave_out":
            continue  # `window` has left out these periods.
        for period in (*window.train, *window.evaluate):
            problem = label_rate_problem(label, rate, facts.statistics(period.files))
            if problem is not None:
                text = f"{period.name}: {problem}"
                yield Finding(check="label_rate", verdict=rate.otherwise, text=text)


def _sizes(spec: FeatureSpec, window: Window, other_files: bool) -> Iterator[Finding]:
    together = [window.train, window.evaluate]
    for periods in together if other_files else [(*window.train, *window.evaluate)]:
        yield from _period_rows(spec, periods)


def _period_rows(spec: FeatureSpec, periods: Sequence[PeriodData]) -> Iterator[Finding]:
    bounds = spec.retraining.period_rows
    median = mathematics.median(period.rows for period in periods)
    for period in periods:
        ratio = period.rows / median
        if ratio > bounds.max_ratio:
            wrong, cause = f"above max_ratio: {bounds.max_ratio:g}", "some files are duplicates"
        elif ratio < bounds.min_ratio:
            wrong, cause = f"below min_ratio: {bounds.min_ratio:g}", "files are missing"
        else:
            continue
        yield Finding(
            check="period_rows",
            verdict=bounds.otherwise,
            text=f"{period.name}: {population(period.rows, period.dropped, 'record')}, "
            f"{ratio:.3g} times the median of {median:,.10g} of the {len(periods)} periods of the "
            f"window, {wrong}. Check whether {cause}. If it is right, change period_rows in the "
            "section retraining of the spec.",
        )


def _equal_files(window: Window) -> Iterator[Finding]:
    """Finds files with the same bytes: their rows count several times, or leak into evaluation."""
    by_content: dict[str, list[str]] = {}
    for file in (*window.train_files, *window.eval_files):
        if file.rows:
            by_content.setdefault(file.sha256, []).append(file.path)
    for paths in by_content.values():
        if len(paths) > 1:
            more = f" and {len(paths) - 2:,} more" if len(paths) > 2 else ""
            yield Finding(
                check="equal_files",
                verdict="warn",
                text=f"{paths[0]}, {paths[1]}{more} have the same content, so their rows count "
                f"{len(paths)} times",
            )
