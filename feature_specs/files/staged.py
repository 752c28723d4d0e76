"""A file or a folder that appears whole, whoever else writes it. The only code that renames.

    with staged.file("runs/a/result.json") as temporary:
        pathlib.Path(temporary).write_text(text)

The block writes under a temporary name, `.tmp-NAME-1`, in the same folder. Its end gives it its own
name. So a reader finds the old file or all of the new one. After an error nothing is left. Each
writer has another temporary name, also if several processes write the same file; the last one
that ends stays. The temporary file of a killed process has no lock, and the next writer takes it.

Without locks (see `locks`) and in a store (`gs://`), the name ends in a random number, and what a
killed process leaves stays. With `durable`, a file that has its name also survives a power failure.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from typing import Optional

from feature_specs.files import file_systems, locks
from feature_specs.files.errors import ConfigError

# How all temporary names begin. Readers of a folder leave out such names.
TEMPORARY = ".tmp-"

# How many bytes longer than a name its temporary name may be.
ROOM = len(".tmp--12345678")


@contextlib.contextmanager
def file(path: str, *, within: Optional[str] = None, durable: bool = False) -> Iterator[str]:
    """Yields the path of a temporary file; afterwards renames it to `path`. Makes missing folders.

    Args:
      path: the file.
      within: the folder of the temporary file, on the same file system; by default its own.
      durable: waits until the disk has the content and the name.

    Raises:
      IsADirectoryError: the path is a folder. Nothing was written.
      OSError: the file cannot be written or renamed. In a store, an error of TensorFlow.
    """
    if not file_systems.is_local(path):
        yield from _file_in_store(path, within)
        return
    if os.path.isdir(path):
        raise IsADirectoryError(path)
    with _claimed(path, within, _open_file) as temporary:
        try:
            yield temporary
            if durable:
                sync(temporary)
            rename(temporary, path)
            if durable:
                sync(os.path.dirname(os.path.abspath(path)))
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
            raise


def write(
    path: str, content: bytes, *, within: Optional[str] = None, durable: bool = False
) -> None:
    """Writes a small file that appears whole; see `file`."""
    made = file(path, within=within, durable=durable)
    with made as temporary, file_systems.open_file(temporary, "wb") as opened:
        opened.write(content)


@contextlib.contextmanager
def folder(path: str, *, durable: bool = False) -> Iterator[str]:
    """Yields the path of an empty local folder; afterwards renames it to `path`.

    Raises:
      OSError: the folder cannot be made, or `path` exists now and is not an empty folder.
    """
    with _claimed(path, None, _open_folder) as temporary:
        try:
            yield temporary
            if durable:
                sync_all(temporary)
            rename(temporary, path)
            if durable:
                sync(os.path.dirname(os.path.abspath(path)))
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise


def rename(old: str, new: str) -> None:
    """Gives a file its name, also in place of another file; or a folder, if the name is free."""
    if file_systems.is_local(old):
        os.replace(old, new)
    else:
        file_systems.gfile().rename(old, new, overwrite=True)


def sync(path: str) -> None:
    """Waits until the disk has the content of a local file, or the names in a local folder."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_all(folder: str) -> None:
    """Waits until the disk has all files in a local folder and below it."""
    for path, _, names in os.walk(folder):
        for name in names:
            sync(os.path.join(path, name))
        sync(path)


def check_writable(path: str, *, flag: str, is_file: bool = False) -> None:
    """Checks that a folder or a file can be written or made; changes nothing.

    Args:
      path: the folder or file.
      flag: the flag that names it, for errors.
      is_file: whether it is a file. Its name must leave room for the name of its temporary file.

    Raises:
      ConfigError: it cannot. Paths on other file systems are not checked.
      MissingPackageError: TensorFlow has no file system for the path.
    """
    file_systems.check(path, flag=flag)
    if file_systems.scheme_of(path) is not None:
        return
    whole = os.path.abspath(path)
    place = os.path.dirname(whole) if is_file else whole
    while not os.path.lexists(place):
        place = os.path.dirname(place)
    if not os.path.isdir(place):
        raise ConfigError(
            f"{flag}={path}: {place} is a file, expected a folder. Choose another path."
        )
    if is_file and os.path.isdir(whole):
        raise ConfigError(f"{flag}={path} is a folder, expected a file. Choose another path.")
    most = os.pathconf(place, "PC_NAME_MAX")
    *folders, name = os.path.relpath(whole, place).split(os.sep)
    for part, room in [*((folder, 0) for folder in folders), (name, ROOM * is_file)]:
        size = len(os.fsencode(part))
        if size > most - room:
            raise ConfigError(
                f"{flag}={path}: {part[:20]}... has {size} bytes, expected a name of at most "
                f"{most - room}. Choose a shorter name."
            )
    if not os.access(place, os.W_OK | os.X_OK):
        raise ConfigError(
            f"{flag}={path}: {place} cannot be written. Give this user the right to write there, "
            "or choose another folder."
        )


@contextlib.contextmanager
def _claimed(path: str, within: Optional[str], make: Callable[[str], int]) -> Iterator[str]:
    """A temporary name for `path` that only this writer has. Without locks, a random one."""
    place, name = os.path.split(os.path.abspath(path))
    os.makedirs(place, exist_ok=True)
    place = within or place
    numbers = itertools.count(1)
    temporary = os.path.join(place, f"{TEMPORARY}{name}-{next(numbers)}")
    while True:
        handle = make(temporary)
        with contextlib.ExitStack() as stack:
            stack.callback(os.close, handle)
            try:
                locks.lock(handle)
            except locks.Taken:
                temporary = os.path.join(place, f"{TEMPORARY}{name}-{next(numbers)}")
                continue
            except locks.LocksMissing:
                _remove(temporary)
                temporary = os.path.join(place, f"{TEMPORARY}{name}-{secrets.token_hex(4)}")
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


def _file_in_store(path: str, within: Optional[str]) -> Iterator[str]:
    gfile = file_systems.gfile()
    place, name = os.path.split(path)
    gfile.makedirs(place)
    temporary = os.path.join(within or place, f"{TEMPORARY}{name}-{secrets.token_hex(4)}")
    try:
        yield temporary
        rename(temporary, path)
    except BaseException:
        with contextlib.suppress(Exception):  # The first error is the one to show.
            gfile.remove(temporary)
        raise
