"""Which days a cycle reads, and why it leaves out other days."""

from __future__ import annotations

import datetime
import json
import logging
import pathlib
import shutil
import zlib

import pytest

from estimator_kit.retraining.facts import FileFacts
from estimator_kit.retraining.window import (
    CycleWindow,
    PeriodData,
    Window,
    choose,
    complete_periods,
)
from feature_specs.parser import parser
from input_pipelines.errors import DataError
from tests.integration.retraining_data import config, write_day, write_spec


class FewFacts:
    """Fake facts without a scan. A file with the content `bad` counts as damaged."""

    def of_files(self, paths):
        facts = []
        for path in paths:
            with open(path, "rb") as file:
                data = file.read()
            bad = "record 0 at byte 0: no record" if data == b"bad" else None
            digest = f"{zlib.crc32(data):08x}"
            found = FileFacts(path=path, bytes=len(data), sha256=digest, rows=10, bad=bad)
            facts.append(found)
        return facts

    def statistics(self, files):
        raise AssertionError("the spec has no label rate")


class FilteredFacts(FewFacts):
    """Of day 5 the filter drops all records, and of each other file one of ten."""

    def of_files(self, paths):
        return [
            file.model_copy(update={"dropped": 10 if "01-05" in file.path else 1})
            for file in super().of_files(paths)
        ]


@pytest.fixture
def folder(tmp_path):
    write_spec(tmp_path, label_rate={})
    for day in range(1, 7):
        place = tmp_path / "data" / f"dt=2026-01-{day:02d}"
        place.mkdir(parents=True)
        for i in range(2):
            (place / f"part-{i}.tfrecord").write_bytes(b"%d %d" % (day, i))
        (place / "_SUCCESS").touch()
    return tmp_path


def day(number):
    return f"2026-01-{number:02d}"


def window(folder, as_of=6, before=None, facts=None, **changes):
    spec = parser.load(folder / "spec.yaml")
    return choose(
        *[config(folder, **changes)] * 3, spec, facts or FewFacts(),
        as_of=day(as_of), before=before,
    )  # fmt: skip


def numbers(days):
    return [int(found.name[-2:]) for found in days]


@pytest.mark.parametrize(
    ("as_of", "changes", "train", "evaluate"),
    [
        (6, {}, [4, 5], [6]),
        (4, {}, [2, 3], [4]),
        (30, {"window": "3d", "eval_window": "2d"}, [2, 3, 4], [5, 6]),
        (6, {"window": "9d", "window_min": ("5d",)}, [1, 2, 3, 4, 5], [6]),
        (8, {"window": "9d", "window_max_age": "4d"}, [4, 5], [6]),
    ],
)
def test_the_last_days_are_scored_and_those_before_them_trained_on(
    folder, as_of, changes, train, evaluate
):
    found = window(folder, as_of, **changes)
    assert (numbers(found.train), numbers(found.evaluate)) == (train, evaluate)
    assert found.left_out == {}
    assert [file.rows for file in found.train_files] == [10] * 2 * len(train)


def test_days_that_are_not_whole_are_passed_over_with_the_reason(folder):
    data = folder / "data"
    (data / f"dt={day(6)}" / "_SUCCESS").unlink()
    (data / f"dt={day(4)}").rename(data / "other")
    for path in (data / f"dt={day(3)}").glob("part-*"):
        path.unlink()
    found = window(folder)
    assert (numbers(found.train), numbers(found.evaluate)) == ([1, 2], [5])
    assert found.left_out == {
        day(3): "it has no file",
        day(4): "it does not exist",
        day(6): "it is not complete: it has no _SUCCESS file",
    }


def test_a_folder_of_a_day_that_there_is_not_is_passed_over(folder, caplog):
    (folder / "data" / "dt=2026-02-30").mkdir()
    (folder / "data" / "dt=2026-02-30" / "_SUCCESS").touch()
    with caplog.at_level(logging.WARNING):
        found = choose(
            *[config(folder)] * 3, parser.load(folder / "spec.yaml"), FewFacts(),
            as_of="2026-03-01",
        )  # fmt: skip
    assert (numbers(found.train), numbers(found.evaluate)) == ([4, 5], [6])
    assert caplog.messages == [
        "--train_files: dt=2026-02-30 is not a valid date, so its folder is ignored"
    ]


def test_a_look_changes_with_a_wrong_folder_and_warns_of_nothing(folder, caplog):
    def look():
        return complete_periods(*[config(folder)] * 2, as_of="2026-03-01")

    before = look()
    (folder / "data" / "dt=2026-02-30").mkdir()
    assert look() == (*before, ("dt=2026-02-30 is not a valid date", ()))
    (folder / "data" / "dt=2026-02-30").rename(folder / "data" / "dt=2026-3-1")
    other = f"{folder}/data/dt=2026-3-1: expected a folder with a name such as dt=%Y-%m-%d"
    assert look() == (*before, (other, ()))
    assert not caplog.messages


def test_damaged_files_stop_or_are_left_out(folder):
    bad = folder / "data" / f"dt={day(5)}" / "part-1.tfrecord"
    bad.write_bytes(b"bad")
    with pytest.raises(DataError) as error:
        window(folder)
    assert str(error.value) == (
        f"{bad}: record 0 at byte 0: no record. Write the period again, or leave out damaged files "
        "with --corrupt_data_policy=quarantine"
    )
    found = window(folder, corrupt_data_policy="quarantine")
    assert numbers(found.train) == [4, 5] and len(found.train_files) == 3
    assert found.left_out == {str(bad): "it is damaged: record 0 at byte 0: no record"}
    first = bad.parent / "part-0.tfrecord"
    first.write_bytes(b"bad")
    found = window(folder, corrupt_data_policy="quarantine")
    assert numbers(found.train) == [3, 4]
    assert found.left_out == {
        day(5): f"all of its files are damaged, for example {first}: record 0 at byte 0: no record"
    }


def test_a_day_that_is_not_what_its_manifest_says_is_being_written(folder):
    place = folder / "data" / f"dt={day(6)}"
    shards = [{"name": f"part-{i}.tfrecord", "bytes": 3, "rows": 10, "crc32": 7} for i in range(2)]
    (place / "_MANIFEST.json").write_text(json.dumps({"shards": shards}))
    assert numbers(window(folder).evaluate) == [6]
    shards[1]["rows"] = 11
    (place / "_MANIFEST.json").write_text(json.dumps({"shards": shards}))
    found = window(folder)
    assert numbers(found.evaluate) == [5]
    assert found.left_out[day(6)].startswith(f"{place}/part-1.tfrecord has 10 records in 3 bytes")


def test_late_and_rewritten_days_are_noticed(folder):
    late = folder / "data" / f"dt={day(3)}" / "_SUCCESS"
    late.unlink()
    before = window(folder, 5)
    assert numbers(before.train) == [2, 4]
    late.touch()
    (folder / "data" / f"dt={day(4)}" / "part-0.tfrecord").write_bytes(b"again")
    again = window(folder, 5, before=before)
    assert (again.late, again.rewritten) == ((day(3),), (day(4),))
    assert again.content != before.content
    assert Window.model_validate_json(again.model_dump_json()) == again


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"as_of": 2, "window_min": ("2d",)},
         "--train_files: expected at least 1 complete periods for evaluation (--eval_window) "
         "and 2 for training (--window_min) up to 2026-01-02, got 2"),
        ({"window_min": ("41rows",)},
         "--train_files: expected at least 41 records (--window_min) in the 2 periods from "
         "2026-01-04 to 2026-01-05, got 40 records"),
    ],
)  # fmt: skip
def test_too_little_is_an_error(folder, changes, message):
    with pytest.raises(DataError) as error:
        window(folder, **changes)
    assert str(error.value) == message


def test_only_rows_that_the_filter_keeps_count(folder):
    found = window(folder, facts=FilteredFacts())
    assert (numbers(found.train), numbers(found.evaluate)) == ([3, 4], [6])
    assert found.left_out == {day(5): "the filter of the spec drops all its 20 records"}
    assert [(day.rows, day.dropped) for day in found.train] == [(18, 2), (18, 2)]
    window(folder, facts=FilteredFacts(), window_min=("36rows",))
    with pytest.raises(DataError, match=r"2026-01-03 to 2026-01-04, got 36 of 40 records\n"):
        window(folder, facts=FilteredFacts(), window_min=("37rows",))


def test_a_day_with_another_label_rate_is_left_out(tmp_path):
    from estimator_kit.retraining.facts import Facts

    write_spec(tmp_path)
    for number in (1, 2, 4):
        write_day(tmp_path, number, rows=40)
    write_day(tmp_path, 3, rows=40, click=0)
    spec = parser.load(tmp_path / "spec.yaml")
    found = window(tmp_path, 4, facts=Facts(str(tmp_path / "facts"), spec))
    assert (numbers(found.train), numbers(found.evaluate)) == ([1, 2], [4])
    assert found.left_out == {day(3): "the mean of label 'click' is 0, below min: 0.05"}


# --- Periods of five minutes ----------------------------------------------------------------------

MINUTES = {"train_files": ("data/ts=*/*.tfrecord",), "period": "5m", "window": "15m"}


@pytest.fixture
def minutes(tmp_path, monkeypatch):
    """Complete periods from 23:40 to 00:20 of the next day."""
    monkeypatch.chdir(tmp_path)
    write_spec(tmp_path, label_rate={})
    for minute in range(-20, 25, 5):
        write_minutes(minute)
    return tmp_path


def write_minutes(minute, content=b"rows"):
    """Writes the period that begins this number of minutes after midnight of 2026-01-05."""
    place = pathlib.Path("data", f"ts={name_of(minute)}")
    place.mkdir(parents=True, exist_ok=True)
    (place / "part-0.tfrecord").write_bytes(content)
    (place / "_SUCCESS").touch()
    return place


def name_of(minute):
    moment = datetime.datetime(2026, 1, 5) + datetime.timedelta(minutes=minute)
    return f"{moment:%Y-%m-%dT%H-%M}"


def of_minutes(as_of="2026-01-05", before=None, **changes):
    found = choose(
        *[config(**{**MINUTES, **changes})] * 3, parser.load("spec.yaml"), FewFacts(),
        as_of=as_of, before=before,
    )  # fmt: skip
    return found, [period.name for period in found.train], [p.name for p in found.evaluate]


@pytest.mark.parametrize(
    ("as_of", "changes", "train", "evaluate"),
    [
        ("2026-01-05", {}, [5, 10, 15], [20]),
        ("2026-01-05T00-07", {}, [-10, -5, 0], [5]),
        ("2026-01-04", {"window": "10m", "eval_window": "10m"}, [-20, -15], [-10, -5]),
        ("2026-01-05T00", {"window": "1h", "window_max_age": "45m"}, [10, 15], [20]),
    ],
)
def test_the_last_minutes_are_scored(minutes, as_of, changes, train, evaluate):
    found, *names = of_minutes(as_of, **changes)
    assert names == [[*map(name_of, train)], [*map(name_of, evaluate)]]
    start = datetime.datetime(2026, 1, 5, tzinfo=datetime.timezone.utc)
    assert found.evaluate[0].span == (
        names[1][0],
        start + datetime.timedelta(minutes=evaluate[0]),
        start + datetime.timedelta(minutes=evaluate[0] + 5),
    )
    assert Window.model_validate_json(found.model_dump_json(exclude_unset=True)) == found


def test_broken_late_and_rewritten_minutes(minutes):
    (minutes / "data" / f"ts={name_of(15)}" / "_SUCCESS").unlink()
    for minute in (-5, 0, 5):
        shutil.rmtree(minutes / "data" / f"ts={name_of(minute)}")
    bad = write_minutes(10).joinpath("part-1.tfrecord")
    bad.write_bytes(b"bad")
    before, train, _ = of_minutes(corrupt_data_policy="quarantine")
    assert train == [name_of(-15), name_of(-10), name_of(10)]
    assert before.left_out == {
        f"{name_of(-5)} to {name_of(5)}": "the 3 periods do not exist",
        name_of(15): "it is not complete: it has no _SUCCESS file",
        str(bad): "it is damaged: record 0 at byte 0: no record",
    }
    write_minutes(15)
    write_minutes(10, b"again")
    again, train, _ = of_minutes(before=before, corrupt_data_policy="quarantine")
    assert train == [name_of(-10), name_of(10), name_of(15)]
    assert (again.late, again.rewritten) == ((name_of(15),), (name_of(10),))


def test_shorter_periods_of_known_days_are_not_late(minutes):
    old = PeriodData(name="2026-01-04", digest="old", rows=9, files=())
    before = Window(
        as_of="2026-01-05", train=(old,), left_out={},
        evaluate=(old.model_copy(update={"name": "2026-01-05"}),),
    )  # fmt: skip
    assert of_minutes(before=before)[0].late == ()


def test_a_window_of_an_earlier_version_can_be_read(tmp_path):
    file = tmp_path / "window.json"
    written = {
        "as_of": "2026-01-06", "left_out": {}, "late": [], "rewritten": [], "digest": "d",
        "train": [{"name": "2026-01-05", "digest": "a", "rows": 1, "files": [], "dropped": 0}],
        "evaluate": [{"name": "2026-01-06", "digest": "b", "rows": 1, "files": []}],
        "identity": "i", "seconds": 1.5,
        "made_with": {"code": "", "versions": {}, "flags": [], "seed": 1},
    }  # fmt: skip
    file.write_text(json.dumps(written))
    found = CycleWindow.load(str(file))
    start = datetime.datetime(2026, 1, 6, tzinfo=datetime.timezone.utc)
    assert found.evaluate[0].span[1:] == (start, start + datetime.timedelta(days=1))
    assert found.as_json() == written
