"""Folders that are made once: by one run at a time, and removed when no run uses them."""

from __future__ import annotations

import multiprocessing
import os
import pathlib
import threading
import time

import pytest

from feature_specs.files import caches, jobs, locks, staged
from feature_specs.files.shards import Written

pytestmark = pytest.mark.no_tensorflow


def make_of(size, made=None):
    """A `make` that writes a finished job with one shard."""

    def make(folder):
        os.makedirs(folder, exist_ok=True)
        pathlib.Path(folder, "data").write_bytes(b"x" * size)
        shard = Written(name="data", rows=1, bytes=size, crc32=0)
        jobs.Manifest(shards=[shard]).save(os.path.join(folder, jobs.MANIFEST))
        staged.write(os.path.join(folder, jobs.SUCCESS), b"")
        if made is not None:
            made.append(os.path.basename(folder))

    return make


def use(root, name, size, made=None):
    with caches.used(str(root), name, make_of(size, made)) as folder:
        return folder


def names(root):
    return sorted(path.name for path in root.iterdir() if path.is_dir())


def test_a_folder_is_made_once_and_again_if_a_file_is_missing(tmp_path):
    made = []
    folder = use(tmp_path, "a", 10, made)
    assert use(tmp_path, "a", 10, made) == folder and made == ["a"]
    os.remove(f"{folder}/data")
    use(tmp_path, "a", 10, made)
    assert made == ["a", "a"]


def test_an_error_while_it_is_made_leaves_it_to_the_next_run(tmp_path):
    def fail(folder):
        raise ValueError("a bad row")

    with pytest.raises(ValueError, match="a bad row"), caches.used(str(tmp_path), "a", fail):
        pass
    assert use(tmp_path, "a", 10) == f"{tmp_path}/a"


def test_the_folders_that_were_used_longest_ago_make_room(tmp_path):
    now = time.time()
    for age, name in enumerate(("new", "middle", "old")):
        use(tmp_path, name, 10_000)
        os.utime(tmp_path / f"{name}.lock", (now - age, now - age))
    # A manifest has about 150 bytes, so three folders have 30.5 kB.
    caches.make_room(str(tmp_path), "next", 10_000, limit=45_000)
    assert names(tmp_path) == ["middle", "new", "old"]
    caches.make_room(str(tmp_path), "next", 10_000, limit=31_000)
    assert names(tmp_path) == ["middle", "new"]
    assert sorted(path.name for path in tmp_path.glob("*.lock")) == [
        ".lock", "middle.lock", "new.lock"
    ]  # fmt: skip


def test_a_folder_in_use_stays_and_one_without_use_for_30_days_does_not(tmp_path):
    now = time.time()
    for days, name in ((29, "recent"), (31, "old")):
        use(tmp_path, name, 10)
        os.utime(tmp_path / f"{name}.lock", (now - days * 86400, now - days * 86400))
    with caches.used(str(tmp_path), "used", make_of(10)):
        os.utime(tmp_path / "used.lock", (0, 0))
        caches.make_room(str(tmp_path), "next", 10, limit=10**9)
        assert names(tmp_path) == ["recent", "used"]
        caches.make_room(str(tmp_path), "next", 10, limit=1)
        assert names(tmp_path) == ["used"]
        caches.remove(str(tmp_path), "used")
        assert names(tmp_path) == ["used"]
    caches.remove(str(tmp_path), "used")
    assert names(tmp_path) == []


def hold(root, name, is_held, may_end):
    with caches.used(root, name, make_of(10)):
        is_held.set()
        assert may_end.wait(60)


def test_the_folder_of_another_process_stays(tmp_path):
    context = multiprocessing.get_context("fork")
    is_held, may_end = context.Event(), context.Event()
    process = context.Process(target=hold, args=(str(tmp_path), "a", is_held, may_end))
    process.start()
    assert is_held.wait(60)
    caches.make_room(str(tmp_path), "next", 10, limit=1)
    assert names(tmp_path) == ["a"]
    may_end.set()
    process.join(60)
    caches.make_room(str(tmp_path), "next", 10, limit=1)
    assert names(tmp_path) == []


def test_of_two_runs_at_once_one_makes_the_folder(tmp_path):
    made, is_making, may_go_on = [], threading.Event(), threading.Event()

    def make_slowly(folder):
        is_making.set()
        assert may_go_on.wait(60)
        make_of(10, made)(folder)

    def first():
        with caches.used(str(tmp_path), "a", make_slowly):
            pass

    one = threading.Thread(target=first)
    one.start()
    assert is_making.wait(60)
    with pytest.raises(locks.Taken), locks.held(str(tmp_path / "a.lock"), shared=True):
        pass
    two = threading.Thread(target=use, args=(tmp_path, "a", 10, made))
    two.start()
    may_go_on.set()
    one.join(60)
    two.join(60)
    assert made == ["a"] and names(tmp_path) == ["a"]
