"""The report page of a cycle of retraining: start, gate, and drift with both distributions."""

from __future__ import annotations

from estimator_kit.observing.page import page
from estimator_kit.retraining import cycle_page
from estimator_kit.retraining.training_stage import Start
from tests.estimator_kit.retraining.reports import CONDITION, DRIFT, WARNING, report
from tests.estimator_kit.retraining.test_history_page import traces


def sections(drift=None, **changes):
    return {s.title: s for s in cycle_page.sections(report(2, "refused", **changes), drift)}


def test_the_reason_of_a_start_is_whole():
    reason = "a warm start does not fit: shapes differ:\n  user: [20] in the checkpoint, not [25]"
    start = Start(kind="scratch", reason=reason)
    rows = dict(sections(start=start, checks=[WARNING])["Cycle"].table[1])
    assert rows["started from"] == f"scratch: {reason}"
    assert rows["warn"] == "a, b have the same content"
    assert rows["weights restored"] == "12"


def test_each_condition_has_its_value():
    changes = {"text": "auc/click min 0.5", "passed": True, "live": None, "low": None}
    judged = CONDITION.model_copy(update=changes)
    rows = sections(gate=[CONDITION, judged])["Gate"].table[1]
    assert rows == [
        ["auc/click max_loss 0.03", "all rows", "REFUSED", "0.7000", "0.7500", "-0.06 to -0.04",
         ""],
        ["auc/click min 0.5", "all rows", "passed", "0.7000", "", "", ""],
    ]  # fmt: skip


def test_drift_has_both_distributions_and_the_threshold():
    section = sections(drift=DRIFT)["Drift"]
    assert section.table[1] == [
        ["feature city", "l_infinity", "0.2000", "", "0.1", "stop"],
        ["label click", "missing", "0.0000", "", "", ""],
    ]
    (chart,) = section.charts
    assert "city: l_infinity 0.2000 (stop 0.1)" in chart
    found = traces(section)
    assert (found["cycle before"]["y"], found["new periods"]["y"]) == ([0.75], [0.55])


def test_a_cycle_without_training_has_a_page(tmp_path):
    path = tmp_path / "report.html"
    found = report(3, "failed", problem="drift", start=None, metrics={}, warm_start={})
    made = cycle_page.sections(found, DRIFT)
    page.write_sections(str(path), "Cycle 0003", found.headline, made)
    text = path.read_text(encoding="utf-8")
    assert "<p>cycle 0003 (2026-01-03) failed: drift</p>" in text and "<h2>Drift</h2>" in text


def test_a_drift_without_its_rows_has_a_section():
    drift = DRIFT.model_copy(update={"rows": None, "rows_before": None})
    assert (
        "The 0 rows of the new periods, compared with 0 rows"
        in sections(drift=drift)["Drift"].intro
    )
