"""One process at a time in a folder: a lock with owner, host and heartbeat.

    with owners.held(folder):
        ...

The lock has two parts:

- `flock` on the file `_LOCK` works on one machine, and on shared disks that support it; see
  `locks`.
- `lock.json` names the owner, and works where `flock` does not reach. The owner renews it every few
  seconds. A start takes over a lock that was not renewed for `stale_secs`, so the clocks of
  machines that share a folder must agree to within `stale_secs`.

On a file system without `flock`, `lock.json` alone decides, even on one machine. Then a start must
wait `stale_secs` after a killed one.

Two starts may read at once that the lock is free. So each first makes a claim, `lock.json.N`, under
a number that only one of them can have. It takes the lock if then no other claim is above its own,
and nothing that it has read has changed. Otherwise it gives up. So at most one of them works. This
module never waits for a lock.
"""

from __future__ import annotations

import contextlib
import getpass
import logging
import os
import re
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from typing import ClassVar, Optional

from feature_specs.errors import ConfigError, Locked
from feature_specs.files import documents, locks

_log = logging.getLogger("estimator_kit")

_GUARD, _FILE = "_LOCK", "lock.json"
_CLAIM = re.compile(re.escape(_FILE) + r"\.(\d+)")

HEARTBEAT_SECS = 10.0
STALE_SECS = 120.0


class Owner(documents.Document):
    """Who holds a lock.

    Attributes:
      user, host, pid: the process.
      token: identifies this start.
      since, heartbeat: seconds since 1970.
    """

    sort_keys: ClassVar[bool] = False

    user: str
    host: str
    pid: int
    token: str
    since: float
    heartbeat: float

    @property
    def text(self) -> str:
        return f"{self.user} on {self.host}, process {self.pid}"


def this_process(now: float) -> Owner:
    """This process, as an owner."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # A user id without a name, as in some containers.
        user = str(os.getuid())
    return Owner(
        user=user,
        host=socket.gethostname(),
        pid=os.getpid(),
        token=uuid.uuid4().hex,
        since=now,
        heartbeat=now,
    )


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
    with contextlib.ExitStack() as stack:
        try:
            has_locks = stack.enter_context(locks.held(os.path.join(folder, _GUARD)))
        except locks.Taken as error:
            raise Locked(lock.refusal(read(os.path.join(folder, _FILE)))) from error
        lock.take(stale_secs, has_locks=has_locks)
        stack.callback(lock.release)
        stop = threading.Event()

        def beat() -> None:
            while not stop.wait(heartbeat_secs):
                try:
                    lock.renew()
                except OSError as error:  # For example a full disk. The next beat may succeed.
                    _log.warning("the heartbeat in %s could not be written: %s", folder, error)

        thread = threading.Thread(target=beat, name="lock heartbeat", daemon=True)
        thread.start()
        stack.callback(thread.join)
        stack.callback(stop.set)
        yield lock


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
        self.owner = owner

    def take(self, stale_secs: float, *, has_locks: bool) -> None:
        """Takes the lock or raises Locked.

        Args:
          stale_secs: see `held`.
          has_locks: whether this process has the lock of `_LOCK`, so that no other one of this
            machine works.
        """
        before = self._owners_by_number()
        for owner in filter(None, before.values()):
            age = self._clock() - owner.heartbeat
            is_gone = has_locks and owner.host == self.owner.host
            if not is_gone and age < stale_secs:
                raise Locked(self.refusal(owner))
            _log.warning(
                "taking over the lock of %s: %s left it behind, and last renewed it %.0f s ago",
                self._folder,
                owner.text,
                age,
            )
        number = max(before) + 1
        claim = f"{self._path}.{number}"
        try:
            handle = os.open(claim, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
        except FileExistsError as error:
            raise Locked(self.refusal(read(claim))) from error
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(self.owner.model_dump_json())
            if self._owners_by_number() != {**before, number: self.owner}:
                before = {}  # Claims of others, which may work.
                raise Locked(self.refusal(read(self._path)))
            self.owner.save(self._path)
        finally:
            for each in {*before, number} - {0}:
                with contextlib.suppress(FileNotFoundError):
                    os.remove(f"{self._path}.{each}")

    def renew(self) -> None:
        """Renews the heartbeat. Does nothing if another process has taken over the lock."""
        if self._is_ours(read(self._path)):
            self.owner = self.owner.model_copy(update={"heartbeat": self._clock()})
            self.owner.save(self._path)

    def check(self) -> None:
        """Raises Locked if another process has taken over the lock, for example after a pause."""
        owner = read(self._path)
        if not self._is_ours(owner):
            raise Locked(self.refusal(owner))

    def release(self) -> None:
        if self._is_ours(read(self._path)):
            os.remove(self._path)

    def refusal(self, owner: Optional[Owner]) -> str:
        who = owner.text if owner is not None else "another, unknown process"
        return (
            f"{self._folder} is locked by {who}. Only one start works in a folder at a time. "
            "Try again when the other start has ended."
        )

    def _is_ours(self, owner: Optional[Owner]) -> bool:
        return owner is not None and owner.token == self.owner.token

    def _owners_by_number(self) -> dict[int, Optional[Owner]]:
        """The owners of claims by number, and the owner in `lock.json` as number 0."""
        claims = filter(None, map(_CLAIM.fullmatch, os.listdir(self._folder)))
        owners = {int(claim[1]): read(f"{self._path}.{claim[1]}") for claim in claims}
        return {**owners, 0: read(self._path)}


def read(path: str) -> Optional[Owner]:
    """The owner in a lock file. None if the file does not exist or is not complete."""
    try:
        return Owner.load(path)
    except ConfigError:
        return None
