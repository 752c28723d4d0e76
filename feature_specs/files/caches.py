"""Folders that jobs make once, for all runs that need them; those used longest ago are removed.

    with caches.used("~/.cache/estimator_kit/records", "3fa9", make) as folder:
        ...     # The folder is complete, and nobody removes it.

`make(folder)` does a job (`jobs`) whose files depend only on the name of the folder. One run makes
a folder while others that need it wait; after a killed run, the next one goes on. A run that uses a
folder shares its lock, `<name>.lock`, whose time says when it was used last. The system releases
the lock when the run ends in any way. `make_room` removes only folders that no run locks, and
nothing on a file system without locks. All of it must be on a local disk.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple, Optional

from feature_specs.files import file_systems, jobs, locks

_log = logging.getLogger("estimator_kit")

_LOCK = ".lock"

# Seconds after which a folder that nobody used is removed: 30 days.
_KEPT = 30 * 24 * 3600


class _Entry(NamedTuple):
    """A folder of the cache: its name, its bytes, and when it was used last."""

    name: str
    size: int
    used: float


@contextlib.contextmanager
def used(root: str, name: str, make: Callable[[str], None]) -> Iterator[str]:
    """A complete folder, which is made if it is not there. It stays as long as the block runs.

    Args:
      root: the folder of the cache, which exists.
      name: the name of the folder in it.
      make: does the job, or goes on with it.
    """
    folder = os.path.join(root, name)
    while True:
        with _locked(root, name, shared=True):
            if jobs.is_complete(folder):
                os.utime(_lock_of(root, name))
                yield folder
                return
        with _locked(root, name, shared=False):
            if not jobs.is_complete(folder):
                make(folder)


def make_room(root: str, name: str, size: int, *, limit: Optional[int] = None) -> int:
    """Removes folders that no run uses, until a folder of `size` bytes fits.

    Args:
      root, name: the folder that will be written.
      size: its bytes at the end.
      limit: the most bytes of all folders; by default a share of the disk.

    Returns:
      The bytes that its files can have on the disk.
    """
    with _alone(root):
        entries = {entry.name: entry for entry in _entries(root)}
        own = entries.pop(name).size if name in entries else 0
        kept = sum(entry.size for entry in entries.values())
        if limit is None:
            limit = file_systems.default_limit(root, kept + own)
        for entry in sorted(entries.values(), key=lambda entry: entry.used):
            is_old = entry.used < time.time() - _KEPT
            fits = kept + size <= limit and shutil.disk_usage(root).free + own >= size
            if (is_old or not fits) and _removed(root, entry.name):
                kept -= entry.size
        return shutil.disk_usage(root).free + own


def remove(root: str, name: str) -> None:
    """Removes a folder, unless a run uses it."""
    with _alone(root):
        _removed(root, name)


def _removed(root: str, name: str) -> bool:
    """Removes a folder if no run locks it. The caller is alone."""
    with contextlib.suppress(locks.Taken), locks.held(_lock_of(root, name)) as has_locks:
        if has_locks:
            file_systems.remove_folder(os.path.join(root, name))
            os.remove(_lock_of(root, name))
            return True
    return False


@contextlib.contextmanager
def _locked(root: str, name: str, *, shared: bool) -> Iterator[None]:
    """Holds the lock of a folder; waits for it.

    Only who is alone takes or removes a lock, so nobody holds the lock of a file that was removed.
    """
    lock = _lock_of(root, name)
    while True:
        with contextlib.ExitStack() as stack:
            try:
                with _alone(root):
                    stack.enter_context(locks.held(lock, shared=shared))
            except locks.Taken:
                _log.info("waiting for another run, which makes %s", os.path.join(root, name))
                with locks.held(lock, wait=True, shared=shared):
                    continue
            yield
            return


def _alone(root: str) -> contextlib.AbstractContextManager[bool]:
    return locks.held(os.path.join(root, _LOCK), wait=True)


def _lock_of(root: str, name: str) -> str:
    return os.path.join(root, name + _LOCK)


def _entries(root: str) -> Iterator[_Entry]:
    for lock in file_systems.names_in(root):
        name = lock.removesuffix(_LOCK)
        if name and name != lock:
            used_last = os.stat(os.path.join(root, lock)).st_mtime
            yield _Entry(name, _size_of(os.path.join(root, name)), used_last)


def _size_of(folder: str) -> int:
    size = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(FileNotFoundError):  # A job renames its files.
                size += os.stat(os.path.join(place, name)).st_size
    return size
