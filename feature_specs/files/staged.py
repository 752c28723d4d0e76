"""A file or a folder that appears and vanishes whole, whoever else writes it. Only this renames.

    with staged.file("runs/a/result.json") as temporary:
        pathlib.Path(temporary).write_text(text)

The block writes under a temporary name, `.tmp-NAME-1`, in the same folder. Its end gives it its own
name. So a reader finds the old file or all of the new one. After an error nothing is left. Each
writer has another temporary name, also if several processes write the same file; the last one
that ends stays. The temporary file of a killed process has no lock, and the next writer takes it.

Without locks (see `locks`) and in a store (`gs://`), the name ends in a random number, and what a
killed process leaves stays, unless somebody calls
`remove_left`. With `durable`, a file that has its
name also survives a power failure.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from typing import Optional

from feature_specs.errors import ConfigError
from feature_specs.files import file_systems, locks

# How all temporary names begin. Readers of a folder leave out such names.
TEMPORARY = ".tmp-"

# How many bytes longer than a name its temporary name may be.
ROOM = len(".tmp--12345678")

# How long nothing changes in a temporary folder without a lock until its writer counts as dead.
_LEFT_SECS = 24 * 3600


@contextlib.contextmanager
def file(path: str, *, within: Optional[str] = None, durable: bool = False) -> Iterator[str]:
    """Yields the path of a temporary file; afterwards renames it to `path`. Makes missing folders.

    Args:
      path: the file.
      within: the folder of the temporary file, on the same file system; by default its own.
      durable: waits until the disk has the content and the name.

    Raises:
      ConfigError: the path is a folder, or is below a file. Nothing was written.
      OSError: the file cannot be written or renamed. In a store, an error of TensorFlow.
    """
    file_systems.check_is_file(path)
    try:
        with _claimed(path, within, _open_file) as temporary:
            yield temporary
            if durable:
                sync(temporary)
            _name(temporary, path, durable=durable, overwrite=True)
    except OSError as error:
        is_plain = error.errno is not None and error.strerror == os.strerror(error.errno)
        if is_plain and error.filename is None:  # Such as of a full disk.
            error.filename = path
        raise


def write(
    path: str, content: bytes, *, within: Optional[str] = None, durable: bool = False
) -> None:
    """Writes a small file that appears whole; see `file`."""
    staging = file(path, within=within, durable=durable)
    with staging as temporary, file_systems.open_file(temporary, "wb") as opened:
        opened.write(content)


@contextlib.contextmanager
def folder(path: str, *, durable: bool = False) -> Iterator[str]:
    """Yields the path of an empty folder; afterwards renames it to `path`.

    A store (`gs://`) copies file by file, so there the folder does not appear whole.

    Raises:
      OSError: the folder cannot be made, or `path` exists now and is not an empty folder. In a
        store, an error of TensorFlow.
    """
    with temporary_folder(path) as temporary:
        yield temporary
        publish(temporary, path, durable=durable)


@contextlib.contextmanager
def temporary_folder(path: str) -> Iterator[str]:
    """Yields the path of an empty folder, and removes it afterwards unless `publish` named it."""
    with _claimed(path, None, _open_folder) as temporary:
        if not file_systems.is_local(path):
            file_systems.make_folder(temporary)
        yield temporary


def publish(temporary: str, path: str, *, durable: bool = True) -> None:
    """Gives a `temporary_folder` its name. For errors, see `folder`."""
    if durable:
        sync_all(temporary)
    _name(temporary, path, durable=durable, overwrite=False)


def remove_folder(path: str) -> None:
    """Removes a folder: first its name, so that no reader sees half of it. Of a link, only that.

    A killed process may leave a temporary folder, see `remove_left`. A store has no names of
    folders, and removes file by file.

    Raises:
      FileNotFoundError: the folder does not exist. In a store, nothing happens.
    """
    if not file_systems.is_local(path):
        file_systems.remove_folder(path)
        return
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(locks.Taken, FileNotFoundError):  # Of a link that leads nowhere.
            stack.enter_context(locks.held(path, make=False))
        gone = _random_name(*os.path.split(os.path.abspath(path)))
        rename(path, gone)
        file_systems.remove_folder(gone)


def remove_left(path: str, *, now: float) -> None:
    """Removes a temporary folder if its writer has died.

    Its lock tells. Without locks, it is a guess: nothing in it has changed for a day.

    Args:
      path: the folder. One with another name than a temporary one is removed after a day.
      now: seconds since 1970.
    """
    with contextlib.suppress(FileNotFoundError, locks.Taken), contextlib.ExitStack() as stack:
        has_locks = file_systems.is_local(path) and stack.enter_context(
            locks.held(path, make=False)
        )
        is_ours = os.path.basename(path).startswith(TEMPORARY)
        if (has_locks and is_ours) or 0 < _last_change(path) < now - _LEFT_SECS:
            file_systems.remove_folder(path)


def rename(old: str, new: str, *, overwrite: bool = True) -> None:
    """Gives a file its name, also in place of another file; or a folder, if the name is free.

    In a store, `overwrite` must be False for a folder.
    """
    if file_systems.is_local(old):
        os.replace(old, new)
    else:
        file_systems.gfile().rename(old, new, overwrite=overwrite)


def sync(path: str) -> None:
    """Waits until the disk has the content of a file, or the names in a folder, if it is local."""
    if not file_systems.is_local(path):
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_all(folder: str) -> None:
    """Waits until the disk has all files in a folder and below it, if it is local."""
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
    absolute = os.path.abspath(path)
    place = os.path.dirname(absolute) if is_file else absolute
    while not os.path.lexists(place):
        place = os.path.dirname(place)
    if not os.path.isdir(place):
        raise ConfigError(
            f"{flag}={path}: {place} is a file, expected a folder. Choose another path."
        )
    if is_file and os.path.isdir(absolute):
        raise ConfigError(f"{flag}={path} is a folder, expected a file. Choose another path.")
    most = os.pathconf(place, "PC_NAME_MAX")
    *folders, name = os.path.relpath(absolute, place).split(os.sep)
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
    """A temporary name for `path` that only this writer has. Without locks, a random one.

    At the end, the file or folder is removed unless it has another name now.
    """
    place, name = os.path.split(file_systems.absolute(path))
    file_systems.make_folder(place)
    place = within or place
    if not file_systems.is_local(path):
        temporary = _random_name(place, name)
        try:
            yield temporary
        finally:
            with contextlib.suppress(Exception):  # The first error is the one to show.
                file_systems.remove_folder(temporary)
        return
    numbers = itertools.count(1)
    temporary = os.path.join(place, f"{TEMPORARY}{name}-{next(numbers)}")
    while True:
        with contextlib.ExitStack() as stack:
            try:
                handle = make(temporary)
            except OSError:
                if not os.path.lexists(temporary):
                    raise
                # Something else has this name: of another user or kind, or a link.
                temporary = os.path.join(place, f"{TEMPORARY}{name}-{next(numbers)}")
                continue
            stack.callback(os.close, handle)
            try:
                locks.lock(handle)
            except locks.Taken:
                temporary = os.path.join(place, f"{TEMPORARY}{name}-{next(numbers)}")
                continue
            except locks.LocksMissing:
                _remove(temporary)
                temporary = _random_name(place, name)
                handle = make(temporary)
                stack.callback(os.close, handle)
            else:
                if not _is_at(handle, temporary):
                    continue  # Its writer has just renamed it.
                _empty(temporary)
            try:
                yield temporary
            finally:
                if _is_at(handle, temporary):
                    with contextlib.suppress(OSError):  # The first error is the one to show.
                        _remove(temporary)
            return


def _random_name(place: str, name: str) -> str:
    return os.path.join(place, f"{TEMPORARY}{name}-{secrets.token_hex(4)}")


def _name(temporary: str, path: str, *, durable: bool, overwrite: bool) -> None:
    rename(temporary, path, overwrite=overwrite)
    if durable:
        sync(os.path.dirname(file_systems.absolute(path)))


def _open_file(path: str) -> int:
    return os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o666)


def _open_folder(path: str) -> int:
    while True:
        os.makedirs(path, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):  # `remove_left` was faster.
            return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)


def _last_change(path: str) -> float:
    """When something in a folder was last changed, in seconds since 1970; 0 if that is unknown."""
    walk = os.walk if file_systems.is_local(path) else file_systems.gfile().walk
    inside = [os.path.join(folder, name) for folder, _, names in walk(path) for name in names]
    return max(file_systems.stamp(each)[1] for each in (path, *inside)) / 1e9


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
