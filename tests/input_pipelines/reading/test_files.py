"""Patterns become sorted lists of files; errors name missing days and unknown file systems."""

from __future__ import annotations

import sys
import types

import pytest
import tensorflow as tf

from input_pipelines.errors import DataError, MissingPackageError
from input_pipelines.reading import days, files
from input_pipelines.record_files import file_systems


@pytest.fixture
def folder(tmp_path):
    for day in ("2026-01-01", "2026-01-02", "2026-01-04"):
        (tmp_path / f"dt={day}").mkdir()
        for name in ("b.tfrecord", "a.tfrecord", ".tmp-c.tfrecord"):
            (tmp_path / f"dt={day}" / name).touch()
    return tmp_path


def test_files_are_sorted_and_listed_once(folder):
    one = f"{folder}/dt=2026-01-01/a.tfrecord"
    other = f"{folder}/dt=2026-01-01/b.tfrecord"
    patterns = [f"{folder}//dt=2026-01-01/*", f"{folder}/./dt=2026-01-01/a*", one]
    assert files.expand(patterns) == [one, other]


def test_a_star_does_not_match_a_file_that_is_being_written(folder):
    hidden = f"{folder}/dt=2026-01-01/.tmp-c.tfrecord"
    assert hidden not in files.expand([f"{folder}/dt=2026-01-01/*"])
    assert files.expand([f"{folder}/dt=2026-01-01/.*"]) == [hidden]
    with pytest.raises(DataError, match="no file matches"):
        files.expand([f"{folder}/dt=2026-01-01/*-c.tfrecord"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-01-07", ["2026-01-07"]),
        ("2026-02-27..2026-03-01", ["2026-02-27", "2026-02-28", "2026-03-01"]),
        ("3d..2026-01-01", ["2025-12-30", "2025-12-31", "2026-01-01"]),
        ("1d..2026-01-01", ["2026-01-01"]),
    ],
)
def test_windows_of_days(text, expected):
    assert days.parse(text) == tuple(expected)


EXPECTED = (
    "expected a day (2026-01-07), a first and a last day (2026-01-01..2026-01-07) or a number of "
    "days and the last one (7d..2026-01-07)"
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", f"got '', {EXPECTED}"),
        ("2026-1-7", f"got '2026-1-7', {EXPECTED}"),
        ("2026-01-01..", f"got '2026-01-01..', {EXPECTED}"),
        ("d..2026-01-01", f"got 'd..2026-01-01', {EXPECTED}"),
        ("2026-02-30", "got '2026-02-30': the day 2026-02-30 does not exist"),
        (
            "2026-01-02..2026-01-01",
            "got '2026-01-02..2026-01-01': the last day is before the first",
        ),
        ("0d..2026-01-01", "got '0d..2026-01-01': 0 days, expected 1 or more"),
        ("9999999d..2026-01-01", "got '9999999d..2026-01-01': 9999999 days, expected 1 or more"),
    ],
)
def test_invalid_windows(text, message):
    with pytest.raises(ValueError) as error:
        days.parse(text)
    assert str(error.value) == message


@pytest.mark.parametrize("place", ["dt=*", "dt=YYYY-MM-DD"])
def test_days_take_the_place_of_the_star(folder, place):
    found = files.expand([f"{folder}/{place}/a*"], days=days.parse("2026-01-01..2026-01-02"))
    assert found == [f"{folder}/dt=2026-01-0{day}/a.tfrecord" for day in (1, 2)]


def test_a_missing_day_is_named(folder):
    with pytest.raises(DataError) as error:
        files.expand([f"{folder}/dt=*/*"], flag="--train_files", days=days.parse("5d..2026-01-05"))
    assert str(error.value) == (
        "--train_files: 2 of 5 days are missing (2026-01-03, 2026-01-05): no file matches "
        f"'{folder}/dt=2026-01-03/*'. Write them, or choose other days"
    )


@pytest.mark.parametrize("pattern", ["data/*", "dt=2026-01-01/*", "dt=*/dt=*/x", "xdt=*/a"])
def test_a_pattern_without_a_place_for_the_day(pattern):
    with pytest.raises(ValueError, match=r"parts dt=\*, expected one, as in data/dt=\*/\*"):
        days.of_days(pattern, ("2026-01-01",))


# --- File systems ---------------------------------------------------------------------------------


@pytest.fixture
def tensorflow_io(monkeypatch):
    """Replaces the module tensorflow_io by another one; None makes its import fail."""

    def put(module):
        monkeypatch.setitem(sys.modules, "tensorflow_io", module)

    put(None)  # Importing it now fails, even if it is installed.
    return put


def test_the_package_that_brings_a_file_system_is_named(tensorflow_io):
    with pytest.raises(MissingPackageError) as error:
        files.expand(["s3://bucket/*.tfrecord"], flag="--train_files")
    assert str(error.value) == (
        f"--train_files: 's3://bucket/*.tfrecord': TensorFlow {tf.__version__} has no file system "
        "for s3:// (Amazon S3). The package tensorflow-io adds it: pip install tensorflow-io, in "
        "the release for this TensorFlow. If no such release exists, copy or mount the files and "
        "use local paths"
    )


def test_a_package_that_does_not_help_is_not_asked_for_again(tensorflow_io):
    tensorflow_io(types.ModuleType("tensorflow_io"))
    with pytest.raises(
        MissingPackageError, match=r"tensorflow-io is installed, but did not add it\. "
    ):
        file_systems.check("hdfs://name/x", flag="--model_dir")


def test_an_unknown_scheme_lists_the_known_ones():
    with pytest.raises(MissingPackageError) as error:
        file_systems.check("ftp://host/x", flag="--model_dir")
    assert str(error.value) == (
        f"--model_dir: 'ftp://host/x': TensorFlow {tf.__version__} has no file system for ftp://. "
        "Use a local path or one of: file://, gs://, ram://. With tensorflow-io (pip install "
        "tensorflow-io), also one of: s3://, s3e://, hdfs://, viewfs://, har://, az://, oss://, "
        "http://, https://"
    )


@pytest.mark.parametrize("path", ["a/b", "/a://b", "gs://bucket/x", "ram://x", "file:///x", "C:x"])
def test_paths_that_tensorflow_reads_itself(path):
    file_systems.check(path, flag="--x")
