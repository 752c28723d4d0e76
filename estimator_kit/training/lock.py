"""One start at a time: a lock in a model directory, with owner, host and heartbeat.

    with lock.held(folder):
        ...

The lock has two parts:

- `flock` on the file `_LOCK` works on one machine, and on shared disks that support it. The kernel
  releases it whenever the process ends, even after `kill -9`.
- `lock.json` names the owner, and works where `flock` does not reach. The owner renews it every few
  seconds. A start takes over a lock that was not renewed for `stale_secs`, so the clocks of
  machines that share a folder must agree to within `stale_secs`.

On a file system without `flock`, `lock.json` alone decides, even on one machine. Then a start must
wait `stale_secs` after a killed one. This module never waits for a lock.
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

from estimator_kit.errors import ConfigError, Locked

_log = logging.getLogger("estimator_kit")

_GUARD, _FILE = "_LOCK", "lock.json"

HEARTBEAT_SECS = 10.0
STALE_SECS = 120.0


@dataclasses.dataclass(frozen=True)
class Owner:
    """Who holds a lock.

    Attributes:
      user, host, pid: the process.
      token: identifies this start.
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
    """This process, as an owner."""
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
    """Holds the lock of a folder. Makes the folder if it does not exist.

    Args:
      folder: a local or mounted folder.
      stale_secs: an owner that did not renew its lock for this long counts as dead. This applies to
        owners on other machines and, without `flock`, to owners on this machine.
      heartbeat_secs: seconds between two renewals.
      clock: returns seconds since 1970. It is an argument so that tests need not wait.
      owner: the owner; by default this process.

    Raises:
      Locked: another process holds the lock; the message names it.
      ConfigError: the folder cannot be made.
    """
    _make(folder)
    lock = Lock(folder, owner or this_process(clock()), clock)
    lock.take(stale_secs)
    stop = threading.Event()

    def beat() -> None:
        while not stop.wait(heartbeat_secs):
            try:
                lock.renew()
            except OSError as error:  # For example a full disk. The next beat may succeed.
                _log.warning("the heartbeat in %s could not be written: %s", folder, error)

    thread = threading.Thread(target=beat, name="lock heartbeat", daemon=True)
    thread.start()
    try:
        yield lock
    finally:
        stop.set()
        thread.join()
        lock.release()


def _make(folder: str) -> None:
    try:
        os.makedirs(folder, exist_ok=True)
    # File systems such as /proc say that folders do not exist, rather than that it is forbidden.
    except (FileNotFoundError, PermissionError) as error:
        raise ConfigError(
            f"the folder {folder} cannot be made: {error.strerror}. Choose another folder, or "
            "give this user the right to write there."
        ) from error


class Lock:
    """The lock of one start; see `held`."""

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
            locked = False  # This file system has no flock, so the file alone decides.
        else:
            locked = True
        try:
            self._take_file(stale_secs, locked=locked)
        except BaseException:
            os.close(guard)
            raise
        self._guard = guard

    def _take_file(self, stale_secs: float, *, locked: bool) -> None:
        """Writes the file. With `locked`, no other process of this machine holds the flock."""
        before = read(self._path)
        if before is not None:
            age = self._clock() - before.heartbeat
            # A living owner on this machine would hold the flock.
            is_gone = locked and before.host == self.owner.host
            if not is_gone and age < stale_secs:
                raise Locked(self._refusal(before))
            _log.warning(
                "taking over the lock of %s: %s left it behind, and last renewed it %.0f s ago",
                self._folder,
                before.text,
                age,
            )
        self._write()
        found = read(self._path)
        if found is None or found.token != self.owner.token:  # Another start took over too.
            raise Locked(self._refusal(found))

    def renew(self) -> None:
        """Renews the heartbeat. Does nothing if another process has taken over the lock."""
        found = read(self._path)
        if found is not None and found.token == self.owner.token:
            self.owner = dataclasses.replace(self.owner, heartbeat=self._clock())
            self._write()

    def check(self) -> None:
        """Raises Locked if another process has taken over the lock, for example after a pause."""
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
        who = found.text if found is not None else "another, unknown process"
        return (
            f"{self._folder} is locked by {who}. Only one start works in a folder at a time. "
            "Try again when the other start has ended."
        )


def read(path: str) -> Optional[Owner]:
    """The owner in a lock file. None if the file does not exist or is not complete."""
    try:
        with open(path, "rb") as file:
            return _OWNER.validate_json(file.read(), strict=True)
    except (FileNotFoundError, ValueError):
        return None
