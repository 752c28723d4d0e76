"""Patterns become sorted lists of files; errors name missing days and unknown file systems."""

from __future__ import annotations

import fnmatch
import itertools
import os

import pytest
import tensorflow as tf

from feature_specs.errors import ConfigError
from feature_specs.files import file_systems
from input_pipelines.errors import DataError
from input_pipelines.reading import files


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


def test_files_as_they_are_given(folder):
    day = f"{folder}/dt=2026-01-01"
    given = [f"{day}/b.tfrecord", f"{day}/*.tfrecord", f"{day}/b.tfrecord"]
    one, other = f"{day}/a.tfrecord", f"{day}/b.tfrecord"
    assert files.expand(given, as_given=True) == [other, one, other, other]


def test_a_star_does_not_match_a_file_that_is_being_written(folder):
    hidden = f"{folder}/dt=2026-01-01/.tmp-c.tfrecord"
    assert hidden not in files.expand([f"{folder}/dt=2026-01-01/*"])
    assert files.expand([f"{folder}/dt=2026-01-01/.*"]) == [hidden]
    with pytest.raises(DataError, match="no file matches"):
        files.expand([f"{folder}/dt=2026-01-01/*-c.tfrecord"])


def test_a_folder_in_the_place_of_files_is_named(tmp_path):
    """Spark writes a folder of this name."""
    place = tmp_path / "a.parquet"
    place.mkdir()
    with pytest.raises(DataError) as error:
        files.expand([str(place)], flag="--train_files")
    assert str(error.value) == (
        f"no file matches '{place}' of --train_files: {place} is a folder. Name its files: "
        f"{place}/*"
    )


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
    assert files.parse_days(text) == tuple(expected)


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
        files.parse_days(text)
    assert str(error.value) == message


@pytest.mark.parametrize("place", ["dt=*", "dt=YYYY-MM-DD"])
def test_days_take_the_place_of_the_star(folder, place):
    found = files.expand([f"{folder}/{place}/a*"], days=files.parse_days("2026-01-01..2026-01-02"))
    assert found == [f"{folder}/dt=2026-01-0{day}/a.tfrecord" for day in (1, 2)]


def test_a_missing_day_is_named(folder):
    with pytest.raises(DataError) as error:
        files.expand(
            [f"{folder}/dt=*/*"], flag="--train_files", days=files.parse_days("5d..2026-01-05")
        )
    assert str(error.value) == (
        "--train_files: 2 of 5 days are missing (2026-01-03, 2026-01-05): no file matches "
        f"'{folder}/dt=2026-01-03/*'. Write them, or choose other days"
    )


@pytest.mark.parametrize("pattern", ["data/*", "dt=2026-01-01/*", "dt=*/dt=*/x", "xdt=*/a"])
def test_a_pattern_without_a_place_for_the_day(pattern):
    with pytest.raises(ValueError, match=r"parts dt=\*, expected one, as in data/dt=\*/\*"):
        files.of_days(pattern, ("2026-01-01",))


# --- Hidden names ---------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["", "file://", "ram://"])
def test_a_wildcard_skips_hidden_folders(tmp_path, scheme):
    root = f"{scheme}{tmp_path}/_data"  # A part without a wildcard may begin with any character.
    for name in ("dt=2026-01-01", ".tmp-dt=2026-01-02", "_temporary", "_unfinished", "deep/_x"):
        tf.io.gfile.makedirs(f"{root}/{name}")
        with tf.io.gfile.GFile(f"{root}/{name}/part.tfrecord", "w") as file:
            file.write("x")
    assert files.expand([f"{root}/*/*.tfrecord"]) == [f"{root}/dt=2026-01-01/part.tfrecord"]
    assert files.expand([f"{root}/[_d]*/*.tfrecord"]) == [f"{root}/dt=2026-01-01/part.tfrecord"]
    assert files.expand([f"{root}/_*/*.tfrecord"]) == [
        f"{root}/_temporary/part.tfrecord",
        f"{root}/_unfinished/part.tfrecord",
    ]
    assert files.expand([f"{root}/deep/_x/*"]) == [f"{root}/deep/_x/part.tfrecord"]
    with pytest.raises(DataError, match="no file matches"):
        files.expand([f"{root}/*/*/*.tfrecord"])


def test_patterns_match_like_the_shell_and_tensorflow(tmp_path, monkeypatch):
    """All patterns of two parts, compared with each name on its own, and with TensorFlow's glob."""
    monkeypatch.chdir(tmp_path)
    names = ("a1", "b2", "a[1]", ".a1", "_a1")
    for folder, name in itertools.product(names, names):
        os.makedirs(folder, exist_ok=True)
        (tmp_path / folder / name).touch()
    parts = ("*", "a*", "?1", "[ab]?", "[!a]*", "[^a]*", "_*", ".*", "*[[]*", "a[1]", "a[12]", "a1")

    def matches(name, part):
        if name == part or part == "a[1]":  # A file of this name exists.
            return name == part
        is_hidden = name[0] in "._" and part[0] != name[0]
        return not is_hidden and fnmatch.fnmatchcase(name, part.replace("[^", "[!"))

    for pair in itertools.product(parts, parts):
        pattern = "/".join(pair)
        expected = sorted(
            f"{folder}/{name}"
            for folder, name in itertools.product(names, names)
            if matches(folder, pair[0]) and matches(name, pair[1])
        )
        assert sorted(files.glob(pattern)) == expected, pattern
        if "a[1]" not in pair:
            found = (
                os.path.relpath(path, tmp_path)
                for path in tf.io.gfile.glob(f"{tmp_path}/{pattern}")
            )
            of_tensorflow = [
                path
                for path in found
                if all(n[0] not in "._" or n[0] == p[0] for n, p in zip(path.split("/"), pair))
            ]
            assert sorted(of_tensorflow) == expected, pattern


@pytest.mark.parametrize("scheme", ["", "ram://"])
def test_brackets_in_a_name_that_exists_are_no_wildcards(tmp_path, scheme):
    root = f"{scheme}{tmp_path}/run[1]"
    for path in (f"{root}/part[1].csv", f"{root}/part1.csv", f"{tmp_path}/run1/part1.csv"):
        tf.io.gfile.makedirs(os.path.dirname(path))
        with tf.io.gfile.GFile(path, "w") as file:
            file.write("x")
    assert files.expand([f"{root}/part[1].csv"]) == [f"{root}/part[1].csv"]
    assert files.expand([f"{root}/part[12].csv"]) == [f"{root}/part1.csv"]
    assert files.expand([f"{root}/*"]) == [f"{root}/part1.csv", f"{root}/part[1].csv"]


# --- Spellings ------------------------------------------------------------------------------------


def test_the_spelling_of_paths_changes_neither_the_files_nor_their_order(folder, monkeypatch):
    (folder / "link").symlink_to(folder / "dt=2026-01-01")
    (folder / "cwd" / "here").mkdir(parents=True)
    (folder / "cwd" / "here" / "c.tfrecord").touch()
    monkeypatch.chdir(folder / "cwd")
    expected = [f"{folder}/cwd/here/c.tfrecord", f"{folder}/dt=2026-01-01/a.tfrecord"]
    for here, other in itertools.product(
        ("here/c.tfrecord", "./here//c*", f"{folder}/cwd/here/*", f"file://{folder}/cwd/here/*"),
        ("../dt=2026-01-01/a*", f"{folder}/link/a.tfrecord", "here/../../link/../link/a*"),
    ):
        found = files.expand([other, here, f"{folder}/dt=2026-01-01/a*"])
        assert list(file_systems.canonical_of(found).values()) == expected, (here, other)


def test_a_link_and_two_dots_is_the_folder_of_the_file_system(tmp_path, monkeypatch):
    (tmp_path / "far" / "folder").mkdir(parents=True)
    (tmp_path / "a.tfrecord").write_text("near")
    (tmp_path / "far" / "a.tfrecord").write_text("far")
    (tmp_path / "link").symlink_to(tmp_path / "far" / "folder")
    monkeypatch.chdir(tmp_path)
    (found,) = files.expand(["link/../a.tfrecord"])
    with open(found) as file:
        assert file.read() == "far"


def test_a_link_to_a_file_keeps_its_name(tmp_path):
    (tmp_path / "blob").touch()
    (tmp_path / "a.tfrecord.gz").symlink_to(tmp_path / "blob")
    found = files.expand([f"{tmp_path}/a.tfrecord.gz", f"{tmp_path}/blob"])
    assert found == [f"{tmp_path}/a.tfrecord.gz", f"{tmp_path}/blob"]


@pytest.mark.parametrize("pattern", ["*.tfrecord", "gone.tfrecord", "dt=*/*"])
def test_a_link_to_a_file_that_does_not_exist(tmp_path, pattern):
    place = tmp_path / "dt=2026-01-01" if "dt" in pattern else tmp_path
    place.mkdir(exist_ok=True)
    (place / "a.tfrecord").touch()
    (place / "gone.tfrecord").symlink_to("removed")
    days = ["2026-01-01"] if "dt" in pattern else []
    with pytest.raises(DataError) as error:
        files.expand([f"{tmp_path}/{pattern}"], flag="--predict_files", days=days)
    assert str(error.value) == (
        f"--predict_files: {place}/gone.tfrecord is a link to removed, which does not exist. "
        "Remove the link, or restore its file"
    )
    (place / "removed").touch()
    assert f"{place}/gone.tfrecord" in files.expand([f"{tmp_path}/{pattern}"], days=days)


def test_two_days_that_are_one_folder_are_refused(folder):
    (folder / "dt=2026-01-03").symlink_to(folder / "dt=2026-01-02")
    with pytest.raises(DataError) as error:
        files.expand([f"{folder}/dt=*/a*"], flag="--x", days=files.parse_days("3d..2026-01-03"))
    assert str(error.value) == (
        "--x: the days 2026-01-02 and 2026-01-03 are one folder, by a link: both have "
        f"{folder}/dt=2026-01-03/a.tfrecord. Remove the link, or choose other days"
    )


# --- File systems ---------------------------------------------------------------------------------


def test_an_unknown_scheme():
    with pytest.raises(ConfigError) as error:
        file_systems.check("ftp://host/x", flag="--model_dir")
    assert str(error.value) == (
        "--model_dir: 'ftp://host/x': here, TensorFlow itself has to reach the path, and it has no "
        "file system for ftp://. Copy or mount the files and use local paths"
    )


@pytest.mark.parametrize("path", ["a/b", "/a://b", "gs://bucket/x", "ram://x", "file:///x", "C:x"])
def test_paths_that_tensorflow_reads_itself(path):
    file_systems.check(path, flag="--x")


def test_a_link_leads_to_a_shared_file(tmp_path):
    (tmp_path / "a").mkdir()
    path, other = tmp_path / "a" / "x", tmp_path / "y"
    path.write_text("x")
    other.write_text("x")  # A copy is another file.
    link = tmp_path / "link"
    link.symlink_to(path)
    paths = [str(link), f"{tmp_path}/a/../a/x", str(other)]
    assert files.shared(paths, [str(path)]) == paths[:2]
    assert files.shared([str(path)], [str(link)]) == [str(path)]
