"""Durations of specs and flags."""

from __future__ import annotations

import datetime

import pytest

from feature_specs.durations import duration, text_of

pytestmark = pytest.mark.no_tensorflow


def test_durations():
    assert [duration(text) for text in ("5m", "36h", "7d", "7")] == [
        datetime.timedelta(minutes=5), datetime.timedelta(hours=36), datetime.timedelta(days=7),
        datetime.timedelta(days=7),
    ]  # fmt: skip
    assert [text_of(duration(text)) for text in ("5m", "120m", "48h", "36h")] == [
        "5m", "2h", "2d", "36h",
    ]  # fmt: skip
    for text in ("0", "-1d", "1.5h", "1w", "", "7D", "1d "):
        with pytest.raises(ValueError, match="expected minutes, hours or days"):
            duration(text)
