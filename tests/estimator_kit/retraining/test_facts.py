"""The facts of files, also of an old window whose files were removed."""

from __future__ import annotations

import logging
import pathlib
import shutil

import pytest

from estimator_kit.retraining import data_checks
from estimator_kit.retraining.facts import Facts, label_rate_problem
from estimator_kit.retraining.window import PeriodData
from feature_specs.parser import parser
from feature_specs.sections.retraining import LabelRate
from input_pipelines import own_code
from input_pipelines.errors import DataError
from input_pipelines.integrity import data_scan
from input_pipelines.record_files import writing
from tests.conftest import make_rows
from tests.estimator_kit.retraining import reports


@pytest.fixture
def old(tmp_path, document):
    """(facts, the files of an old window, its folder)."""
    folder = tmp_path / "dt=2026-01-01"
    folder.mkdir()
    paths = [str(folder / f"part-{i}.tfrecord") for i in range(2)]
    for i, path in enumerate(paths):
        writing.write_examples(path, make_rows(20, seed=i))
    facts = Facts(str(tmp_path / "facts"), parser.parse(document))
    return facts, facts.of_files(paths), folder


def kept(tmp_path):
    return [path.name for path in (tmp_path / "facts").glob("statistics-*")]


def test_statistics_of_an_old_window_are_made_while_its_files_are_there(old, tmp_path):
    facts, files, folder = old
    found = facts.old_statistics(files)
    assert found is not None and found.as_text() == facts.statistics(files).as_text()
    shutil.rmtree(folder)  # The statistics are stored elsewhere.
    assert facts.old_statistics(files).as_text() == found.as_text()
    # As after an upgrade of the kit.
    (place,) = (tmp_path / "facts").glob("statistics-*")
    place.write_text("{}")
    assert facts.old_statistics(files) is None


def test_a_file_that_is_gone_or_holds_something_else_has_no_old_statistics(old, tmp_path):
    facts, files, _ = old
    writing.write_examples(files[0].path, make_rows(30, seed=9))
    assert facts.old_statistics(files) is None
    pathlib.Path(files[0].path).unlink()
    assert facts.old_statistics(files) is None
    assert kept(tmp_path) == []  # Nothing is stored under the hashes of other bytes.


def test_a_file_that_is_written_while_it_is_read_has_no_facts(old, tmp_path, monkeypatch):
    """For example, a day that is copied again, with the same bytes in the end."""
    facts, _, folder = old
    path = str(folder / "part-2.tfrecord")
    writing.write_examples(path, make_rows(20, seed=3))
    content, scan = pathlib.Path(path).read_bytes(), data_scan.scan

    def copied_meanwhile(paths, **named):
        pathlib.Path(path).write_bytes(content[:100])
        found = list(scan(paths, **named))
        pathlib.Path(path).write_bytes(content)
        return found

    before = sorted((tmp_path / "facts").iterdir())
    with monkeypatch.context() as patched:
        patched.setattr(data_scan, "scan", copied_meanwhile)
        with pytest.raises(DataError) as error:
            facts.of_files([path])
    assert str(error.value) == (
        f"{path} was written while it was read. Start again when it is complete."
    )
    assert [p for p in (tmp_path / "facts").glob("file-*") if p not in before] == []
    assert facts.of_files([path])[0].rows == 20


def test_a_file_that_gets_the_name_of_its_compression_is_read_again(tmp_path, document):
    """The message about the file says to rename it."""
    packed, path = tmp_path / "part.tfrecord.gz", tmp_path / "part.tfrecord"
    writing.write_examples(str(packed), make_rows(20, seed=1))
    packed.rename(path)
    facts = Facts(str(tmp_path / "facts"), parser.parse(document))
    (before,) = facts.of_files([str(path)])
    assert before.rows == 0 and "its name does not end in .gz" in before.bad
    path.rename(packed)
    (now,) = facts.of_files([str(packed)])
    assert (now.sha256, now.rows, now.bad) == (before.sha256, 20, None)
    assert facts.known_statistics([before]) is None
    assert facts.statistics([now]).rows == 20
    assert facts.known_statistics([before]) is None


@pytest.mark.ci
def test_another_version_of_the_kit_makes_its_own_facts(old, document, tmp_path, monkeypatch):
    facts, files, _ = old
    facts.statistics(files)
    count, scan = [], data_scan.scan

    def counted(paths, **named):
        count.extend(paths)
        return scan(paths, **named)

    monkeypatch.setattr(data_scan, "scan", counted)
    paths = [file.path for file in files]
    assert facts.of_files(paths) == files and count == []
    monkeypatch.setattr(own_code, "of_reading", lambda: "another version")
    assert facts.known_statistics(files) is None
    assert facts.of_files(paths) == files and count == paths
    facts.statistics(files)
    document["objectives"]["click"]["loss_weight"] = 2.0  # It changes no row.
    document["columns"]["user_emb"]["dimension"] = 5
    other = Facts(str(tmp_path / "facts"), parser.parse(document))
    assert other.of_files(paths) == files and count == paths
    document["filter"] = [{"feature": "price", "min": -1}]
    other = Facts(str(tmp_path / "facts"), parser.parse(document))
    assert other.of_files(paths) == files and count == [*paths, *paths]
    assert other.known_statistics(files) is None  # Another filter may keep other records.


def test_statistics_of_other_bytes_are_not_stored(old, tmp_path):
    facts, files, _ = old
    summary = facts.summary(files)
    (place,) = (tmp_path / "facts").glob("statistics-*")
    place.unlink()
    writing.write_examples(files[0].path, make_rows(30, seed=9))
    facts._store(files, summary)
    assert kept(tmp_path) == []


def test_drift_without_statistics_of_the_last_window_is_a_warning(old, document):
    facts, files, _ = old
    spec = parser.parse({**document, "drift": {"default": {"missing": {"warn": 0.1}}}})
    assert spec.drift.any
    day = (PeriodData(name="2026-01-01", digest="digest", rows=40, files=tuple(files)),)
    window = reports.window("2026-01-01", train=day, evaluate=day)
    found = data_checks.run(spec, window, facts, before=window, drift_found=None)
    assert [(f.check, f.verdict, f.text) for f in found if f.check == "drift"] == [
        ("drift", "warn", "drift is not checked: the last cycle's window as of 2026-01-01 has no "
         "statistics, and its files were removed or changed, or the filter drops all their rows"),
    ]  # fmt: skip
    assert not [f for f in data_checks.run(spec, window, facts) if f.check == "drift"]


@pytest.mark.parametrize("verdict", ["stop", "warn"])
def test_drift_of_the_new_days_alone(old, document, tmp_path, verdict):
    """Day 1 was in the last window. On day 2, every city is rome."""
    _, files, _ = old
    document["drift"] = {"features": {"city": {"l_infinity": {verdict: 0.25}}}}
    spec = parser.parse(document)
    facts = Facts(str(tmp_path / "facts"), spec)
    rows = [*make_rows(20, seed=0), *make_rows(20, seed=1)]
    path = str(tmp_path / "day-2.tfrecord")
    writing.write_examples(path, [{**row, "city": "rome"} for row in make_rows(10, seed=2)])
    first = PeriodData(name="2026-01-01", digest="one", rows=40, files=tuple(files))
    new_files = tuple(facts.of_files([path]))
    second = PeriodData(name="2026-01-02", digest="two", rows=10, files=new_files)
    before = reports.window(train=(first,), evaluate=(first,))
    window = reports.window(train=(first,), evaluate=(second,))
    statistics = facts.statistics(files)
    report = data_checks.measure_drift(spec, window, facts, before, statistics)
    assert (report.rows_before, report.rows) == (40, 10)
    distance = 1 - sum(row["city"] == "rome" for row in rows) / 40
    assert distance > 0.5
    found = data_checks.run(spec, window, facts, before=before, drift_found=report)
    (drift,) = (f for f in found if f.check == "drift")
    assert drift.verdict == verdict
    assert drift.text.startswith(
        f"drift of feature 'city': l_infinity {distance:.4f} is over {verdict}: 0.25; "
    )
    # Without a new day, the training files are compared: here, with themselves.
    report = data_checks.measure_drift(spec, before, facts, before, statistics)
    assert report.rows == 40 and report.errors == report.warnings == ()


def test_rows_and_statistics_are_those_that_the_filter_keeps(old, document, tmp_path, caplog):
    """The days of a new filter are measured again. Its days before, which had clicks, too."""
    _, files, _ = old
    paths = [file.path for file in files]
    rows = [row for seed in range(2) for row in make_rows(20, seed=seed)]
    document["filter"] = [{"feature": "price", "max": 5}]  # In rome, cheap things have no click.
    document["filter"].append({"feature": "city", "in": ["rome"]})
    kept = [row for row in rows if row["price"] <= 5 and row["city"] == "rome"]
    facts = Facts(str(tmp_path / "facts"), parser.parse(document))
    found = facts.of_files(paths)
    assert [file.rows for file in found] == [20, 20]
    assert sum(file.dropped for file in found) == 40 - len(kept) > 20
    statistics = facts.old_statistics(files)
    assert (statistics.rows, statistics.dropped) == (len(kept), 40 - len(kept))
    price = statistics.features["price"].numbers
    assert price.mean == pytest.approx(sum(row["price"] for row in kept) / len(kept))
    assert label_rate_problem("click", LabelRate(min=0.01), statistics) == (
        "the mean of label 'click' is 0, below min: 0.01"
    )
    document["filter"] = [{"feature": "price", "min": 100}]
    nothing = Facts(str(tmp_path / "facts"), parser.parse(document))
    with caplog.at_level(logging.WARNING):
        assert nothing.old_statistics(files) is None
    text = "the filter of the spec drops all 40 records. Check `filter`, or name other files"
    assert caplog.messages[-1] == f"the last cycle's window: {text}"
    with pytest.raises(DataError) as error:
        nothing.statistics(files)
    assert str(error.value) == text
