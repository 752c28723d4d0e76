"""The canary and the live version: intervals of differences, by hand."""

from __future__ import annotations

import pytest

from estimator_kit.monitoring import monitor_page
from estimator_kit.monitoring.comparison import compare
from estimator_kit.monitoring.results import (
    Inputs,
    Metric,
    MonitorReport,
    PeriodResult,
    VersionResult,
)

LIVE = Metric(value=0.70, low=0.67, high=0.74, rows=200)
CANARY = Metric(value=0.75, low=0.71, high=0.78, rows=20)


def period(*versions):
    return PeriodResult(
        name="2026-01-05", start=0, seconds=86_400, over=True, final=True, versions=[*versions],
        inputs=Inputs(files={}, settings={}, versions={}),
    )  # fmt: skip


def version(number, **metrics):
    named = {f"{name}/click": metric for name, metric in metrics.items()}
    return VersionResult(version=number, requests=1, rows=1, metrics=named)


BOTH = period(version(7, auc=LIVE, log_loss=LIVE), version(8, auc=CANARY))


def test_the_interval_of_the_difference():
    (found,) = compare([BOTH], live=7, canary=8)
    assert (found.metric, found.period) == ("auc/click", "2026-01-05")
    assert (found.live, found.canary) == (LIVE, CANARY)
    assert found.difference == pytest.approx(0.05)
    assert found.low == pytest.approx(0.05 - (0.04**2 + 0.04**2) ** 0.5)
    assert found.high == pytest.approx(0.05 + (0.03**2 + 0.03**2) ** 0.5)


def test_what_is_undefined_has_no_interval():
    nothing = Metric(value=None, rows=3)
    (found,) = compare([period(version(7, auc=LIVE), version(8, auc=nothing))], live=7, canary=8)
    assert (found.difference, found.low, found.high) == (None, None, None)
    point = Metric(value=0.6, rows=3)
    (found,) = compare([period(version(7, auc=LIVE), version(8, auc=point))], live=7, canary=8)
    assert found.difference == pytest.approx(-0.1) and found.low is None


@pytest.mark.parametrize(("live", "canary"), [(7, None), (None, 8), (7, 9), (6, 8)])
def test_without_both_there_is_nothing(live, canary):
    assert compare([BOTH], live=live, canary=canary) == []


def test_the_page_shows_both():
    report = MonitorReport(
        until=0, period="1d", live=7, periods=[], findings=[], not_read={}, left_out={},
        roll_back=False, rolled_back={}, canary=8, compared=compare([BOTH], live=7, canary=8),
    )  # fmt: skip
    section = monitor_page._canary(report)
    assert section.intro.startswith("Version 8 is the canary, and version 7 is live.")
    _, rows = section.table
    assert rows == [
        ["2026-01-05", "auc/click", "0.7000 (200 rows)", "0.7500 (20 rows)", "0.0500",
         "-0.0066 to 0.0924"]
    ]  # fmt: skip
    assert monitor_page._canary(report.model_copy(update={"canary": None})) is None
