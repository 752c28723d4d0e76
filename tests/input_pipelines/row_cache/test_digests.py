"""A digest is remembered only while the file is certainly the same."""

from __future__ import annotations

import hashlib
import os
import pathlib
import threading

import pytest

from input_pipelines.row_cache import folder
from input_pipelines.row_cache.folder import Digests


@pytest.fixture
def read(monkeypatch):
    """The paths whose bytes were read."""
    paths = []
    file = folder.tf.io.gfile.GFile
    monkeypatch.setattr(
        folder.tf.io.gfile, "GFile", lambda path, mode: (paths.append(path), file(path, mode))[1]
    )
    return paths


@pytest.fixture
def old(monkeypatch):
    """Changes are old enough to be remembered."""
    monkeypatch.setattr(folder, "_YOUNG", -(10**12))


def sha(data):
    return hashlib.sha256(data).hexdigest()


def test_a_file_is_read_once(tmp_path, read, old):
    path = tmp_path / "a"
    path.write_bytes(b"one")
    known = Digests(tmp_path / "digests")
    assert known.of(str(path)) == known.of(str(path)) == sha(b"one")
    assert Digests(tmp_path / "digests").of(str(path)) == sha(b"one")
    assert read == [str(path)]


def test_a_changed_file_is_read_again(tmp_path, read, old):
    path = tmp_path / "a"
    path.write_bytes(b"one")
    known = Digests(tmp_path / "digests")
    before = os.stat(path)
    assert known.of(str(path)) == sha(b"one")
    # The same file name, size and modification time: all that a user can set.
    path.write_bytes(b"two")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert known.of(str(path)) == sha(b"two")
    (tmp_path / "b").write_bytes(b"tri")
    os.utime(tmp_path / "b", ns=(before.st_atime_ns, before.st_mtime_ns))
    os.replace(tmp_path / "b", path)
    assert known.of(str(path)) == sha(b"tri")
    assert len(read) == 3


def test_a_young_file_is_read_each_time(tmp_path, read):
    path = tmp_path / "a"
    path.write_bytes(b"one")
    known = Digests(tmp_path / "digests")
    assert known.of(str(path)) == known.of(str(path)) == sha(b"one")
    assert len(read) == 2
    assert not (tmp_path / "digests").exists()


def test_a_file_that_changes_while_it_is_read_is_not_remembered(tmp_path, monkeypatch, old):
    path = tmp_path / "a"
    path.write_bytes(b"one")
    identity = folder._identity
    seen = []

    def changing(name):
        seen.append(identity(name))
        if len(seen) == 2:
            pathlib.Path(name).write_bytes(b"longer")
            seen[-1] = identity(name)
        return seen[-1]

    monkeypatch.setattr(folder, "_identity", changing)
    known = Digests(tmp_path / "digests")
    assert known.of(str(path)) == sha(b"one")
    assert known.of(str(path)) == sha(b"longer")


def test_truncated_lines_and_old_lines_are_dropped(tmp_path, monkeypatch, old):
    path = tmp_path / "a"
    path.write_bytes(b"one")
    file = tmp_path / "digests"
    Digests(file).of(str(path))
    whole = file.read_text()
    file.write_bytes(b"\xff\n" + whole[:-10].encode())
    assert Digests(file).of(str(path)) == sha(b"one")
    monkeypatch.setattr(folder, "_MOST", 2)
    lines = [f"1-{i}-1-1-1 {'0' * 64}\n" for i in range(3)]
    file.write_text("".join([*lines, whole]))
    Digests(file)
    assert file.read_text() == whole
    assert sorted(os.listdir(tmp_path)) == ["a", "digests"]


def test_a_line_of_another_run_is_kept_while_the_file_is_shortened(tmp_path, monkeypatch, old):
    path, data = tmp_path / "digests.txt", tmp_path / "data"
    data.write_bytes(b"rows")
    monkeypatch.setattr(folder, "_MOST", 4)
    path.write_text("".join(f"1-2-3-4-{n} {n:064x}\n" for n in range(5)))
    other, read = folder.Digests(tmp_path / "other.txt"), folder._text
    other._path = path
    adding = threading.Thread(target=lambda: other.of(str(data)))

    def reading(path):
        text = read(path)
        adding.start()
        adding.join(0.2)  # It waits for the lock. Without one, it would be done.
        return text

    monkeypatch.setattr(folder, "_text", reading)
    folder.Digests(path)
    adding.join()
    kept = read(path).splitlines()
    assert [line[:9] for line in kept[:2]] == ["1-2-3-4-3", "1-2-3-4-4"]
    assert len(kept) == 3 and kept[2].endswith(hashlib.sha256(b"rows").hexdigest())
