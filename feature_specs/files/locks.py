"""Locks on files and folders (`flock`): the system releases them when a process ends in any way.

    with locks.held("/data/words", wait=True):
        ...

Only programs that ask for the lock are kept out. A file system without locks keeps out nobody; see
`LocksMissing`. This module never writes.
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


def lock(handle: int, *, wait: bool = False) -> None:
    """Locks an open file or folder until it is closed.

    Raises:
      Taken: without `wait`, somebody else holds the lock.
      LocksMissing: the file system has no locks.
    """
    try:
        fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise Taken from error
    except OSError as error:
        raise LocksMissing(*error.args) from error


@contextlib.contextmanager
def held(path: str, *, wait: bool = False) -> Iterator[None]:
    """Holds the lock of a file or folder that exists. Without locks, it holds nothing.

    Raises:
      Taken: without `wait`, somebody else holds the lock.
    """
    handle = os.open(path, os.O_RDONLY)
    try:
        with contextlib.suppress(LocksMissing):
            lock(handle, wait=wait)
        yield
    finally:
        os.close(handle)
