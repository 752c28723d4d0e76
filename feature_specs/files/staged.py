"""A file or a folder that appears whole, whoever else writes it.

    with staged.file("runs/a/result.json") as temporary:
        pathlib.Path(temporary).write_text(text)

The block writes under a temporary name, `.tmp-NAME-1`, in the same folder. Its end gives it its own
name. So a reader finds the old file or all of the new one. After an error nothing is left. Each
writer has another temporary name, also if several processes write the same file; the last one
that ends stays. The temporary file of a killed process has no lock, and the next writer takes it.

Without locks (see `locks`) and in a store (`gs://`), the name ends in a random number, and what a
killed process leaves stays.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import secrets
import shutil
from collections.abc import Callable, Iterator

from feature_specs.files import locks

# How many bytes longer than a name its temporary name may be.
ROOM = len(".tmp--12345678")


@contextlib.contextmanager
def file(path: str) -> Iterator[str]:
    """Yields the path of a temporary file; afterwards renames it to `path`. Makes missing folders.

    Raises:
      IsADirectoryError: the path is a folder. Nothing was written.
      OSError: the file cannot be written or renamed. In a store, an error of TensorFlow.
    """
    if "://" in path:
        yield from _file_in_store(path)
        return
    if os.path.isdir(path):
        raise IsADirectoryError(path)
    with _claimed(path, _open_file) as temporary:
        try:
            yield temporary
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
            raise


@contextlib.contextmanager
def folder(path: str) -> Iterator[str]:
    """Yields the path of an empty local folder; afterwards renames it to `path`.

    Raises:
      OSError: the folder cannot be made, or `path` exists now and is not an empty folder.
    """
    with _claimed(path, _open_folder) as temporary:
        try:
            yield temporary
            os.rename(temporary, path)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise


@contextlib.contextmanager
def _claimed(path: str, make: Callable[[str], int]) -> Iterator[str]:
    """A temporary name for `path` that only this writer has. Without locks, a random one."""
    place, name = os.path.split(os.path.abspath(path))
    os.makedirs(place, exist_ok=True)
    numbers = itertools.count(1)
    temporary = os.path.join(place, f".tmp-{name}-{next(numbers)}")
    while True:
        handle = make(temporary)
        with contextlib.ExitStack() as stack:
            stack.callback(os.close, handle)
            try:
                locks.lock(handle)
            except locks.Taken:
                temporary = os.path.join(place, f".tmp-{name}-{next(numbers)}")
                continue
            except locks.LocksMissing:
                _remove(temporary)
                temporary = os.path.join(place, f".tmp-{name}-{secrets.token_hex(4)}")
                stack.callback(os.close, make(temporary))
            else:
                if not _is_at(handle, temporary):
                    continue  # Its writer has just renamed it.
                _empty(temporary)
            yield temporary
            return


def _open_file(path: str) -> int:
    return os.open(path, os.O_CREAT | os.O_RDWR, 0o666)


def _open_folder(path: str) -> int:
    os.makedirs(path, exist_ok=True)
    return os.open(path, os.O_RDONLY)


def _empty(path: str) -> None:
    """Removes what a killed process has written."""
    if os.path.isdir(path):
        for name in os.listdir(path):
            _remove(os.path.join(path, name))
    else:
        os.truncate(path, 0)


def _remove(path: str) -> None:
    shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)


def _is_at(handle: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except FileNotFoundError:
        return False


def _file_in_store(path: str) -> Iterator[str]:
    import tensorflow as tf  # The only file system for stores.

    place, name = os.path.split(path)
    tf.io.gfile.makedirs(place)
    temporary = os.path.join(place, f".tmp-{name}-{secrets.token_hex(4)}")
    try:
        yield temporary
        tf.io.gfile.rename(temporary, path, overwrite=True)
    except BaseException:
        with contextlib.suppress(tf.errors.OpError):
            tf.io.gfile.remove(temporary)
        raise
