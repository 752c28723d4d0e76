"""Cycles on periods of five minutes: a broken one, a late one, one that is written again."""

from __future__ import annotations

import datetime
import pathlib
import shutil

import pytest

import estimator_kit as ek
from estimator_kit.config.modes import command_of
from estimator_kit.retraining import cycle, cycle_files
from estimator_kit.retraining.cycle_report import Report
from tests.integration import retraining_data

START = datetime.datetime(2026, 12, 31, 23, 50, tzinfo=datetime.timezone.utc)


def write(number, seed=None):
    """Writes a period, and moves it to its place when it is whole."""
    staged = retraining_data.write_day(pathlib.Path("staged"), seed or number + 1, rows=60)
    place = pathlib.Path("data", f"{START + datetime.timedelta(minutes=5 * number):%Y/%m/%d/%H%M}")
    shutil.rmtree(place, ignore_errors=True)
    place.parent.mkdir(parents=True, exist_ok=True)
    staged.rename(place)
    return place


def run(number, **changes):
    """The report of a cycle in the middle of the period after this one."""
    fields = retraining_data.fields(
        train_files=("data/%Y/%m/%d/%H%M/*.tfrecord",), period="5m", window="10m", as_of=None,
        corrupt_data_policy="quarantine", **changes,
    )  # fmt: skip
    now = START + datetime.timedelta(minutes=5 * number + 7)
    command = command_of(ek.ExperimentConfig(**fields))
    cycle.run(command, clock=now.timestamp)
    return cycle_files.cycles("model")[-1].output(Report)


def test_cycles_of_five_minutes_over_the_end_of_a_year(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    retraining_data.write_spec(tmp_path, warm_start="none", gate="off")
    for number in (0, 3):
        write(number)
    broken = write(1) / "part-0.tfrecord"  # Period 2 comes late.
    data = bytearray(broken.read_bytes())
    data[len(data) // 2] ^= 0xFF
    broken.write_bytes(bytes(data))
    first = run(3)
    assert first.headline == "cycle 0001 (2027-01-01T00-05) was promoted: version 1 is live"
    assert first.as_of == "2027-01-01T00-10"
    assert first.window.train == ["2026-12-31T23-50", "2026-12-31T23-55"]
    assert first.window.evaluate == ["2027-01-01T00-05"]
    assert first.window.rows == 60 + 30
    assert {*first.window.left_out} == {str(broken), "2027-01-01T00-00"}
    text = pathlib.Path("model/cycles/0001/report.md").read_text()
    assert f"- left out {broken}: it is damaged: " in text

    write(2)
    write(3, seed=20)
    second = run(3)
    assert second.window.train == ["2026-12-31T23-55", "2027-01-01T00-00"]
    assert second.window.late == ["2027-01-01T00-00"]
    assert second.window.rewritten == ["2027-01-01T00-05"]
    assert second.version == 2
    with pytest.raises(ek.NothingToDo, match="cycle 0002 with the same periods"):
        run(3)
