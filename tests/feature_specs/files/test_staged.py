"""Files and folders that appear whole, also if others write the same or were killed."""

from __future__ import annotations

import errno
import os

import pytest

from feature_specs.errors import ConfigError
from feature_specs.files import locks, staged

pytestmark = pytest.mark.no_tensorflow


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def content(folder):
    return {path.name: path.read_text() for path in folder.iterdir()}


def test_two_writers_have_two_temporary_files_and_the_later_end_stays(tmp_path):
    path = tmp_path / "new" / "a.txt"
    with staged.file(str(path)) as first:
        write(first, "first")
        with staged.file(str(path)) as second:
            write(second, "second")
            assert {first, second} == {f"{tmp_path}/new/.tmp-a.txt-{n}" for n in (1, 2)}
            assert not path.exists()
        assert path.read_text() == "second"
    assert content(path.parent) == {"a.txt": "first"}


def test_after_an_error_the_old_file_stays_and_nothing_else(tmp_path):
    write(tmp_path / "a.txt", "old")
    with pytest.raises(KeyError), staged.file(f"{tmp_path}/a.txt") as temporary:
        write(temporary, "new")
        raise KeyError
    assert content(tmp_path) == {"a.txt": "old"}


def test_an_error_of_the_disk_names_the_file(tmp_path):
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    message = rf"No space left on device: '{tmp_path}/a.txt'"
    with pytest.raises(OSError, match=message), staged.file(f"{tmp_path}/a.txt"):
        raise full


def test_a_file_that_its_writer_renames_meanwhile_is_not_touched(tmp_path, monkeypatch):
    """Between the opening of the temporary file and its lock, its writer ends."""
    write(tmp_path / ".tmp-a.txt-1", "whole")
    lock = locks.lock

    def late(handle, **options):
        if not (tmp_path / "a.txt").exists():
            os.rename(tmp_path / ".tmp-a.txt-1", tmp_path / "a.txt")
        lock(handle, **options)

    monkeypatch.setattr(locks, "lock", late)
    with pytest.raises(KeyError), staged.file(f"{tmp_path}/a.txt"):
        raise KeyError
    assert content(tmp_path) == {"a.txt": "whole"}


def test_without_locks_a_name_is_random(tmp_path, monkeypatch):
    def missing(handle, **options):
        raise locks.LocksMissing

    monkeypatch.setattr(locks, "lock", missing)
    with staged.file(f"{tmp_path}/a") as first, staged.file(f"{tmp_path}/a") as second:
        assert len({first, second, f"{tmp_path}/.tmp-a-1", f"{tmp_path}/.tmp-a-2"}) == 4
        assert len(os.path.basename(first)) == len("a") + staged.ROOM
        write(second, "second")
        write(first, "first")
    assert content(tmp_path) == {"a": "first"}


def test_a_folder_in_the_place_of_a_file(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").touch()
    for path, problem in (
        ("a", "a is a folder, expected a file"),
        ("b/c", "b is a file, expected"),
    ):
        with pytest.raises(ConfigError, match=problem), staged.file(f"{tmp_path}/{path}"):
            pytest.fail("the block must not start")
    assert sorted(tmp_path.iterdir()) == [tmp_path / "a", tmp_path / "b"]


def test_what_else_has_a_temporary_name_stays(tmp_path):
    """A folder, a link to another file, and a file in the place of a folder."""
    (tmp_path / ".tmp-a-1").mkdir()
    write(tmp_path / "other", "other")
    (tmp_path / ".tmp-a-2").symlink_to(tmp_path / "other")
    with staged.file(f"{tmp_path}/a") as temporary:
        assert temporary == f"{tmp_path}/.tmp-a-3"
        write(temporary, "new")
    write(tmp_path / ".tmp-b-1", "a file")
    with staged.folder(f"{tmp_path}/b") as temporary:
        assert temporary == f"{tmp_path}/.tmp-b-2"
    assert (tmp_path / "a").read_text() == "new" and (tmp_path / "b").is_dir()
    assert (tmp_path / "other").read_text() == "other" and (tmp_path / ".tmp-a-1").is_dir()


def test_of_a_link_only_the_link_is_removed(tmp_path):
    write(tmp_path / "other", "other")
    for target in ("other", "nothing"):
        (tmp_path / "link").symlink_to(tmp_path / target)
        staged.remove_folder(f"{tmp_path}/link")
        assert content(tmp_path) == {"other": "other"}
    with pytest.raises(FileNotFoundError):
        staged.remove_folder(f"{tmp_path}/link")


def test_a_folder_appears_whole(tmp_path):
    with staged.folder(f"{tmp_path}/a") as temporary:
        write(f"{temporary}/b", "new")
        assert not (tmp_path / "a").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert content(tmp_path / "a") == {"b": "new"}
    with pytest.raises(OSError), staged.folder(f"{tmp_path}/a") as temporary:
        write(f"{temporary}/b", "newer")
    assert content(tmp_path / "a") == {"b": "new"} and len([*tmp_path.iterdir()]) == 1


def test_who_does_not_wait_is_told(tmp_path):
    with locks.held(str(tmp_path)), pytest.raises(locks.Taken), locks.held(str(tmp_path)):
        pytest.fail("the block must not start")
    with locks.held(str(tmp_path), wait=True):
        pass
