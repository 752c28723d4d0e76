"""The files of a request log: what is in which file, also when the disk is full."""

from __future__ import annotations

import errno
import os
import pathlib
import random

import pytest
import tensorflow as tf

from estimator_kit.serving import log_files
from estimator_kit.serving.log_files import LogFiles, recover
from feature_specs.files import staged

# 2026-01-05T13:30:00Z
NOON = 1_767_619_800.0
# The bytes of a record of ten bytes in a TFRecord file.
FRAME = 26


class Told:
    """What files tell: how many records were written and lost, and the reasons."""

    def __init__(self):
        self.written = self.failed = 0
        self.reasons = []

    def __call__(self, outcome, number, reason):
        setattr(self, outcome, getattr(self, outcome) + number)
        self.reasons += [reason] if reason else []


def made(folder, told, *, secs=60, file_bytes=10**6, keep_bytes=0):
    return LogFiles(str(folder), secs=secs, file_bytes=file_bytes, keep_bytes=keep_bytes, tell=told)


def record(number):
    return b"%010d" % number


def read(path):
    return list(tf.compat.v1.io.tf_record_iterator(str(path)))


def logs(folder):
    return sorted(pathlib.Path(folder).glob("requests-*"))


def names(folder):
    return sorted(os.listdir(folder))


def test_a_file_appears_whole_after_its_seconds(tmp_path):
    told = Told()
    files = made(tmp_path, told)
    files.write([record(0), record(1)], NOON)
    files.write([record(2)], NOON + 59)
    name = f"requests-20260105T133000Z-{os.getpid()}-0.tfrecord"
    assert names(tmp_path) == [f".tmp-{name}-1"] and told.written == 0
    files.rotate(NOON + 59.9)
    assert told.written == 0
    files.rotate(NOON + 60)
    assert names(tmp_path) == [name] and told.written == 3
    assert read(tmp_path / name) == [record(0), record(1), record(2)]
    files.write([record(3)], NOON + 61)
    files.close()
    files.close()
    assert names(tmp_path) == [name, f"requests-20260105T133101Z-{os.getpid()}-1.tfrecord"]
    assert told.written == 4 and files.files == 2 and not told.reasons


def test_a_file_appears_after_its_bytes(tmp_path):
    told = Told()
    files = made(tmp_path, told, file_bytes=3 * FRAME)
    files.write(map(record, range(7)), NOON)
    assert [len(read(path)) for path in logs(tmp_path)] == [3, 3] and told.written == 6
    files.close()
    found = [each for path in logs(tmp_path) for each in read(path)]
    assert found == [record(i) for i in range(7)] and told.written == 7


def test_a_name_that_exists_is_not_used_again(tmp_path):
    name = f"requests-20260105T133000Z-{os.getpid()}-"
    (tmp_path / f"{name}0.tfrecord").write_text("of a process with the same number")
    files = made(tmp_path, Told())
    files.write([record(0)], NOON)
    files.close()
    assert names(tmp_path) == [f"{name}0.tfrecord", f"{name}1.tfrecord"]


class Disk:
    """A disk that gets full after some bytes."""

    def __init__(self, monkeypatch):
        self.free = 10**9
        self._write = os.write
        monkeypatch.setattr(log_files, "_write_all", self.write_all)

    def write_all(self, handle, data):
        self._write(handle, data[: self.free])
        if len(data) > self.free:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.free -= len(data)


def test_a_full_disk_loses_only_what_it_did_not_take(tmp_path, monkeypatch):
    disk, told = Disk(monkeypatch), Told()
    files = made(tmp_path, told)
    files.write([record(0)], NOON)
    disk.free = FRAME // 2
    files.write([record(1), record(2)], NOON + 1)
    assert (told.failed, told.reasons) == (2, ["[Errno 28] No space left on device"])
    disk.free = 10**9
    files.write([record(3)], NOON + 2)
    files.close()
    (path,) = logs(tmp_path)
    assert read(path) == [record(0), record(3)]
    assert (told.written, told.failed) == (2, 2)


def test_a_folder_that_becomes_a_file_and_comes_back(tmp_path):
    folder, told = tmp_path / "logs", Told()
    folder.write_text("")
    files = made(folder, told)
    files.write([record(0)], NOON)
    assert told.failed == 1 and str(folder) in told.reasons[0]
    folder.unlink()
    files.write([record(1)], NOON)
    files.close()
    (path,) = logs(folder)
    assert read(path) == [record(1)] and (told.written, told.failed) == (1, 1)


def test_a_file_that_somebody_removes_is_counted_as_lost(tmp_path):
    told = Told()
    files = made(tmp_path, told)
    files.write([record(0), record(1)], NOON)
    (temporary,) = tmp_path.iterdir()
    temporary.unlink()
    files.close()
    assert (told.written, told.failed) == (0, 2) and names(tmp_path) == []


def test_a_record_that_is_too_large_is_counted_as_lost(tmp_path, monkeypatch):
    monkeypatch.setattr("input_pipelines.record_files.framing.LARGEST_RECORD", 20)
    told = Told()
    files = made(tmp_path, told)
    files.write([record(0), bytes(21), record(1)], NOON)
    files.close()
    (path,) = logs(tmp_path)
    assert read(path) == [record(0), record(1)] and (told.written, told.failed) == (2, 1)


def test_the_oldest_files_are_removed(tmp_path, caplog):
    (tmp_path / "notes.txt").write_text("x" * 1000)
    (tmp_path / "requests-20250101T000000Z-7-0.tfrecord").write_bytes(bytes(FRAME))
    told = Told()
    files = made(tmp_path, told, file_bytes=FRAME, keep_bytes=2 * FRAME)
    with caplog.at_level("WARNING", logger="estimator_kit"):
        for i in range(3):
            files.write([record(i)], NOON + i)
    assert [read(path) for path in logs(tmp_path)] == [[record(1)], [record(2)]]
    assert files.removed == 2 and "notes.txt" in names(tmp_path)
    line = (
        f"request log: the oldest 1 files of {tmp_path} were removed, because all files together "
        "had more than --serving_log_keep_mib"
    )
    assert caplog.messages == [line, line]


def test_the_newest_file_stays_though_it_is_too_large(tmp_path):
    files = made(tmp_path, Told(), keep_bytes=1)
    for i in range(2):
        files.write([record(i)], NOON + i)
        files.close()
    assert [read(path) for path in logs(tmp_path)] == [[record(1)]]


def test_what_a_killed_server_left_gets_its_name(tmp_path, caplog):
    name = "requests-20260105T133000Z-7-{}.tfrecord"
    with tf.io.TFRecordWriter(str(tmp_path / "whole")) as writer:
        writer.write(record(0))
        writer.write(record(1))
    whole = (tmp_path / "whole").read_bytes()
    (tmp_path / "whole").unlink()
    for number, content in enumerate((whole, whole[:-1], b"", whole[:5])):
        (tmp_path / f".tmp-{name.format(number)}-1").write_bytes(content)
    (tmp_path / ".tmp-other-1").write_bytes(whole)
    living = made(tmp_path, Told())
    living.write([record(5)], NOON)
    assert recover(str(tmp_path)) == 3
    assert [read(path) for path in logs(tmp_path)] == [[record(0), record(1)], [record(0)]]
    own = f"requests-20260105T133000Z-{os.getpid()}-0.tfrecord"
    left = sorted([".tmp-other-1", f".tmp-{own}-1"])
    assert [each for each in names(tmp_path) if each.startswith(staged.TEMPORARY)] == left
    living.close()
    assert read(tmp_path / own) == [record(5)]


@pytest.mark.parametrize("seed", range(20))
def test_each_record_is_written_once_or_counted_as_lost(tmp_path, monkeypatch, seed):
    rng = random.Random(seed)
    disk, told = Disk(monkeypatch), Told()
    files = made(tmp_path, told, secs=5, file_bytes=6 * FRAME)
    now, count = NOON, 0
    for _ in range(60):
        now += rng.choice([0, 1, 3])
        disk.free = rng.choice([10**9, 10**9, rng.randrange(3 * FRAME)])
        step = rng.randrange(8)
        if step == 0:
            files.rotate(now)
        elif step == 1:
            files.close()
        elif step == 2:
            for path in tmp_path.glob(".tmp-*"):
                path.unlink()
        else:
            size = rng.randrange(9)
            files.write([record(count + i) for i in range(size)], now)
            count += size
    disk.free = 10**9
    files.close()
    found = [each for path in logs(tmp_path) for each in read(path)]
    assert len(set(found)) == len(found) == told.written
    assert told.written + told.failed == count
    assert set(found) <= {record(i) for i in range(count)}
    assert not list(tmp_path.glob(".tmp-*"))
