"""The cache folder: its size limit, runs at the same time, and what a killed run leaves behind."""

from __future__ import annotations

import hashlib
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import pytest

from input_pipelines.row_cache.folder import CacheFolder, CacheFull


def key(name):
    return hashlib.sha256(name.encode()).hexdigest()


def add(folder, name, size):
    """Writes an entry of some bytes, and returns its path."""
    unfinished = folder.unfinished(name)
    pathlib.Path(unfinished).write_bytes(b"x" * size)
    return folder.add(name, unfinished)


@pytest.fixture
def folder(tmp_path):
    folder = CacheFolder(f"{tmp_path}/cache", limit=100)
    yield folder
    folder.close()


def other_run(folder):
    return CacheFolder(str(folder.path), limit=100)


def test_an_entry_is_found_by_later_runs(folder):
    assert folder.find(key("a")) is None
    path = add(folder, key("a"), 30)
    assert os.path.basename(path) == f"{key('a')}-30.rows"
    folder.close()
    later = other_run(folder)
    assert later.find(key("a")) == path
    assert later.find(key("b")) is None
    later.close()
    assert sorted(os.listdir(folder.path)) == [".lock", os.path.basename(path)]


def test_entries_that_were_used_longest_ago_are_removed_first(folder):
    for second, name in enumerate("abc"):
        os.utime(add(folder, key(name), 30), (time.time() - 9 + second,) * 2)
    folder.close()
    later = other_run(folder)
    assert later.find(key("a"))  # Used now, and by this run.
    add(later, key("d"), 40)
    assert later.evicted == 1
    assert later.find(key("b")) is None
    assert later.find(key("c"))
    # All but 30 bytes belong to this run.
    with pytest.raises(CacheFull, match="need 160 bytes, but the limit is 100"):
        add(later, key("e"), 60)
    assert later.find(key("e")) is None
    later.close()


def test_entries_that_another_run_uses_are_kept(folder):
    add(folder, key("a"), 60)
    later = other_run(folder)
    with pytest.raises(CacheFull):
        add(later, key("b"), 60)
    folder.close()
    add(later, key("b"), 60)
    assert later.find(key("a")) is None
    later.close()


def test_a_truncated_entry_is_not_used(folder, caplog):
    path = add(folder, key("a"), 30)
    os.truncate(path, 29)
    with caplog.at_level("INFO", logger="estimator_kit"):
        assert folder.find(key("a")) is None
    assert "the size of the file differs from the size in its name" in caplog.text
    assert not os.path.exists(path)


def test_an_entry_that_nobody_used_for_a_month_is_removed(folder):
    month = 30 * 24 * 3600
    for name, age in {"new": month - 3600, "old": month + 3600, "older": 2 * month}.items():
        path = add(folder, key(name), 10)
        os.utime(path, (time.time() - age,) * 2)
    folder.close()
    using = other_run(folder)
    assert using.evicted == 2
    assert [using.find(key(name)) is not None for name in ("new", "old", "older")] == [
        True, False, False,
    ]  # fmt: skip
    os.utime(using.find(key("new")), (0, 0))
    later = other_run(folder)  # The entry is in use.
    assert later.find(key("new"))
    using.close(), later.close()


def test_many_threads_and_runs_add_at_once(folder):
    runs = [folder, *(other_run(folder) for _ in range(3))]
    paths = []

    def use(run, i):
        name = key(str(i % 5))
        paths.append(run.find(name) or add(run, name, 20))

    threads = [threading.Thread(target=use, args=(runs[i % 4], i)) for i in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(paths) == 40
    assert {os.path.getsize(path) for path in paths} == {20}
    for run in runs:
        run.close()
    assert sorted(os.listdir(folder.path)) == sorted(
        [".lock", *(f"{key(str(i))}-20.rows" for i in range(5))]
    )


def test_a_run_does_not_close_while_another_reads_its_lease(folder, monkeypatch):
    other, closing, listdir = other_run(folder), [], os.listdir

    def closes_meanwhile(path):
        names = listdir(path)
        if not closing:
            closing.append(threading.Thread(target=other.close))
            closing[0].start()
            closing[0].join(0.2)  # It waits for the lock, however long this takes.
        return names

    monkeypatch.setattr(os, "listdir", closes_meanwhile)
    add(folder, key("a"), 30)
    closing[0].join()
    assert not [name for name in listdir(folder.path) if other._run in name]


def test_a_killed_run_leaves_no_entry_and_is_cleaned_up(folder, tmp_path):
    program = f"""
import os, signal
from input_pipelines.row_cache.folder import CacheFolder
folder = CacheFolder({str(folder.path)!r}, limit=100)
whole = folder.unfinished({key("whole")!r})
open(whole, "wb").write(b"x" * 50)
folder.add({key("whole")!r}, whole)
with open(folder.unfinished({key("half")!r}), "wb") as file:
    file.write(b"x" * 40)
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""
    ended = subprocess.run([sys.executable, "-c", program], cwd=os.getcwd(), check=False)
    assert ended.returncode == -signal.SIGKILL
    left = set(os.listdir(folder.path))
    assert any(key("half") in name for name in left)
    later = other_run(folder)
    assert not any(key("half") in name for name in os.listdir(folder.path))
    assert later.find(key("half")) is None
    assert later.find(key("whole"))
    later.close()
    folder.close()
    assert len(os.listdir(folder.path)) == 2  # The lock and the complete entry.
