"""What is looked at before a cycle trains: spec against data, drift, label rates, sizes of days.

Missing-rate jumps are the measure `missing` of drift. A finding that stops ends the cycle with
nothing trained; the spec says which do (sections `drift` and `retraining`). Only reads.
"""

from __future__ import annotations

import dataclasses
import statistics as mathematics
from collections.abc import Iterator, Sequence
from typing import Literal, Optional

from estimator_kit.retraining.facts import Facts
from estimator_kit.retraining.label_rates import rate_problem
from estimator_kit.retraining.window import Day, Window
from feature_specs.spec import FeatureSpec
from feature_specs.statistics import Statistics
from input_pipelines.integrity import spec_check
from input_pipelines.prepare.analyze import drift

# Records of the newest days that are held against the spec one by one.
_ROWS = 1000


@dataclasses.dataclass(frozen=True)
class Finding:
    """What a check says.

    Attributes:
      check: `spec`, `drift`, `label_rate`, `day_rows` or `equal_files`.
      verdict: `warn` or `stop`.
      text: a sentence.
    """

    check: str
    verdict: Literal["warn", "stop"]
    text: str


def run(
    spec: FeatureSpec,
    window: Window,
    facts: Facts,
    *,
    before: Optional[Window] = None,
    statistics: Optional[Statistics] = None,
    other_files: bool = False,
) -> list[Finding]:
    """All findings.

    Args:
      spec: what is asked for.
      window: the days.
      facts: what is known of their files.
      before: the window of the cycle before; the days that it did not have are held against it.
      statistics: of its training files; None where they are not to be had any more.
      other_files: whether evaluation reads other files than training, as a part of each day, so
        that its rows cannot be compared with those of training.

    Raises:
      DataError: a file cannot be read.
      MissingPackageError: statistics are needed, and the package for them is not installed.
    """
    return [
        *_against_spec(spec, window),
        *_drift(spec, window, facts, before, statistics),
        *_label_rates(spec, window, facts),
        *_sizes(spec, window, other_files),
        *_equal_files(window),
    ]


def _against_spec(spec: FeatureSpec, window: Window) -> Iterator[Finding]:
    paths = [*window.train[-1].paths, *window.evaluate[-1].paths]
    report = spec_check.check(spec, paths, rows=_ROWS)
    yield from (Finding("spec", "stop", text) for text in report.errors)
    yield from (Finding("spec", "warn", text) for text in report.warnings)


def _drift(
    spec: FeatureSpec,
    window: Window,
    facts: Facts,
    before: Optional[Window],
    statistics: Optional[Statistics],
) -> Iterator[Finding]:
    if not spec.drift.any or before is None:
        return
    if statistics is None:
        yield Finding(
            "drift",
            "warn",
            "drift is not looked at: there are no statistics of the last cycle's "
            f"window as of {before.as_of}, and its files are gone or hold something else",
        )
        return
    known = {day.digest for day in (*before.train, *before.evaluate)}
    days = [day for day in (*window.train, *window.evaluate) if day.digest not in known]
    files = [file for day in days for file in day.files] or window.train_files
    report = drift.compare(spec, statistics, facts.statistics(files))
    yield from (Finding("drift", spec.retraining.drift, text) for text in report.errors)
    yield from (Finding("drift", "warn", text) for text in report.warnings)


def _label_rates(spec: FeatureSpec, window: Window, facts: Facts) -> Iterator[Finding]:
    for label, rate in spec.retraining.label_rate.items():
        if rate.otherwise == "leave_out_day":
            continue  # `window` has left them out.
        for day in (*window.train, *window.evaluate):
            problem = rate_problem(label, rate, facts.statistics(day.files))
            if problem is not None:
                yield Finding("label_rate", rate.otherwise, f"{day.name}: {problem}")


def _sizes(spec: FeatureSpec, window: Window, other_files: bool) -> Iterator[Finding]:
    together = [window.train, window.evaluate]
    for days in together if other_files else [(*window.train, *window.evaluate)]:
        yield from _day_rows(spec, days)


def _day_rows(spec: FeatureSpec, days: Sequence[Day]) -> Iterator[Finding]:
    bounds = spec.retraining.day_rows
    median = mathematics.median(day.rows for day in days)
    for day in days:
        ratio = day.rows / median
        if ratio > bounds.max_ratio:
            wrong, cause = f"above max_ratio: {bounds.max_ratio:g}", "are files there twice?"
        elif ratio < bounds.min_ratio:
            wrong, cause = f"below min_ratio: {bounds.min_ratio:g}", "are files missing?"
        else:
            continue
        yield Finding(
            "day_rows",
            bounds.otherwise,
            f"{day.name}: {day.rows:,} records, {ratio:.3g} times the median of {median:,.10g} of "
            f"the {len(days)} days of the window, {wrong}; {cause} If the day is right, change "
            "day_rows in the section retraining of the spec",
        )


def _equal_files(window: Window) -> Iterator[Finding]:
    """Files that hold the same bytes: their rows count several times, or are seen before a test."""
    by_content: dict[str, list[str]] = {}
    for file in (*window.train_files, *window.eval_files):
        if file.rows:
            by_content.setdefault(file.sha256, []).append(file.path)
    for paths in by_content.values():
        if len(paths) > 1:
            more = f" and {len(paths) - 2:,} more" if len(paths) > 2 else ""
            yield Finding(
                "equal_files",
                "warn",
                f"{paths[0]}, {paths[1]}{more} hold the same bytes, so their rows count "
                f"{len(paths)} times",
            )
