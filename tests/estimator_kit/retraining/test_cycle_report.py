"""The texts of cycles: the report as Markdown, and the table of cycles."""

from __future__ import annotations

import pytest

from estimator_kit.retraining import cycle_files, cycle_report
from estimator_kit.retraining.cycle_files import Done
from estimator_kit.retraining.cycle_report import Report
from estimator_kit.retraining.gate_stage import Both, Judged
from estimator_kit.retraining.window import PeriodData
from tests.estimator_kit.retraining import reports


@pytest.fixture
def cycles(tmp_path):
    """A promoted, a refused and a failed cycle."""
    for found in reports.three():
        folder = cycle_files.new(str(tmp_path))
        folder.save(found)
        if found.outcome != "failed":
            folder.save(Done(outcome=found.outcome))
    return cycle_files.cycles(str(tmp_path))


def test_the_history_has_all_main_metrics_and_the_reasons(cycles):
    metrics = {
        "auc/click": Both(candidate=0.75), "auc/buy": Both(candidate=0.625),
        "log_loss/buy": Both(candidate=0.1),
    }  # fmt: skip
    cycles[0].save(cycles[0].output(Report).model_copy(update={"metrics": metrics}))
    assert cycle_report.history(cycles, live=1).splitlines() == [
        "cycle  evaluated on  periods  rows   start    warnings  outcome   version  "
        "auc/click live  auc/click candidate  auc/buy live  auc/buy candidate",
        "0001   2026-01-01    1        1,000  scratch  1         promoted  1 live   "
        "                0.75                               0.625",
        "0002   2026-01-02    1        1,000  live     0         refused            "
        "0.75            0.7",
        "0003   2026-01-03    1        1,000           0         failed",
        "cycle 0002: REFUSED: auc/click max_loss 0.03: 0.7, live 0.75, difference -0.06 to -0.04",
        "cycle 0003: drift of city",
    ]


def test_a_reason_of_several_lines_stays_in_its_item():
    reason = "a warm start does not fit: shapes differ:\n  user: 20"
    start = reports.SCRATCH.model_copy(update={"reason": reason})
    lines = cycle_report.markdown(reports.report(1, "promoted", start=start)).splitlines()
    at = lines.index("- started from scratch: a warm start does not fit: shapes differ:")
    assert lines[at + 1] == "    user: 20; weights: 12 restored"


def test_labels_without_statistics_have_the_rate_of_the_gate(tmp_path):
    folder = cycle_files.new(str(tmp_path))
    day = PeriodData(name="2026-01-03", digest="d", rows=5, files=())
    folder.save(reports.window(evaluate=(day,)))
    means = {"click": 0.25, "classes": None}
    folder.save(Judged(passed=True, candidate="e", live_version=None, rows=5, label_means=means))
    assert Report.of(folder, "promoted", live=None).label_means == {"click": {"2026-01-03": 0.25}}
