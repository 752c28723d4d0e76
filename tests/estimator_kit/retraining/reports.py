"""Reports of three cycles of retraining, as the pages of a retraining get them."""

from __future__ import annotations

from typing import Any

from estimator_kit.retraining import cycle, data_checks, gate  # noqa: F401
from estimator_kit.retraining.cycle_files import CycleFile, StageFile
from estimator_kit.retraining.cycle_report import Names, Report
from estimator_kit.retraining.data_checks import Drift, Measure
from estimator_kit.retraining.gate_stage import Both
from estimator_kit.retraining.promotion import PastVersion
from estimator_kit.retraining.training_stage import Start
from estimator_kit.retraining.window import CycleWindow, MadeWith
from input_pipelines.prepare.analyze.distances import Part

# The class of each file of a cycle, by its name. `cycle` imports all of them.
FORMS = {
    form.NAME: form
    for form in (*CycleFile.__subclasses__(), *StageFile.__subclasses__())
    if form is not StageFile
}
SCRATCH = Start(kind="scratch", reason="no model is live yet")
LIVE = Start(kind="live", source="model.ckpt-9", cycle="0001")
CONDITION = gate.Finding(
    text="auc/click max_loss 0.03", passed=False, value=0.7, rows=90, live=0.75, low=-0.06,
    high=-0.04,
)  # fmt: skip
DRIFT = Drift(
    compared_with="2026-01-02", rows_before=100, rows=50,
    measures=[
        Measure(kind="feature", name="city", measure="l_infinity", distance=0.2, warn=None,
                stop=0.1, verdict="stop", parts=[Part("'rome'", 0.75, 0.55)]),
        Measure(kind="label", name="click", measure="missing", distance=0.0, warn=None, stop=None,
                verdict="-", parts=[Part("missing", 0, 0)]),
    ],
)  # fmt: skip
WARNING = data_checks.Finding(
    check="equal_files", verdict="warn", text="a, b have the same content"
)
VERSIONS = [
    (PastVersion(version=1, cycle="0001", at=1767236400.0), "kept"),  # 2026-01-01 03:00 UTC
    (PastVersion(version=2, cycle="0001", rollback_of=1, parent=1, at=1767519000.0), "live"),
]


def report(number: int, outcome: str, **changes: Any) -> Report:
    """The report of a cycle that was evaluated on the day of its number."""
    fields = {
        "cycle": f"{number:04d}", "outcome": outcome, "problem": None,
        "as_of": f"2026-01-0{number}",
        "window": Names(train=["2025-12-31"], evaluate=[f"2026-01-0{number}"], rows=1000),
        "checks": [], "label_means": {"click": {f"2026-01-0{number}": number / 10}},
        "start": LIVE, "warm_start": {"restored": 12}, "rows_evaluated": 90,
        "metrics": {"auc/click": Both(candidate=0.7, live=0.75),
                    "log_loss/click": Both(candidate=0.3, live=0.2)},
        "intervals": {"auc/click": {"candidate": (0.68, 0.73)}}, "measured": {"size_mib": 1.5},
        "gate": [], "live_before": 1, "version": None, "live_now": 1,
        "seconds": {"train": 2.0, "gate": 1.0},
    }  # fmt: skip
    return Report(**{**fields, **changes})


def three() -> list[Report]:
    """A promoted, a refused and a stopped cycle."""
    metrics = {"auc/click": Both(candidate=0.75)}
    return [
        report(1, "promoted", version=1, start=SCRATCH, metrics=metrics, checks=[WARNING]),
        report(2, "refused", gate=[CONDITION]),
        report(3, "failed", problem="drift of city", start=None, metrics={}, measured={}),
    ]


def window(as_of: str = "2026-01-31", **changes: Any) -> CycleWindow:
    """The window of a cycle, without days."""
    fields = {
        "as_of": as_of, "train": (), "evaluate": (), "left_out": {}, "identity": "",
        "made_with": MadeWith(code="", versions={}, flags=[], seed=1),
    }  # fmt: skip
    return CycleWindow(**{**fields, **changes})
