"""Periods of monitoring: parts of a day in UTC, also at month ends, leap days and flag days."""

from __future__ import annotations

import datetime

import numpy as np
import pytest

from estimator_kit.monitoring.periods import Periods

pytestmark = pytest.mark.no_tensorflow


@pytest.mark.parametrize(
    ("length", "time", "name"),
    [
        ("1d", "2026-01-31T23:59:59", "2026-01-31"),
        ("1d", "2026-02-01T00:00:00", "2026-02-01"),
        ("1d", "2028-02-29T12:00:00", "2028-02-29"),
        ("1h", "2026-03-29T01:30:00", "2026-03-29T01"),
        ("1h", "2026-03-29T02:00:00", "2026-03-29T02"),
        ("6h", "2026-10-25T13:00:00", "2026-10-25T12"),
        ("5m", "2026-01-05T13:34:59", "2026-01-05T13-30"),
    ],
)
def test_the_period_of_a_time(length, time, name):
    periods = Periods.of(length)
    at = datetime.datetime.fromisoformat(f"{time}+00:00").timestamp()
    (start,) = periods.starts_of(np.array([at + 0.5]))
    assert periods.name(start) == name
    assert start <= at < start + periods.seconds
