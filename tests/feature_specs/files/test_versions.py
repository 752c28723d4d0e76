"""Versions of a model: folders that have a number as long as they are complete."""

from __future__ import annotations

import os
import pathlib

import pytest

from feature_specs.errors import ConfigError
from feature_specs.files import locks, staged, versions

pytestmark = pytest.mark.no_tensorflow

DAY = 24 * 3600


@pytest.fixture
def folder(tmp_path):
    for number in (9, 10, 11, 12):
        (tmp_path / str(number)).mkdir()
    return tmp_path


def publish(folder, **options):
    with versions.unnamed(str(folder)) as temporary:
        pathlib.Path(temporary, "saved_model.pb").write_text("new")
        return versions.publish(temporary, str(folder), **options)


def test_only_folders_with_plain_numbers_are_versions_in_their_order(folder):
    assert versions.paths(str(folder / "none")) == []
    for name in ("007", "²", "temp-11", ".staging-12-1", ".tmp-version-1", str(2**63)):
        (folder / name).mkdir()
    (folder / "13").write_text("")
    assert versions.numbers(str(folder)) == [9, 10, 11, 12]
    assert versions.paths(str(folder))[:2] == [f"{folder}/9", f"{folder}/10"]


def test_nothing_is_published_above_the_largest_number(folder):
    (folder / str(2**63 - 2)).mkdir()
    assert publish(folder) == f"{folder}/{2**63 - 1}"
    with pytest.raises(ConfigError, match="the largest number that a version can have"):
        publish(folder)
    assert len([*folder.iterdir()]) == 6


def test_a_version_is_higher_than_all_names_that_are_there(folder):
    assert publish(folder) == f"{folder}/13"
    assert publish(folder, least=70) == f"{folder}/70"
    for name in ("71", "0072", "²", "9" * 30):
        (folder / name).write_text("")
    assert publish(folder, least=5) == f"{folder}/73"
    assert sorted(os.listdir(folder / "73")) == ["saved_model.pb"]


def test_another_process_that_takes_the_number_meanwhile(folder, monkeypatch):
    rename = staged.rename

    def late(old, new, **options):
        if new == f"{folder}/13":
            os.makedirs(f"{new}/assets")
        rename(old, new, **options)

    monkeypatch.setattr(staged, "rename", late)
    assert publish(folder) == f"{folder}/14"
    assert versions.numbers(str(folder))[-2:] == [13, 14] and os.listdir(folder / "13") == [
        "assets"
    ]


def test_what_is_not_published_is_removed(folder):
    with pytest.raises(KeyError), versions.unnamed(str(folder)) as temporary:
        pathlib.Path(temporary, "saved_model.pb").write_text("half")
        raise KeyError
    assert len(os.listdir(folder)) == 4


@pytest.mark.parametrize("has_locks", [True, False])
def test_only_what_dead_processes_have_left_is_removed(folder, monkeypatch, has_locks):
    def missing(*arguments):
        raise OSError

    if not has_locks:
        monkeypatch.setattr(locks.fcntl, "flock", missing)
    dead, old, older, others = (
        folder / name
        for name in (".tmp-version-7", ".tmp-11-0123abcd", ".removed-11", ".tmp-notes-1")
    )
    for left in (dead, old, older, others):
        left.mkdir()
        (left / "variables").write_text("half")
    for left in (old, older, others):  # Without locks, a day without a change counts as death.
        for path in (left / "variables", left):
            os.utime(path, (1, 1))
    with versions.unnamed(str(folder)) as living:
        publish(folder)
        assert os.path.isdir(living)
    assert [left.exists() for left in (dead, old, older, others)] == [not has_locks, False, False,
                                                                      True]  # fmt: skip


def test_a_folder_of_the_version_before_stays_for_a_day(folder):
    """It had no lock, so its writer may be alive."""
    (folder / ".staging-5-1a2b").mkdir()
    publish(folder)
    assert (folder / ".staging-5-1a2b").exists()


def test_a_version_is_removed_by_its_name_first(folder, monkeypatch):
    def stopped(path):
        assert sorted(os.listdir(path)) == ["saved_model.pb"]
        raise KeyError

    (folder / "9" / "saved_model.pb").write_text("whole")
    with monkeypatch.context() as patched:
        patched.setattr(staged.file_systems, "remove_folder", stopped)
        with pytest.raises(KeyError):
            staged.remove_folder(f"{folder}/9")
    assert versions.numbers(str(folder)) == [10, 11, 12] and len(os.listdir(folder)) == 4
    publish(folder)
    assert len(os.listdir(folder)) == 4


def test_of_a_link_only_the_link_is_removed(folder, tmp_path_factory):
    target = tmp_path_factory.mktemp("target")
    (target / "saved_model.pb").write_text("whole")
    (folder / "13").symlink_to(target)
    staged.remove_folder(f"{folder}/13")
    assert len(os.listdir(folder)) == 4 and os.listdir(target) == ["saved_model.pb"]
