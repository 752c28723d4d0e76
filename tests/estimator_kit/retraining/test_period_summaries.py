"""The records of a day are analyzed once; later windows merge the summaries of their days."""

from __future__ import annotations

import pathlib

import pytest

from estimator_kit.errors import ConfigError
from estimator_kit.retraining import period_summaries
from estimator_kit.retraining.facts import Facts
from feature_specs.parser import parser
from input_pipelines import own_code
from input_pipelines.errors import DataError
from input_pipelines.prepare.analyze import scan
from input_pipelines.record_files import writing
from tests.conftest import make_rows


@pytest.fixture
def days(tmp_path):
    """Three folders with two files each."""
    paths = []
    for day in range(3):
        folder = tmp_path / f"dt=2026-01-{day + 1:02d}"
        folder.mkdir()
        for part in range(2):
            paths.append(str(folder / f"part-{part}.tfrecord"))
            writing.write_examples(paths[-1], make_rows(20, seed=2 * day + part))
    return paths


@pytest.fixture
def scanned(monkeypatch):
    """The files of each scan, in order."""
    calls = []
    real = scan.scan

    def counted(files, **options):
        calls.append(list(files))
        return real(files, **options)

    monkeypatch.setattr(period_summaries.scan, "scan", counted)
    return calls


def facts_of(tmp_path, document, folder="facts"):
    return Facts(str(tmp_path / folder), parser.parse(document))


def stored(tmp_path):
    return sorted((tmp_path / "facts").glob("summary-*"))


def test_a_new_window_reads_the_records_of_new_days_alone(tmp_path, document, days, scanned):
    first = facts_of(tmp_path, document)
    first.statistics(first.of_files(days[:4]))
    assert scanned == [days[:2], days[2:4]]
    # The next night, in another process.
    second = facts_of(tmp_path, document)
    found = second.statistics(second.of_files(days[2:]))
    assert scanned[2:] == [days[4:]]
    # The words of this window are read, too.
    assert second.summary(second.of_files(days[2:])).rows == 80
    assert len(scanned) == 3
    # One scan gives the same statistics: here all counts and quantiles are exact.
    assert found.as_text() == scan.scan(days[2:]).statistics(4).as_text()


@pytest.mark.ci
def test_stored_and_new_summaries_give_the_same_statistics(tmp_path, document, days):
    some = facts_of(tmp_path, document)
    some.statistics(some.of_files(days[2:4]))  # Only this day is stored.
    new = facts_of(tmp_path, document, "new")
    assert (
        some.statistics(some.of_files(days)).as_text()
        == new.statistics(new.of_files(days)).as_text()
    )


def test_a_day_that_was_written_again_is_read_again(tmp_path, document, days, scanned):
    facts = facts_of(tmp_path, document)
    facts.statistics(facts.of_files(days[:4]))
    writing.write_examples(days[0], make_rows(30, seed=9))
    assert facts.statistics(facts.of_files(days[:4])).rows == 90
    assert scanned == [days[:2], days[2:4], days[:2]]


def test_nothing_is_stored_if_a_file_changes_meanwhile(tmp_path, document, days, monkeypatch):
    facts = facts_of(tmp_path, document)
    files = facts.of_files(days[:2])
    real = scan.scan

    def with_change(paths, **options):
        found = real(paths, **options)
        writing.write_examples(days[0], make_rows(30, seed=9))
        return found

    monkeypatch.setattr(period_summaries.scan, "scan", with_change)
    assert facts.statistics(files).rows == 40
    assert stored(tmp_path) == []


def test_a_damaged_summary_is_read_again(tmp_path, document, days, scanned, caplog):
    facts = facts_of(tmp_path, document)
    text = facts.summary(facts.of_files(days[:2])).statistics(2).as_text()
    (place,) = stored(tmp_path)
    whole = place.read_bytes()
    for content in (whole[:-20], whole.replace(b'"rows":40', b'"rows":41'), b"", b"\xff" + whole):
        assert content != whole
        place.write_bytes(content)
        with caplog.at_level("WARNING", logger="estimator_kit"):
            assert facts.summary(facts.of_files(days[:2])).statistics(2).as_text() == text
        assert place.read_bytes() == whole
    assert len(scanned) == 5
    assert caplog.messages == [
        f"{place} is damaged, so the records of its period are read again"
    ] * 4  # fmt: skip


def test_a_folder_in_the_place_of_a_summary_is_named(tmp_path, document, days):
    facts = facts_of(tmp_path, document)
    facts.summary(facts.of_files(days[:2]))
    (place,) = stored(tmp_path)
    place.unlink()
    place.mkdir()
    with pytest.raises(ConfigError, match=f"^{place} is a folder, expected a file. Move it away"):
        facts.summary(facts.of_files(days[:2]))


def test_another_version_of_the_kit_reads_records_again(
    tmp_path, document, days, scanned, monkeypatch
):
    facts = facts_of(tmp_path, document)
    facts.summary(facts.of_files(days[:2]))
    monkeypatch.setattr(own_code, "of_reading", lambda: "another version")
    facts.summary(facts.of_files(days[:2]))
    assert len(scanned) == 2


def test_only_the_summaries_of_the_window_are_kept(tmp_path, document, days, scanned):
    facts = facts_of(tmp_path, document)
    facts.statistics(facts.of_files(days))
    facts.keep_summaries(facts.of_files(days[2:]))
    assert len(stored(tmp_path)) == 2
    facts.summary(facts.of_files(days[2:]))
    assert len(scanned) == 3


def test_files_without_records(tmp_path, document, days):
    # With GZIP a file without records has bytes, so it does not count as damaged.
    empty = tmp_path / "dt=2026-01-04" / "part-0.tfrecord.gz"
    empty.parent.mkdir()
    writing.write_examples(str(empty), [])
    facts = facts_of(tmp_path, document)
    assert facts.statistics(facts.of_files([*days, str(empty)])).rows == 120
    with pytest.raises(DataError, match="has no records to analyze"):
        facts.statistics(facts.of_files([str(empty)]))
    with pytest.raises(DataError, match="statistics need at least one file, got none"):
        facts.summary([])


def test_days_with_two_types_are_an_error(tmp_path, document):
    """As in one scan, the error names a record of each type."""
    paths = []
    for name, value in (("a", 1), ("b", "one")):
        folder = pathlib.Path(tmp_path, name)
        folder.mkdir()
        paths.append(f"{folder}/part-0.tfrecord")
        writing.write_examples(paths[-1], [{**make_rows(1, seed=1)[0], "more": value}])
    facts = facts_of(tmp_path, document)
    files = facts.of_files(paths)
    for own in (files, files[::-1]):  # The second time, both days are stored.
        with pytest.raises(DataError, match=r"feature 'more' is int64 in .*a/part-0\.tfrecord"):
            facts.statistics(own)
