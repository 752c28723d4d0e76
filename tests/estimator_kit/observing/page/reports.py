"""Reports of three cycles of retraining, as the pages of a retraining get them."""

from __future__ import annotations

from typing import Any

SCRATCH = {"kind": "scratch", "source": None, "cycle": None, "reason": "no model is live yet"}
LIVE = {"kind": "live", "source": "model.ckpt-9", "cycle": "0001", "reason": ""}
CONDITION = {
    "text": "auc/click max_loss 0.03", "passed": False, "value": 0.7, "slice": "", "rows": 90,
    "live": 0.75, "low": -0.06, "high": -0.04, "note": "",
    "sentence": "REFUSED: auc/click max_loss 0.03: 0.7, live 0.75, difference -0.06 to -0.04",
}  # fmt: skip
DRIFT = {
    "compared_with": "2026-01-02", "rows_before": 100, "rows": 50,
    "measures": [
        {"kind": "feature", "name": "city", "measure": "l_infinity", "distance": 0.2, "warn": None,
         "stop": 0.1, "verdict": "stop",
         "parts": [{"name": "'rome'", "before": 0.75, "now": 0.55}]},
        {"kind": "label", "name": "click", "measure": "missing", "distance": 0.0, "warn": None,
         "stop": None, "verdict": "-", "parts": [{"name": "missing", "before": 0, "now": 0}]},
    ],
}  # fmt: skip
WARNING = {"check": "equal_files", "verdict": "warn", "text": "a, b have the same content"}


def report(number: int, outcome: str, **changes: Any) -> dict[str, Any]:
    """The report of a cycle as of the day of its number."""
    return {
        "cycle": f"{number:04d}", "outcome": outcome, "problem": None,
        "as_of": f"2026-01-0{number}",
        "window": {"train": ["2026-01-01"], "evaluate": ["2026-01-02"], "rows": 1000,
                   "left_out": {}, "late": [], "rewritten": []},
        "checks": [], "label_means": {"click": {f"2026-01-0{number}": number / 10}},
        "start": LIVE, "warm_start": {"restored": 12}, "rows_evaluated": 90,
        "metrics": {"auc/click": {"candidate": 0.7, "live": 0.75},
                    "log_loss/click": {"candidate": 0.3, "live": 0.2}},
        "intervals": {"auc/click": {"candidate": [0.68, 0.73]}}, "measured": {"size_mib": 1.5},
        "gate": [], "live_before": 1, "version": None, "live_now": 1,
        "seconds": {"train": 2.0, "gate": 1.0}, "reasons": [], "drift": None, **changes,
    }  # fmt: skip


def three() -> list[dict[str, Any]]:
    """A promoted, a refused and a stopped cycle."""
    metrics = {"auc/click": {"candidate": 0.75}}
    return [
        report(1, "promoted", version=1, start=SCRATCH, metrics=metrics, checks=[WARNING]),
        report(2, "refused", gate=[CONDITION], reasons=[CONDITION["sentence"]]),
        report(3, "failed", problem="drift of city", start=None, metrics={}, gate=[], measured={},
               drift=DRIFT, reasons=["drift of city"]),
    ]  # fmt: skip


VERSIONS = [
    {"version": 1, "cycle": "0001", "rollback_of": None, "parent": None, "state": "kept",
     "at": "2026-01-01 03:00 UTC"},
    {"version": 2, "cycle": "0001", "rollback_of": 1, "parent": 1, "state": "live",
     "at": "2026-01-04 09:30 UTC"},
]  # fmt: skip
