"""The files of monitoring: what was measured of each period, and the report of all of them.

    model_dir/monitor/logs.json                  which log file has rows of which periods
    model_dir/monitor/periods/2026-01-05.json    one period
    model_dir/monitor/scores/7.json              the scores of version 7 in its evaluation
    model_dir/monitor.json, monitor.html         the report

All but the report may be removed, and is made again from logs and labels. A number that is not
defined, such as the AUC of rows of one class, is null.
"""

from __future__ import annotations

import os
from typing import Literal, Optional

from pydantic import Field

from feature_specs.files import documents

FOLDER = "monitor"
REPORT, PAGE = "monitor.json", "monitor.html"


class LogFile(documents.Part):
    """What a log file has.

    Attributes:
      stamp: its size and modification time.
      periods: the starts of the periods of its rows.
      models: the models to which requests were read, without `--request_model`: one or none.
      not_read: how many requests were not read, by the reason.
      problem: why it is left out, or None.
    """

    stamp: list[int]
    periods: list[int] = Field([])
    models: list[str] = Field([])
    not_read: dict[str, int] = Field({})
    problem: Optional[str] = None


class Logs(documents.Document):
    """`logs.json`: the log files that were read, by path, and how they were read."""

    remedy = "Remove it; all logs are then read again."
    read_with: dict[str, Optional[str]]
    files: dict[str, LogFile]


class Inputs(documents.Part):
    """What a period was measured from. With other inputs, it is measured again.

    Attributes:
      files: the stamp of each log file with rows of the period.
      settings: the settings and the parts of the spec that count.
      versions: what each version was; see `baselines.Baselines.identity`.
    """

    files: dict[str, list[int]]
    settings: dict[str, Optional[str]]
    versions: dict[str, str]


class Metric(documents.Part):
    """A metric of rows, with its interval, and the number of rows that have a label."""

    value: Optional[float]
    low: Optional[float] = None
    high: Optional[float] = None
    rows: int


class FeatureResult(documents.Part):
    """What was measured of a feature.

    Attributes:
      missing: the share of rows without a value.
      unknown: the share of values outside of the vocabulary; None if the spec has none.
      measure: `l_infinity` or `jensen_shannon`; None without a comparison.
      drift: the distance from the training of the version, from 0 to 1.
      moved: the values or bins that moved most.
    """

    missing: float
    unknown: Optional[float] = None
    measure: Optional[str] = None
    drift: Optional[float] = None
    moved: list[str] = Field([])


class ScoreResult(documents.Part):
    """What was measured of the scores of an objective.

    Attributes:
      rows: the number of rows with scores.
      mean: their mean: of probabilities if the head has them; None for classes.
      drift: the distance from the scores of the version in its evaluation.
      measure: `jensen_shannon`, or `l_infinity` for the most probable class.
      moved: the bins or classes that moved most.
    """

    rows: int
    mean: Optional[float] = None
    measure: Optional[str] = None
    drift: Optional[float] = None
    moved: list[str] = Field([])


class VersionResult(documents.Part):
    """One version in one period.

    Attributes:
      version: its number; None if it is not known.
      requests, rows: how many there were; rows that the filter of the spec keeps.
      dropped: rows that it drops; they count nowhere else.
      without_key: rows without the key of the section `monitoring`.
      open: rows that are too young for labels.
      labeled: older rows with a record of labels.
      unlabeled: older rows without one.
      features, scores: what was measured, by feature and by objective.
      metrics: the metrics of rows, by `<metric>/<objective>`.
      slices: the same for slices, by metric and by `<feature>=<value>`.
      label_means: the mean label of each objective that has one number as its label.
      notes: why something was not measured.
    """

    version: Optional[int]
    requests: int
    rows: int
    dropped: int = 0
    without_key: int = 0
    open: int = 0
    labeled: int = 0
    unlabeled: int = 0
    features: dict[str, FeatureResult] = Field({})
    scores: dict[str, ScoreResult] = Field({})
    metrics: dict[str, Metric] = Field({})
    slices: dict[str, dict[str, Metric]] = Field({})
    label_means: dict[str, Optional[float]] = Field({})
    notes: list[str] = Field([])

    @property
    def name(self) -> str:
        """The number of the version, or `unknown`."""
        return "unknown" if self.version is None else str(self.version)


class PeriodResult(documents.Document):
    """One period.

    Attributes:
      name, start, seconds: its name, its start in seconds since 1970, and its length.
      over: whether the period had ended.
      final: whether all labels had their time, so that nothing changes without new logs.
      inputs: what it was measured from.
      versions: the versions with rows.
    """

    remedy = "Remove it; the period is then measured again."
    sort_keys = False
    name: str
    start: int
    seconds: int
    over: bool
    final: bool
    inputs: Inputs
    versions: list[VersionResult]


class Finding(documents.Part):
    """A condition, or one slice of it.

    Attributes:
      text: the condition, for example `auc/click min 0.7`.
      slice: for example `country=de`; empty for all rows.
      then: `warn` or `roll_back`.
      broken: whether the condition is broken; None if no period could be judged.
      periods: the names of the newest judged periods that decide.
      values: the metric in each of them.
      note: an explanation.
    """

    text: str
    slice: str = ""
    then: Literal["warn", "roll_back"]
    broken: Optional[bool]
    periods: list[str] = Field([])
    values: list[Optional[float]] = Field([])
    note: str = ""

    @property
    def sentence(self) -> str:
        """The finding as a sentence."""
        verdict = {True: "BROKEN", False: "kept", None: "not judged"}[self.broken]
        where = f" ({self.slice})" if self.slice else ""
        listed = ", ".join(
            f"{'undefined' if value is None else format(value, '.6g')} in {name}"
            for name, value in zip(self.periods, self.values)
        )
        parts = [f"{verdict}: {self.text}{where}", *filter(None, [listed, self.note])]
        return "; ".join(parts)


class Compared(documents.Part):
    """A metric of the canary and of the live version, in a period in which both have labels.

    Attributes:
      metric, period: their names.
      live, canary: the metric of each, on its own requests.
      difference, low, high: canary - live, and its interval.
    """

    metric: str
    period: str
    live: Metric
    canary: Metric
    difference: Optional[float]
    low: Optional[float] = None
    high: Optional[float] = None


class MonitorReport(documents.Document):
    """`monitor.json`: all periods, and what the conditions say about the live version.

    Attributes:
      until: the time up to which logs and labels count, in seconds since 1970.
      period: the length of a period, such as 1d.
      live: the version that is live.
      canary: the canary that waits, or None.
      compared: the metrics of both.
      periods: the periods, the oldest first.
      findings: the conditions.
      not_read: how many requests were not read, by the reason.
      left_out: log files that were left out, and why.
      roll_back: whether a condition says so.
      rolled_back: versions that monitoring rolled back, with the version that replaced each.
    """

    sort_keys = False
    until: int
    period: str
    live: Optional[int]
    periods: list[PeriodResult]
    findings: list[Finding]
    not_read: dict[str, int]
    left_out: dict[str, str]
    roll_back: bool
    rolled_back: dict[str, int]
    canary: Optional[int] = None
    compared: list[Compared] = Field([])


def folder_of(model_dir: str) -> str:
    return os.path.join(model_dir, FOLDER)
