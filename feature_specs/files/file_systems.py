"""Files and folders, local or in a store: how their paths are spelled, and how they are read.

    canonical("./data/../data/a.tfrecord")       # /work/data/a.tfrecord
    ordered(["../b.tfrecord", "a.tfrecord"])     # in the same order, however they are spelled

The same files must give the same rows in the same order, however their paths are spelled. So what
depends on the identity or the order of files uses `canonical` and `ordered`, and never the path
itself.

Local files are accessed with Python. Paths with a scheme are accessed with `tf.io.gfile`, which
knows `gs://` and `ram://`; only for them TensorFlow is imported. Most runs have none: they work on
local copies, see `copies`.

This module never gives a file its name: see `staged`, and for JSON `documents`.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import itertools
import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Optional

from feature_specs.errors import ConfigError

# The limits of a folder in the user's cache: bytes, and a share of the free space.
_MOST_KEPT = 20 * 2**30
_SHARE_OF_DISK = 0.1

_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.\-]*)://")


def scheme_of(path: str) -> Optional[str]:
    """`s3` for s3://bucket/file; None for a local path."""
    match = _SCHEME.match(path)
    return match[1].lower() if match else None


def absolute(path: str) -> str:
    """The absolute path of a local path; a path with a scheme as it is."""
    return os.path.abspath(path) if scheme_of(path) is None else path.rstrip("/")


def canonical(path: str) -> str:
    """One text for all spellings of a file: absolute, without `.`, `..` and links to folders.

    A link to the file itself keeps its own name, because the name decides how a file is read. Paths
    on other file systems are not changed, except that `file://` is a local path.
    """
    return _canonical(path, {})


def canonical_of(paths: Iterable[str]) -> dict[str, str]:
    """`canonical` of each path. Looks at each folder only once."""
    folders: dict[str, str] = {}
    return {path: _canonical(path, folders) for path in paths}


def ordered(paths: Iterable[str]) -> list[str]:
    """The paths in the order of `canonical`, which all spellings have in common."""
    names = canonical_of(paths)
    return sorted(names, key=lambda path: (names[path], path))


def names_of(paths: Iterable[str]) -> dict[str, str]:
    """The name of each file in the deepest folder that has all of them.

    The names stay the same if the folder is moved, or is at another place on another machine.
    """
    parts = {path: name.split("/") for path, name in canonical_of(paths).items()}
    together = zip(*(folders[:-1] for folders in parts.values()))
    depth = sum(1 for _ in itertools.takewhile(lambda level: len(set(level)) == 1, together))
    return {path: "/".join(own[depth:]) for path, own in parts.items()}


def _canonical(path: str, folders: dict[str, str]) -> str:
    if path.lower().startswith("file://"):
        path = path[len("file://") :]
    if scheme_of(path) is not None:
        return path
    folder, name = os.path.split(path)
    if folder not in folders:
        folders[folder] = os.path.realpath(folder)
    return os.path.join(folders[folder], name)


def check(path: str, *, flag: str) -> None:
    """Raises ConfigError if TensorFlow has no file system for the path.

    Args:
      path: a file, a folder or a glob.
      flag: the name of the path in error messages.
    """
    scheme = scheme_of(path)
    if scheme is None or scheme in _registered():
        return
    raise ConfigError(
        f"{flag}: {path!r}: here, TensorFlow itself has to reach the path, and it has no file "
        f"system for {scheme}://. Copy or mount the files and use local paths"
    )


def _registered() -> set[str]:
    import tensorflow as tf

    return {scheme.lower() for scheme in tf.io.gfile.get_registered_schemes()}


def user_cache(name: str) -> str:
    """A folder of the user's cache for the kit: `~/.cache/estimator_kit/<name>`.

    XDG_CACHE_HOME takes the place of `~/.cache`.
    """
    root = os.environ.get("XDG_CACHE_HOME") or os.path.join("~", ".cache")
    return os.path.join(os.path.expanduser(root), "estimator_kit", name)


def default_limit(folder: str, kept: int) -> int:
    """The most bytes in a folder of the user's cache that has `kept` bytes: a share of the disk."""
    return min(_MOST_KEPT, int(_SHARE_OF_DISK * (shutil.disk_usage(folder).free + kept)))


def is_local(path: str) -> bool:
    return scheme_of(path) is None


def gfile() -> Any:
    import tensorflow as tf

    return tf.io.gfile


def stamp(path: str) -> list[int]:
    """The size and the modification time, to detect that a file was replaced."""
    if is_local(path):
        status = os.stat(path)
        return [status.st_size, status.st_mtime_ns]
    status = gfile().stat(path)
    return [int(status.length), int(status.mtime_nsec)]


def stamps(paths: Sequence[str]) -> str:
    """How many files there are, and a digest of their names and stamps."""
    digest = hashlib.sha256()
    for path, name in names_of(paths).items():
        digest.update(json.dumps([name, stamp(path)]).encode())
    return f"{len(paths)} files ({digest.hexdigest()[:16]})"


def exists(path: str) -> bool:
    return os.path.exists(path) if is_local(path) else bool(gfile().exists(path))


def is_folder(path: str) -> bool:
    return os.path.isdir(path) if is_local(path) else bool(gfile().isdir(path))


def names_in(folder: str) -> list[str]:
    """The names in a folder, sorted; an empty list if it does not exist."""
    if is_local(folder):
        return sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    if not gfile().isdir(folder):
        return []
    return sorted(name.rstrip("/") for name in gfile().listdir(folder))


def make_folder(path: str) -> None:
    if is_local(path):
        os.makedirs(path, exist_ok=True)
    else:
        gfile().makedirs(path)


class _Elsewhere:
    """A file that TensorFlow writes. `write` accepts any buffer."""

    def __init__(self, file: Any):
        self._file = file

    def __enter__(self) -> _Elsewhere:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def write(self, content: Any) -> None:
        self._file.write(bytes(content))

    def close(self) -> None:
        self._file.close()


def open_file(path: str, mode: str) -> Any:
    """Opens a binary file with mode `rb` or `wb`."""
    if is_local(path):
        return open(path, mode)
    file = gfile().GFile(path, mode)
    return _Elsewhere(file) if mode == "wb" else file


def remove(path: str) -> None:
    if is_local(path):
        os.remove(path)
    else:
        gfile().remove(path)


def remove_folder(path: str) -> None:
    """Removes a folder with everything in it, if it exists. Of a link, only the link is removed."""
    if not is_local(path):
        if gfile().exists(path):
            gfile().rmtree(path)
    elif os.path.islink(path):
        os.remove(path)
    elif os.path.exists(path):
        shutil.rmtree(path)


def copy_folder(source: str, target: str) -> None:
    """Copies a folder and its content; the copy is not atomic."""
    for path, _, names in gfile().walk(source):
        inner = os.path.relpath(path, source)
        # A store would take the dot for a name.
        folder = target if inner == os.curdir else os.path.join(target, inner)
        gfile().makedirs(folder)
        for name in names:
            gfile().copy(os.path.join(path, name), os.path.join(folder, name))


def read(path: str) -> Optional[bytes]:
    """The content of a small file, or None if it does not exist.

    Raises:
      ConfigError: the path is a folder.
    """
    if not is_local(path):
        check_is_file(path)
        if not exists(path):
            return None
    try:
        with open_file(path, "rb") as file:
            return bytes(file.read())
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        check_is_file(path)
        return None


def check_is_file(path: str) -> None:
    """Raises ConfigError if a path is a folder, or is below a file."""
    if is_folder(path):
        raise ConfigError(f"{path} is a folder, expected a file. Move it away.")
    place = os.path.dirname(path)
    if place and is_local(path) and os.path.lexists(place) and not os.path.isdir(place):
        raise ConfigError(f"{place} is a file, expected a folder. Move it away.")


@contextlib.contextmanager
def writing(path: str) -> Iterator[None]:
    """Adds to an error of writing what is kept and what to do. Use it for one access to a file."""
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        hint = (
            "free some space and start the same command again"
            if error.errno in (errno.ENOSPC, errno.EDQUOT)
            else "start the same command again when it can be written"
        )
        raise OSError(
            error.errno or errno.EIO,
            f"{path} could not be written: {reason}; the shards that are finished are kept: {hint}",
        ) from error
