"""The comparison of a cycle with its second training; tests/integration runs a whole one."""

from __future__ import annotations

from estimator_kit.checkpoints import run_record
from estimator_kit.retraining import reproduction


def test_metrics_side_by_side():
    kept = {
        "metrics": {"auc/click": 0.75, "loss": 0.5, "ndcg/click": None, "old": 2.0},
        "versions": {**run_record.versions(), "numpy": "1.0"},
        "code": "abc",
    }
    now = {"auc/click": 0.5, "loss": 0.625, "ndcg/click": float("nan"), "new": 1.0}
    lines = reproduction.compared("0007", kept, now, code="abc").splitlines()
    assert lines == [
        "cycle 0007, trained again:",
        f"  numpy was 1.0, is {run_record.versions()['numpy']}",
        "  metric      then       now        difference",
        "  auc/click   0.75       0.5        -0.25",
        "  loss        0.5        0.625      +0.125",
        "  ndcg/click  undefined  undefined",
        "  new         undefined  1",
        "  old         2          undefined",
        "defined in only one of the two: new, old",
        "the largest difference is 0.25",
    ]


def test_a_metric_that_became_undefined_is_no_reproduction():
    kept = {"metrics": {"loss": 0.5}, "versions": {}, "code": "abc"}
    lines = reproduction.compared("0007", kept, {"loss": float("nan")}, code="other").splitlines()
    assert lines[1] == "  the code of the kit or of the model has changed"
    assert lines[-2] == "defined in only one of the two: loss"
