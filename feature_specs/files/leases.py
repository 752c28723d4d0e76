"""One start at a time in a folder of a store: an object `lock.json`, put on a condition.

    lock = leases.Lock(store, "runs/a")
    lock.take()                 # or Locked
    lock.renew()                # every few seconds
    lock.release()

It is put on the condition that nobody else has put another one since it was read. So of several
starts, one holds it, and one that was taken over finds out at its next renewal. How old it is, is
measured with the clock of the store, from an object that is put for it. It also looks for starts
in folders around this one and in it (`check_others`). A store without conditions (HDFS) keeps out
all but starts that begin within the same second; a line in the log says so. This module puts
nothing but locks, and never waits.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
import uuid
from typing import Optional

from feature_specs.errors import ConfigError, Locked
from feature_specs.files import owners, stores

_log = logging.getLogger("estimator_kit")

_LOCK = "lock.json"


def is_lock(key: str) -> bool:
    """Whether an object is a lock, or was put to read the clock."""
    return os.path.basename(key).startswith(_LOCK)


class Lock:
    """The object `lock.json` of a folder, with which one start at a time holds it."""

    def __init__(self, store: stores.Store, folder: str, stale_secs: float):
        self._store = store
        self._key = f"{folder}/{_LOCK}".lstrip("/")
        self._stale_secs = stale_secs
        self._owner = owners.this_process(time.time())
        self._stamp: Optional[stores.Stamp] = stores.ABSENT
        self._renewed = time.monotonic()
        self._turn = threading.Lock()
        self._conditions = True
        self.is_taken_over = False  # From a start that has not ended as it should.

    def take(self) -> None:
        found = self._store.read(self._key)
        if found is not None:
            content, self._stamp, since = found
            age = (self._now() - since) / 1e9
            if age < self._stale_secs:
                raise Locked(self.refusal(content))
            _log.warning(
                "taking over %s/%s: it was last renewed %.0f s ago",
                self._store.root,
                self._key,
                age,
            )
            self.is_taken_over = True
        self._put()

    def renew(self) -> None:
        """Puts the lock again.

        Raises:
          Locked: another start has taken it over.
        """
        self._put()

    def check(self) -> None:
        """Raises Locked if another start may have taken over the lock."""
        if self._stamp is None:
            raise Locked(self.refusal(None))
        if time.monotonic() - self._renewed > self._stale_secs / 2:
            self.renew()

    def release(self) -> None:
        if self._stamp is not None:
            with contextlib.suppress(OSError):  # Another start waits until it is stale.
                found = self._store.read(self._key)
                if found is not None and self._owner.token.encode() in found[0]:
                    self._store.remove(self._key)

    def check_others(self) -> None:
        """Raises Locked if another start holds a folder in this one, or one around it."""
        folder = self._key.rpartition("/")[0]
        parts = folder.split("/")
        around = ["/".join([*parts[:i], _LOCK]) for i in range(len(parts))] if folder else []
        inside = [each.key for each in self._store.objects(folder) if is_lock(each.key)]
        for key in {*around, *inside} - {self._key}:
            found = self._store.read(key)
            if found is None:
                continue
            if (self._now() - found[2]) / 1e9 < self._stale_secs:
                raise Locked(self.refusal(found[0], key))
            if key in inside:  # Of a start that was killed.
                self._store.remove(key)

    def _put(self) -> None:
        with self._turn:
            if self._stamp is None:
                raise Locked(self.refusal(None))
            content = self._owner.model_copy(update={"heartbeat": time.time()}).as_text().encode()
            try:
                if self._conditions:
                    self._stamp = self._store.put(self._key, content, only_if=self._stamp)
                else:
                    self._put_without_conditions(content)
            except stores.NoConditions:
                self._conditions = False
                _log.warning(
                    "%s cannot put on a condition: of two starts in one folder that begin within a "
                    "second, both may work. Start one at a time",
                    self._store.root,
                )
                self._put_without_conditions(content)
            except stores.Changed:
                # The answer to our own request may have been lost.
                found = self._store.read(self._key)
                if found is None or self._owner.token.encode() not in found[0]:
                    self._stamp = None
                    raise Locked(self.refusal(found and found[0])) from None
                self._stamp = found[1]
            self._renewed = time.monotonic()

    def _put_without_conditions(self, content: bytes) -> None:
        found = self._store.read(self._key)
        is_ours = found is not None and self._owner.token.encode() in found[0]
        if not is_ours and (found[1] if found else stores.ABSENT) != self._stamp:
            self._stamp = None
            raise Locked(self.refusal(found and found[0]))
        self._stamp = self._store.put(self._key, content)
        if not is_ours:
            time.sleep(2)
            found = self._store.read(self._key)
            if found is None or self._owner.token.encode() not in found[0]:
                self._stamp = None
                raise Locked(self.refusal(found and found[0]))

    def _now(self) -> int:
        """The time of the store, from an object that is put for it."""
        key = f"{self._key}.{uuid.uuid4().hex}"
        self._store.put(key, b"")
        try:
            found = self._store.read(key)
        finally:
            self._store.remove(key)
        return int(found[2]) if found is not None else 0

    def refusal(self, content: Optional[bytes], key: Optional[str] = None) -> str:
        key = key or self._key
        owner = None
        with contextlib.suppress(ConfigError):
            owner = owners.Owner.of_text(content, key) if content else None
        who = owner.text if owner is not None else "another, unknown process"
        return (
            f"{self._store.root}/{key.rpartition('/')[0]} is locked by {who}. Only one start "
            "works in a folder at a time. Try again when the other start has ended; after a "
            f"killed one, in {self._stale_secs:.0f} seconds."
        )
