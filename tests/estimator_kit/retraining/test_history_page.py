"""`history.html`: what it shows of promoted, refused and stopped cycles, and of versions."""

from __future__ import annotations

import json
import re

import pytest

from estimator_kit.observing.page import page
from estimator_kit.retraining import history_page
from tests.estimator_kit.retraining.reports import DRIFT, VERSIONS, report, three

DRIFTS = [None, None, DRIFT]


@pytest.fixture(scope="module")
def sections():
    return {section.title: section for section in history_page.sections(three(), DRIFTS, VERSIONS)}


def traces(section, number=0):
    """The traces of a figure, as Plotly gets them."""
    (data,) = re.findall(r'Plotly\.newPlot\(\s*"[^"]+",\s*(\[.*?\]),\s*\{', section.charts[number])
    return {trace["name"]: trace for trace in json.loads(data)}


def test_the_headline_names_the_live_version():
    assert history_page.headline(three(), VERSIONS) == (
        "3 cycles of retraining; version 2 is live (rollback to version 1, cycle 0001, since "
        "2026-01-04 09:30 UTC)"
    )
    assert history_page.headline([], []) == "0 cycles of retraining; no model is live yet"


def test_each_cycle_has_its_version_its_start_and_its_warnings(sections):
    _, rows = sections["Cycles, the newest first"].table
    assert [row[:4] + row[5:7] for row in rows] == [
        ["0003", "2026-01-03", "failed", "", "", "0"],
        ["0002", "2026-01-02", "refused", "", "live (cycle 0001)", "0"],
        ["0001", "2026-01-01", "promoted", "1", "scratch: no model is live yet", "1"],
    ]
    assert sections["Warnings"].table[1] == [
        ["0001", "2026-01-01", "warn", "a, b have the same content"]
    ]


def test_a_refusal_has_its_condition_and_both_values(sections):
    _, rows = sections["Refused, stopped and failed cycles"].table
    assert rows == [
        ["0003", "2026-01-03", "failed", "", "", "", "", "drift of city"],
        ["0002", "2026-01-02", "refused", "auc/click max_loss 0.03", "0.7000", "0.7500",
         "-0.06 to -0.04", ""],
    ]  # fmt: skip


def test_live_and_candidate_have_their_days_and_intervals(sections):
    section = sections["Live and candidate by cycle"]
    assert len(section.charts) == 2
    found = traces(section)
    assert found["live"]["x"] == ["2026-01-01", "2026-01-02"]
    assert found["live"]["y"] == [None, 0.75]
    assert found["candidate"]["y"] == [0.75, 0.7]
    assert found["candidate"]["marker"]["symbol"] == ["circle", "x"]
    assert found["candidate"]["error_y"]["array"][1] == pytest.approx(0.03)
    assert found["candidate"]["error_y"]["arrayminus"][1] == pytest.approx(0.02)


def test_days_are_names_on_the_axis(sections):
    """On an axis of dates, Plotly would write hours between two days."""
    for section in sections.values():
        for chart in section.charts:
            assert '"type":"category"' in chart


def test_cycles_of_one_day_are_told_apart():
    both = [report(1, "promoted"), report(2, "refused", window=report(1, "").window)]
    (section,) = [s for s in history_page.sections(both, [None, None], []) if s.title == "Time"]
    assert traces(section)["train"]["x"] == ["2026-01-01 (0001)", "2026-01-01 (0002)"]


def test_a_rollback_is_in_the_list_of_versions(sections):
    section = sections["Versions and rollbacks"]
    assert section.intro == "Versions that went live: 2, of them by a rollback: 1."
    assert section.table[1] == [
        ["2", "live", "2026-01-04 09:30 UTC", "rollback to version 1, cycle 0001", "1"],
        ["1", "kept", "2026-01-01 03:00 UTC", "cycle 0001", ""],
    ]


def test_label_rates_and_drift_are_by_day(sections):
    found = traces(sections["Label rates"])["click"]
    assert (found["x"], found["y"]) == (["2026-01-01", "2026-01-02", "2026-01-03"], [0.1, 0.2, 0.3])
    found = traces(sections["Drift by cycle"])
    assert {name: (t["x"], t["y"]) for name, t in found.items()} == {
        "city l_infinity": (["2026-01-03"], [2.0])  # 0.2 is twice `stop`.
    }


def test_the_page_is_written_and_needs_no_network(tmp_path):
    path = tmp_path / "history.html"
    made = history_page.sections(three(), DRIFTS, VERSIONS)
    page.write_sections(str(path), "model", "3 cycles", made)
    text = path.read_text(encoding="utf-8")
    body = text[text.index("<main>") :]
    assert "src=" not in body and "DataError" not in body
    assert len(text) < 6e6
