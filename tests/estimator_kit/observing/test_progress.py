"""Progress as log lines, and as a bar on a terminal."""

from __future__ import annotations

import pytest

from estimator_kit.observing import console, progress
from estimator_kit.observing.progress import Progress, ScanProgress, ShardProgress

pytestmark = pytest.mark.no_tensorflow


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def lines(monkeypatch):
    """The lines that were logged."""
    found = []
    monkeypatch.setattr(progress._log, "info", lambda form, line, extra: found.append(line))
    return found


def test_a_line_is_written_when_it_is_due_and_at_the_end(lines):
    clock = Clock()
    with Progress("score", "{} batches", total=40, every_secs=10.0, clock=clock) as work:
        for done in range(1, 40):
            clock.now += 2.0
            work.update(done, loss=0.5, bad_records=1200, no_number=None)
        work.update(40, last=True)
    # After 15 of 40 batches in 30 seconds, 25 batches need 50 seconds. The first ten updates are
    # too few for a guess.
    assert lines == [
        "score: 5 of 40 batches, loss 0.50000, 1,200 bad records",
        "score: 10 of 40 batches, loss 0.50000, 1,200 bad records",
        "score: 15 of 40 batches, loss 0.50000, 1,200 bad records, 0:50 left",
        "score: 20 of 40 batches, loss 0.50000, 1,200 bad records, 0:40 left",
        "score: 25 of 40 batches, loss 0.50000, 1,200 bad records, 0:30 left",
        "score: 30 of 40 batches, loss 0.50000, 1,200 bad records, 0:20 left",
        "score: 35 of 40 batches, loss 0.50000, 1,200 bad records, 0:10 left",
        "score: 40 of 40 batches, 0:00 left",
    ]


def test_shards_are_counted_with_their_rows(lines):
    clock = Clock()
    work = ShardProgress("convert", "{} shards", 10.0, clock=clock)
    for seconds, rows, done in ((4.0, 500, 0), (10.0, 1500, 1), (12.0, 10, 1), (20.0, 990, 2)):
        clock.now = 100.0 + seconds
        work(rows, done, 3)
    assert lines == [
        "convert: 1 of 3 shards, 2,000 rows, 200 rows/s",
        "convert: 2 of 3 shards, 3,000 rows, 150 rows/s",
    ]


def test_bytes_are_counted_with_the_bad_records_so_far(lines):
    work = ScanProgress("check_data", 9_000_000, 0.0)
    work(3_999_999, 1200)
    work(2_000_001, 34)
    assert lines == [
        "check_data: 3 of 9 MB, 1,200 bad records",
        "check_data: 6 of 9 MB, 1,234 bad records",
    ]


def test_hours_and_minutes_left(lines):
    Progress("train", "step {}").update(1, left_secs=3725.0, last=True)
    assert lines == ["train: step 1, 1:02:05 left"]


class Display:
    """What a terminal shows."""

    def __init__(self):
        self.shown = []

    def begin(self, phase, total):
        self.shown.append(("begin", phase, total))
        return phase

    def update(self, task, done, total, text, *, now):
        self.shown.append((task, done, total, text))

    def end(self, task):
        self.shown.append(("end", task))


def test_a_terminal_shows_each_update_and_no_lines(lines, monkeypatch):
    display = Display()
    monkeypatch.setattr(console, "_display", display)
    monkeypatch.setattr(progress, "_TERMINAL_SECS", 0.0)
    work = ShardProgress("convert", "{} shards", 1000.0, clock=Clock())
    work(10, 1, 2)
    work(10, 2, 2)
    assert lines == []
    assert display.shown == [
        ("begin", "convert", 2),
        ("convert", 1, 2, "1 of 2 shards, 10 rows"),
        ("convert", 2, 2, "2 of 2 shards, 20 rows"),
        ("end", "convert"),
    ]


def test_a_terminal_is_updated_ten_times_a_second(monkeypatch):
    display, clock = Display(), Clock()
    monkeypatch.setattr(console, "_display", display)
    work = Progress("train", "step {}", every_secs=1000.0, clock=clock)
    for step in range(1, 9):
        clock.now += 0.0625
        work.update(step)
    assert [shown[1] for shown in display.shown[1:]] == [2, 4, 6, 8]
