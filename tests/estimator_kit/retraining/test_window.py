"""Which days a cycle reads, and why it leaves out other days."""

from __future__ import annotations

import datetime
import json
import logging
import zlib

import pytest

from estimator_kit.retraining.facts import FileFacts
from estimator_kit.retraining.window import Window, choose
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
        as_of=datetime.date(2026, 1, as_of), before=before,
    )  # fmt: skip


def numbers(days):
    return [int(found.name[-2:]) for found in days]


@pytest.mark.parametrize(
    ("as_of", "changes", "train", "evaluate"),
    [
        (6, {}, [4, 5], [6]),
        (4, {}, [2, 3], [4]),
        (30, {"window_days": 3, "eval_window_days": 2}, [2, 3, 4], [5, 6]),
        (6, {"window_days": 9, "window_min_days": 5}, [1, 2, 3, 4, 5], [6]),
        (8, {"window_days": 9, "window_max_age_days": 4}, [4, 5], [6]),
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
            as_of=datetime.date(2026, 3, 1),
        )  # fmt: skip
    assert (numbers(found.train), numbers(found.evaluate)) == ([4, 5], [6])
    assert caplog.messages == [
        "--train_files: 2026-02-30 is not a valid date, so its folder is ignored"
    ]


def test_damaged_files_stop_or_are_left_out(folder):
    bad = folder / "data" / f"dt={day(5)}" / "part-1.tfrecord"
    bad.write_bytes(b"bad")
    with pytest.raises(DataError) as error:
        window(folder)
    assert str(error.value) == f"{bad}: record 0 at byte 0: no record"
    found = window(folder, corrupt_data_policy="quarantine")
    assert numbers(found.train) == [4, 5] and len(found.train_files) == 3
    assert found.left_out == {
        day(5): f"1 of its 2 files are damaged, for example {bad}: record 0 at byte 0: no record"
    }
    (bad.parent / "part-0.tfrecord").write_bytes(b"bad")
    assert numbers(window(folder, corrupt_data_policy="quarantine").train) == [3, 4]


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
        ({"as_of": 2, "window_min_days": 2},
         "--train_files: expected at least 1 complete days for evaluation (--eval_window_days) "
         "and 2 for training (--window_min_days) up to 2026-01-02, got 2"),
        ({"window_min_rows": 41},
         "--train_files: expected at least 41 records (--window_min_rows) in the 2 days from "
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
    window(folder, facts=FilteredFacts(), window_min_rows=36)
    with pytest.raises(DataError, match=r"2026-01-03 to 2026-01-04, got 36 of 40 records\n"):
        window(folder, facts=FilteredFacts(), window_min_rows=37)


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
