"""The lock of a model directory: one owner at a time, even after a kill."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import json
import logging
import os
import subprocess
import sys
import threading

import pytest

from estimator_kit.errors import ConfigError, Locked
from estimator_kit.training import lock
from tests.conftest import ROOT

pytestmark = pytest.mark.no_tensorflow

OTHER = lock.Owner("ann", "elsewhere", 12, "token", since=900.0, heartbeat=1000.0)


def test_who_holds_it_is_on_disk_and_gone_at_the_end(tmp_path):
    with lock.held(str(tmp_path), clock=lambda: 5.0):
        owner = lock.read(str(tmp_path / "lock.json"))
        assert (owner.pid, owner.since, owner.heartbeat) == (os.getpid(), 5.0, 5.0)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["_LOCK"]


def test_a_second_start_names_the_owner(tmp_path):
    owner = dataclasses.replace(OTHER, host="here")
    with lock.held(str(tmp_path), clock=lambda: 1000.0, owner=owner):
        with pytest.raises(Locked) as error, lock.held(str(tmp_path)):
            pass
        assert lock.read(str(tmp_path / "lock.json")) == owner
    assert str(error.value) == (
        f"{tmp_path} is locked by ann on here, process 12. Only one start works in a folder at a "
        "time. Try again when the other start has ended."
    )


def left_behind(folder, owner):
    held = lock.Lock(str(folder), owner, lambda: owner.heartbeat)
    held._write()


@pytest.mark.parametrize("age", [0.0, 119.0])
def test_a_living_owner_elsewhere_is_left_alone(tmp_path, age):
    left_behind(tmp_path, OTHER)
    with (
        pytest.raises(Locked, match="ann on elsewhere, process 12"),
        lock.held(str(tmp_path), clock=lambda: 1000.0 + age),
    ):
        pass
    # The refused start has released its flock.
    with lock.held(str(tmp_path), clock=lambda: 1200.0):
        pass


def test_a_stale_lock_is_taken_over_with_a_line_in_the_log(tmp_path, caplog):
    left_behind(tmp_path, OTHER)
    with caplog.at_level(logging.WARNING), lock.held(str(tmp_path), clock=lambda: 1120.0):
        assert lock.read(str(tmp_path / "lock.json")).token != "token"
    assert caplog.messages == [
        f"taking over the lock of {tmp_path}: ann on elsewhere, process 12 left it behind, and "
        "last renewed it 120 s ago"
    ]


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", "null", "[" * 100_000, "BEAT"])
def test_a_lock_file_that_was_never_whole_stops_nobody(tmp_path, text):
    values = {**dataclasses.asdict(OTHER), "heartbeat": "now"}
    (tmp_path / "lock.json").write_text(json.dumps(values) if text == "BEAT" else text)
    with lock.held(str(tmp_path)) as held:
        assert lock.read(str(tmp_path / "lock.json")) == held.owner


def test_a_killed_owner_on_this_machine_leaves_nothing_to_wait_for(tmp_path):
    code = (
        "import os, sys\nfrom estimator_kit.training import lock\n"
        f"with lock.held({str(tmp_path)!r}):\n    os.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False, timeout=60)
    assert done.returncode == -9 and (tmp_path / "lock.json").exists()
    with lock.held(str(tmp_path)):
        pass


@pytest.mark.parametrize("host", ["elsewhere", "here"])
def test_without_flock_the_file_alone_decides(tmp_path, monkeypatch, host):
    def none(*arguments):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(lock.fcntl, "flock", none)
    other = dataclasses.replace(OTHER, host=host)
    mine = dataclasses.replace(OTHER, host="here", token="mine", heartbeat=1119.0)
    with lock.held(str(tmp_path), clock=lambda: 1000.0, owner=other):
        for _ in range(2):
            with (
                pytest.raises(Locked, match=f"ann on {host}, process 12"),
                lock.held(str(tmp_path), clock=lambda: 1119.0, owner=mine),
            ):
                pass
        with lock.held(str(tmp_path), clock=lambda: 1120.0, owner=mine) as taken:
            taken.check()


def test_of_two_starts_at_once_exactly_one_works_50_times(tmp_path):
    for _ in range(50):
        barrier, through = threading.Barrier(2), threading.Barrier(2)
        worked = []

        def start(barrier=barrier, through=through, worked=worked):
            barrier.wait()
            with contextlib.suppress(Locked), contextlib.ExitStack() as stack:
                try:
                    stack.enter_context(lock.held(str(tmp_path)))
                    worked.append(True)
                finally:
                    through.wait()  # Until the other thread has tried too.

        threads = [threading.Thread(target=start) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert worked == [True]


def test_an_owner_that_lost_its_lock_notices_and_leaves_the_new_one_alone(tmp_path):
    with lock.held(str(tmp_path)) as mine:
        mine.check()
        left_behind(tmp_path, OTHER)
        mine.renew()
        with pytest.raises(Locked, match="ann on elsewhere"):
            mine.check()
    assert lock.read(str(tmp_path / "lock.json")) == OTHER


def test_the_heartbeat_is_renewed(tmp_path):
    now = [1.0]
    with lock.held(str(tmp_path), clock=lambda: now[0]) as mine:
        now[0] = 7.0
        mine.renew()
        assert lock.read(str(tmp_path / "lock.json")).heartbeat == 7.0


@pytest.mark.parametrize("number", [errno.ENOENT, errno.EPERM, errno.EACCES])
def test_a_folder_that_cannot_be_made_is_named(tmp_path, monkeypatch, number):
    def refuse(folder, **_):
        raise OSError(number, "Refused", folder)

    monkeypatch.setattr(lock.os, "makedirs", refuse)
    with pytest.raises(ConfigError) as error, lock.held("/proc/run"):
        pass
    assert str(error.value) == (
        "the folder /proc/run cannot be made: Refused. Choose another folder, or give this user "
        "the right to write there."
    )


def test_a_full_disk_stays_a_temporary_error(tmp_path, monkeypatch):
    def refuse(folder, **_):
        raise OSError(errno.ENOSPC, "No space left on device", folder)

    monkeypatch.setattr(lock.os, "makedirs", refuse)
    with pytest.raises(OSError, match="No space left"), lock.held(str(tmp_path / "run")):
        pass
