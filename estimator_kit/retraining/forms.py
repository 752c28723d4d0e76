"""The required fields of the files in a cycle's folder. `CycleFolder.read` checks each file.

Later stages and later cycles read these files, so the error for a damaged file names it as soon as
it is read. A stage may write additional fields.
"""

from __future__ import annotations

import datetime
from typing import Any, Literal, Optional

from pydantic import Field

from estimator_kit.storage import Form

_Metrics = dict[str, Optional[float]]
_LabelMeans = dict[str, dict[str, float]]
_Interval = tuple[float, float]


class _File(Form):
    path: str
    bytes: int
    sha256: str
    rows: int
    bad: Optional[str] = None


class _Day(Form):
    name: str
    digest: str
    rows: int
    files: list[_File]


class _MadeWith(Form):
    code: str
    versions: dict[str, str]
    flags: list[str]
    seed: int


class _Stage(Form):
    seconds: float = 0.0
    cpu_seconds: float = 0.0


class _Window(_Stage):
    as_of: datetime.date
    train: list[_Day]
    evaluate: list[_Day]
    left_out: dict[str, str]
    late: list[str]
    rewritten: list[str]
    identity: str
    limits: Optional[str] = None
    made_with: _MadeWith


class _Words(Form):
    words: int
    new: int
    moved: int
    dropped: int


class _Vocabularies(_Stage):
    spec: str
    files: dict[str, _Words] = Field({})
    kept: list[str] = Field([])


class _CheckFinding(Form):
    verdict: str
    text: str


class _Checks(_Stage):
    findings: list[_CheckFinding]
    label_means: _LabelMeans = Field({})


class _DriftPart(Form):
    name: str
    before: float
    now: float


class _DriftMeasure(Form):
    kind: str
    name: str
    measure: str
    distance: float
    warn: Optional[float]
    stop: Optional[float]
    verdict: str
    parts: list[_DriftPart]


class _Drift(Form):
    compared_with: Optional[str]
    rows_before: Optional[int]
    rows: Optional[int]
    measures: list[_DriftMeasure]


class _Start(Form):
    kind: str
    source: Optional[str] = None
    cycle: Optional[str] = None
    reason: str = ""


class _WholeStart(_Start):
    source: Optional[str]
    cycle: Optional[str]
    reason: str


class _Train(_Stage):
    global_step: Optional[int] = None
    metrics: Optional[_Metrics] = None
    export_path: Optional[str] = None
    rows_trained: Optional[int] = None
    rows_evaluated: Optional[int] = None
    start: _WholeStart
    warm_start: dict[str, int] = Field({})


class _Both(Form):
    candidate: Optional[float]
    live: Optional[float] = None


class _GateFinding(Form):
    text: str
    slice: str
    passed: Optional[bool]
    value: Optional[float]
    live: Optional[float]
    low: Optional[float]
    high: Optional[float]
    note: str
    sentence: str


class _Gate(_Stage):
    passed: bool
    candidate: str
    live_version: Optional[int]
    live_token: Optional[str] = None
    rows: int
    findings: list[_GateFinding] = Field([])
    metrics: dict[str, _Both] = Field({})
    measured: _Metrics = Field({})
    intervals: dict[str, dict[str, _Interval]] = Field({})
    label_means: _Metrics = Field({})


class _Promote(_Stage):
    version: Optional[int]
    path: Optional[str] = None


class _Clean(_Stage):
    removed: list[str] = Field([])


class _Publishing(Form):
    above: int
    token: Optional[str] = None


class _Done(Form):
    outcome: Literal["promoted", "refused", "abandoned"]
    ended: Optional[float] = None


class _ReportedWindow(Form):
    train: list[str]
    evaluate: list[str]
    rows: int
    left_out: dict[str, str]
    late: list[str]
    rewritten: list[str]


class _Report(Form):
    cycle: str
    outcome: str
    problem: Optional[str]
    as_of: Optional[str]
    window: _ReportedWindow
    checks: list[_CheckFinding]
    label_means: _LabelMeans = Field({})
    start: Optional[_WholeStart]
    warm_start: dict[str, int]
    rows_evaluated: Optional[int]
    metrics: dict[str, _Both]
    intervals: dict[str, dict[str, _Interval]] = Field({})
    measured: _Metrics
    gate: list[_GateFinding]
    live_before: Optional[int]
    version: Optional[int]
    seconds: dict[str, float]


class _LineageFile(Form):
    path: str
    sha256: str


class _LineageData(Form):
    train: list[_LineageFile]
    evaluate: list[_LineageFile]


class _Parent(Form):
    source: Optional[str]


class _LineageSpec(Form):
    path: str
    fingerprint: str


class _Lineage(Form):
    cycle: str
    data: _LineageData
    parent: _Parent
    spec: _LineageSpec
    flags: list[str]
    versions: dict[str, str]
    code: str
    metrics: Optional[_Metrics]


# The form of each file, by its name without the ending.
FORMS: dict[str, Any] = {
    "window": _Window,
    "vocabularies": _Vocabularies,
    "checks": _Checks,
    "drift": _Drift,
    "start": _Start,
    "train": _Train,
    "gate": _Gate,
    "publishing": _Publishing,
    "promote": _Promote,
    "clean": _Clean,
    "lineage": _Lineage,
    "report": _Report,
    "done": _Done,
}
