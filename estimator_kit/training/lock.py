"""One start at a time: a lock in a model directory, with owner, host and heartbeat.

    with lock.held(folder):
        ...

Two means together. `flock` on `_LOCK` tells on one machine, and on shared disks that know it: the
kernel lets go of it whenever a process ends, also by `kill -9`. `lock.json` beside it says who it
is, and tells where `flock` does not reach: its owner renews it every few seconds, and one that was
not renewed for `stale_secs` is taken over. Clocks of machines that share a folder have to agree to
within that. Where `flock` is not to be had, the file alone tells, on the same machine as well: one
that was killed is then waited out there too. Never waits for a lock.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import getpass
import json
import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Optional

import pydantic

from estimator_kit.errors import Locked

_log = logging.getLogger("estimator_kit")

_GUARD, _FILE = "_LOCK", "lock.json"

HEARTBEAT_SECS = 10.0
STALE_SECS = 120.0


@dataclasses.dataclass(frozen=True)
class Owner:
    """Who holds a lock.

    Attributes:
      user, host, pid: the process.
      token: of this very start.
      since, heartbeat: seconds since 1970.
    """

    user: str
    host: str
    pid: int
    token: str
    since: float
    heartbeat: float

    @property
    def text(self) -> str:
        return f"{self.user} on {self.host}, process {self.pid}"


_OWNER = pydantic.TypeAdapter(Owner)


def this_process(now: float) -> Owner:
    """The owner that this process is."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # A user id without a name, as in some containers.
        user = str(os.getuid())
    return Owner(user, socket.gethostname(), os.getpid(), uuid.uuid4().hex, now, now)


@contextlib.contextmanager
def held(
    folder: str,
    *,
    stale_secs: float = STALE_SECS,
    heartbeat_secs: float = HEARTBEAT_SECS,
    clock: Callable[[], float] = time.time,
    owner: Optional[Owner] = None,
) -> Iterator[Lock]:
    """Holds the lock of a folder, which is made.

    Args:
      folder: a local or mounted one.
      stale_secs: an owner on another machine, or on any where there is no `flock`, that was not
        heard of for so long is taken for dead.
      heartbeat_secs: seconds between signs of life.
      clock: seconds since 1970; an argument so that tests need not wait.
      owner: this process, unless a test says otherwise.

    Raises:
      Locked: another process is at it; the message names it.
    """
    os.makedirs(folder, exist_ok=True)
    lock = Lock(folder, owner or this_process(clock()), clock)
    lock.take(stale_secs)
    stop = threading.Event()

    def beat() -> None:
        while not stop.wait(heartbeat_secs):
            try:
                lock.renew()
            except OSError as error:  # As a full disk; the next beat may succeed.
                _log.warning("the heartbeat in %s could not be written: %s", folder, error)

    thread = threading.Thread(target=beat, name="lock heartbeat", daemon=True)
    thread.start()
    try:
        yield lock
    finally:
        stop.set()
        thread.join()
        lock.release()


class Lock:
    """One start's hold, or attempt at it; see `held`."""

    def __init__(self, folder: str, owner: Owner, clock: Callable[[], float]):
        self._folder = folder
        self._path = os.path.join(folder, _FILE)
        self._clock = clock
        self._guard: Optional[int] = None
        self._writing = threading.Lock()
        self.owner = owner

    def take(self, stale_secs: float) -> None:
        """Takes the lock or raises Locked."""
        guard = os.open(os.path.join(self._folder, _GUARD), os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(guard, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(guard)
            raise Locked(self._refusal(read(self._path))) from error
        except OSError:
            locked = False  # No such locks here: the file alone decides.
        else:
            locked = True
        try:
            self._take_file(stale_secs, locked=locked)
        except BaseException:
            os.close(guard)
            raise
        self._guard = guard

    def _take_file(self, stale_secs: float, *, locked: bool) -> None:
        """Writes the file; with `locked` the kernel has said that none of this machine is at it."""
        before = read(self._path)
        if before is not None:
            age = self._clock() - before.heartbeat
            is_gone = locked and before.host == self.owner.host  # It would hold the flock.
            if not is_gone and age < stale_secs:
                raise Locked(self._refusal(before))
            _log.warning(
                "the lock of %s was left by %s, last heard of %.0f s ago; it is taken over",
                self._folder,
                before.text,
                age,
            )
        self._write()
        found = read(self._path)
        if found is None or found.token != self.owner.token:  # Two took over at once.
            raise Locked(self._refusal(found))

    def renew(self) -> None:
        """Writes a sign of life; a lock that was taken over stays with who has it."""
        found = read(self._path)
        if found is not None and found.token == self.owner.token:
            self.owner = dataclasses.replace(self.owner, heartbeat=self._clock())
            self._write()

    def check(self) -> None:
        """Raises Locked when another process took the lock over, as after a long pause."""
        found = read(self._path)
        if found is None or found.token != self.owner.token:
            raise Locked(self._refusal(found))

    def release(self) -> None:
        found = read(self._path)
        if found is not None and found.token == self.owner.token:
            os.remove(self._path)
        if self._guard is not None:
            os.close(self._guard)
            self._guard = None

    def _write(self) -> None:
        temporary = f"{self._path}.{self.owner.token}"
        with self._writing:
            with open(temporary, "w", encoding="utf-8") as file:
                json.dump(dataclasses.asdict(self.owner), file)
            os.replace(temporary, self._path)

    def _refusal(self, found: Optional[Owner]) -> str:
        who = found.text if found is not None else "another process, which has not said its name"
        return (
            f"{self._folder} is locked by {who}; one start works in a folder at a time: try again "
            "when it is through"
        )


def read(path: str) -> Optional[Owner]:
    """The owner in a lock file; None without one, or with one that was never whole."""
    try:
        with open(path, "rb") as file:
            return _OWNER.validate_json(file.read(), strict=True)
    except (FileNotFoundError, ValueError):
        return None
