"""The lock of a model directory: one owner at a time, even after a kill."""

from __future__ import annotations

import contextlib
import errno
import itertools
import json
import logging
import os
import shutil
import threading

import pytest

from feature_specs.errors import ConfigError, Locked
from feature_specs.files import locks, owners

pytestmark = pytest.mark.no_tensorflow

OTHER = owners.Owner(
    user="ann", host="elsewhere", pid=12, token="token", since=900.0, heartbeat=1000.0
)


def test_who_holds_it_is_on_disk_and_gone_at_the_end(tmp_path):
    with owners.held(str(tmp_path), clock=lambda: 5.0):
        owner = owners.read(str(tmp_path / "lock.json"))
        assert (owner.pid, owner.since, owner.heartbeat) == (os.getpid(), 5.0, 5.0)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["_LOCK"]


def test_a_second_start_names_the_owner(tmp_path):
    owner = OTHER.model_copy(update={"host": "here"})
    with owners.held(str(tmp_path), clock=lambda: 1000.0, owner=owner):
        with pytest.raises(Locked) as error, owners.held(str(tmp_path)):
            pass
        assert owners.read(str(tmp_path / "lock.json")) == owner
    assert str(error.value) == (
        f"{tmp_path} is locked by ann on here, process 12. Only one start works in a folder at a "
        "time. Try again when the other start has ended."
    )


def left_behind(folder, owner):
    owner.save(str(folder / "lock.json"))


@pytest.mark.parametrize("age", [0.0, 119.0])
def test_a_living_owner_elsewhere_is_left_alone(tmp_path, age):
    left_behind(tmp_path, OTHER)
    with (
        pytest.raises(Locked, match="ann on elsewhere, process 12"),
        owners.held(str(tmp_path), clock=lambda: 1000.0 + age),
    ):
        pass
    # The refused start has released its flock.
    with owners.held(str(tmp_path), clock=lambda: 1200.0):
        pass


def test_a_stale_lock_is_taken_over_with_a_line_in_the_log(tmp_path, caplog):
    left_behind(tmp_path, OTHER)
    with caplog.at_level(logging.WARNING), owners.held(str(tmp_path), clock=lambda: 1120.0):
        assert owners.read(str(tmp_path / "lock.json")).token != "token"
    assert caplog.messages == [
        f"taking over the lock of {tmp_path}: ann on elsewhere, process 12 left it behind, and "
        "last renewed it 120 s ago"
    ]


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", "null", "[" * 100_000, "BEAT"])
def test_a_lock_file_that_was_never_whole_stops_nobody(tmp_path, text):
    values = {**OTHER.as_json(), "heartbeat": "now"}
    (tmp_path / "lock.json").write_text(json.dumps(values) if text == "BEAT" else text)
    with owners.held(str(tmp_path)) as held:
        assert owners.read(str(tmp_path / "lock.json")) == held.owner


@pytest.mark.parametrize("host", ["elsewhere", "here"])
def test_without_flock_the_file_alone_decides(tmp_path, monkeypatch, host):
    def none(*arguments):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(locks.fcntl, "flock", none)
    other = OTHER.model_copy(update={"host": host})
    mine = OTHER.model_copy(update={"host": "here", "token": "mine", "heartbeat": 1119.0})
    with owners.held(str(tmp_path), clock=lambda: 1000.0, owner=other):
        for _ in range(2):
            with (
                pytest.raises(Locked, match=f"ann on {host}, process 12"),
                owners.held(str(tmp_path), clock=lambda: 1119.0, owner=mine),
            ):
                pass
        with owners.held(str(tmp_path), clock=lambda: 1120.0, owner=mine) as taken:
            taken.check()


def test_of_two_starts_at_once_exactly_one_works_50_times(tmp_path):
    for _ in range(50):
        barrier, through = threading.Barrier(2), threading.Barrier(2)
        worked = []

        def start(barrier=barrier, through=through, worked=worked):
            barrier.wait()
            with contextlib.suppress(Locked), contextlib.ExitStack() as stack:
                try:
                    stack.enter_context(owners.held(str(tmp_path)))
                    worked.append(True)
                finally:
                    through.wait()  # Until the other thread has tried too.

        threads = [threading.Thread(target=start) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert worked == [True]


class Start(threading.Thread):
    """A start without `flock`, which goes on to its next access to a file only when it is told."""

    def __init__(self, folder, token):
        super().__init__(daemon=True)
        owner = OTHER.model_copy(update={"token": token, "heartbeat": 1120.0})
        self.lock = owners.Lock(str(folder), owner, lambda: 1120.0)
        self._go, self._stopped = threading.Semaphore(0), threading.Semaphore(0)
        self.took = None
        self.start()

    def run(self):
        self._go.acquire()
        try:
            self.lock.take(120.0, has_locks=False)
            self.took = True
        except Locked:
            self.took = False
        self._stopped.release()

    def wait(self):
        """Called before an access to a file."""
        self._stopped.release()
        self._go.acquire()

    def steps(self, most):
        """Makes this many steps, or all up to the end."""
        for _ in range(most):
            if self.took is None:
                self._go.release()
                self._stopped.acquire()


# More accesses to files than a start makes.
STEPS = 15


@pytest.mark.parametrize("left", ["nothing", "half a file", "a stale lock", "a dead start's claim"])
def test_without_flock_two_starts_never_both_take_the_lock(tmp_path, monkeypatch, left):
    """Each stops before each access to a file once, and the other one goes on."""

    def watched(function):
        def waits(*arguments, **named):
            if isinstance(threading.current_thread(), Start):
                threading.current_thread().wait()
            return function(*arguments, **named)

        return waits

    for place, name in [
        (owners, "read"), (owners.os, "listdir"), (owners.os, "open"), (owners.os, "fdopen"),
        (owners.os, "remove"), (owners.os, "replace"),
    ]:  # fmt: skip
        monkeypatch.setattr(place, name, watched(getattr(place, name)))
    outcomes, folder = set(), tmp_path / "run"
    for stops in itertools.product(range(STEPS), repeat=2):
        folder.mkdir()
        if left == "half a file":
            (folder / "lock.json").write_text('{"user"')
        elif left != "nothing":
            left_behind(folder, OTHER)
        if left == "a dead start's claim":
            (folder / "lock.json.3").write_text((folder / "lock.json").read_text())
        a, b = Start(folder, "a"), Start(folder, "b")
        for start, most in zip((a, b, a, b), (*stops, STEPS, STEPS)):
            start.steps(most)
        assert a.took or stops != (STEPS - 1, 0)
        took = {start.lock.owner.token for start in (a, b) if start.took}
        assert len(took) < 2, stops
        outcomes.add(frozenset(took))
        if took:
            assert owners.read(str(folder / "lock.json")).token in took
            assert [path.name for path in folder.iterdir()] == ["lock.json"]
        shutil.rmtree(folder)
    assert outcomes == {frozenset(), frozenset("a"), frozenset("b")}


def test_an_owner_that_lost_its_lock_notices_and_leaves_the_new_one_alone(tmp_path):
    with owners.held(str(tmp_path)) as mine:
        mine.check()
        left_behind(tmp_path, OTHER)
        mine.renew()
        with pytest.raises(Locked, match="ann on elsewhere"):
            mine.check()
    assert owners.read(str(tmp_path / "lock.json")) == OTHER


def test_the_heartbeat_is_renewed(tmp_path):
    now = [1.0]
    with owners.held(str(tmp_path), clock=lambda: now[0]) as mine:
        now[0] = 7.0
        mine.renew()
        assert owners.read(str(tmp_path / "lock.json")).heartbeat == 7.0


@pytest.mark.parametrize("number", [errno.ENOENT, errno.EPERM, errno.EACCES])
def test_a_folder_that_cannot_be_made_is_named(tmp_path, monkeypatch, number):
    def refuse(folder, **_):
        raise OSError(number, "Refused", folder)

    monkeypatch.setattr(owners.os, "makedirs", refuse)
    with pytest.raises(ConfigError) as error, owners.held("/proc/run"):
        pass
    assert str(error.value) == (
        "the folder /proc/run cannot be made: Refused. Choose another folder, or give this user "
        "the right to write there."
    )


def test_a_full_disk_stays_a_temporary_error(tmp_path, monkeypatch):
    def refuse(folder, **_):
        raise OSError(errno.ENOSPC, "No space left on device", folder)

    monkeypatch.setattr(owners.os, "makedirs", refuse)
    with pytest.raises(OSError, match="No space left"), owners.held(str(tmp_path / "run")):
        pass
