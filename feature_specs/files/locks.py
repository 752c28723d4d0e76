"""Locks on files and folders (`flock`): the system releases them when a process ends in any way.

    with locks.held("/data/words", wait=True):
        ...

Only programs that ask for the lock are kept out. A file system without locks keeps out nobody; see
`LocksMissing`. For a folder in which one process works at a time, see `owners`.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator


class Taken(Exception):
    """Another process, or another thread, holds the lock."""


class LocksMissing(OSError):
    """The file system has no locks."""


def lock(handle: int, *, wait: bool = False, shared: bool = False) -> None:
    """Locks an open file or folder until it is closed; `shared` lets others share the lock.

    Raises:
      Taken: without `wait`, somebody else holds the lock.
      LocksMissing: the file system has no locks.
    """
    try:
        kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        fcntl.flock(handle, kind if wait else kind | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise Taken from error
    except OSError as error:
        raise LocksMissing(*error.args) from error


@contextlib.contextmanager
def held(
    path: str, *, wait: bool = False, make: bool = True, shared: bool = False
) -> Iterator[bool]:
    """Holds the lock of a folder or a file. Yields whether the file system has locks.

    Args:
      path: the folder or file.
      wait: whether to wait until nobody else holds the lock.
      make: whether to make an empty file if nothing has this name.
      shared: whether others that also ask for a shared lock may hold it at the same time.

    Raises:
      Taken: without `wait`, somebody else holds the lock.
      OSError: it can neither be written nor read.
    """
    handle, has_locks = _opened(path, make), True
    try:
        try:
            lock(handle, wait=wait, shared=shared)
        except LocksMissing:
            has_locks = False
        yield has_locks
    finally:
        os.close(handle)


def _opened(path: str, make: bool) -> int:
    if not make or os.path.isdir(path):
        return os.open(path, os.O_RDONLY)
    try:  # NFS locks only files that are open for writing.
        return os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except PermissionError:
        if not os.path.exists(path):
            raise
        return os.open(path, os.O_RDONLY)  # Another user made it.
