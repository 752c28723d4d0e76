"""The texts of cycles: the report as Markdown, and the table of `--mode=history`."""

from __future__ import annotations

import pytest

from estimator_kit.retraining import report, state
from tests.estimator_kit.observing.page import reports


@pytest.fixture
def cycles(tmp_path):
    """A promoted, a refused and a failed cycle."""
    for found in reports.three():
        folder = state.new(str(tmp_path))
        folder.write("report", found)
        if found["outcome"] != "failed":
            folder.write("done", {"outcome": found["outcome"]})
    return state.cycles(str(tmp_path))


def test_the_history_has_all_main_metrics_and_the_reasons(cycles):
    cycles[0].write("report", {**cycles[0].read("report"), "metrics": {
        "auc/click": {"candidate": 0.75}, "auc/buy": {"candidate": 0.625},
        "log_loss/buy": {"candidate": 0.1},
    }})  # fmt: skip
    assert report.history(cycles, live=1).splitlines() == [
        "cycle  as of       train days  rows   start    warnings  outcome   version  "
        "auc/click live  auc/click candidate  auc/buy live  auc/buy candidate",
        "0001   2026-01-01  1           1,000  scratch  1         promoted  1 live   "
        "                0.75                               0.625",
        "0002   2026-01-02  1           1,000  live     0         refused            "
        "0.75            0.7",
        "0003   2026-01-03  1           1,000           0         failed",
        "cycle 0002: REFUSED: auc/click max_loss 0.03: 0.7, live 0.75, difference -0.06 to -0.04",
        "cycle 0003: drift of city",
    ]


def test_a_reason_of_several_lines_stays_in_its_item(cycles):
    start = {**reports.SCRATCH, "reason": "a warm start does not fit: shapes differ:\n  user: 20"}
    found = {**cycles[0].read("report"), "start": start, "vocabularies": {}}
    lines = report.markdown(found).splitlines()
    at = lines.index("- started from scratch: a warm start does not fit: shapes differ:")
    assert lines[at + 1] == "    user: 20; weights: 12 restored"


def test_labels_without_statistics_have_the_rate_of_the_gate(tmp_path):
    folder = state.new(str(tmp_path))
    day = {"name": "2026-01-03", "digest": "d", "rows": 5, "files": []}
    made = {"code": "c", "versions": {}, "flags": [], "seed": 1}
    folder.write("window", {
        "as_of": "2026-01-03", "train": [], "evaluate": [day], "left_out": {}, "late": [],
        "rewritten": [], "identity": "i", "made_with": made,
    })  # fmt: skip
    folder.write("gate", {
        "passed": True, "candidate": "e", "live_version": None, "rows": 5,
        "label_means": {"click": 0.25, "classes": None},
    })  # fmt: skip
    found = report.document(folder, "promoted")
    assert found["label_means"] == {"click": {"2026-01-03": 0.25}}
