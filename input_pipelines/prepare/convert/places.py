"""Reads and writes the files of a conversion: local files with Python, others with TensorFlow.

TensorFlow (`tf.io.gfile`) is imported only for paths with a scheme.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Sequence
from typing import Any, Optional

from input_pipelines.record_files import file_systems


def is_local(path: str) -> bool:
    return "://" not in path


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
    for path, name in file_systems.names_of(paths).items():
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

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        self._file.close()


def open_file(path: str, mode: str) -> Any:
    """Opens a binary file with mode `rb` or `wb`."""
    if is_local(path):
        return open(path, mode)
    file = gfile().GFile(path, mode)
    return _Elsewhere(file) if mode == "wb" else file


def sync(file: Any) -> None:
    """Waits until everything is written to the disk, so that a rename publishes a complete file."""
    file.flush()
    fileno = getattr(file, "fileno", None)
    if fileno is not None:
        os.fsync(fileno())


def rename(old: str, new: str) -> None:
    if is_local(old):
        os.replace(old, new)
    else:
        gfile().rename(old, new, overwrite=True)


def remove(path: str) -> None:
    if is_local(path):
        os.remove(path)
    else:
        gfile().remove(path)


def remove_folder(path: str) -> None:
    """Removes a folder with everything in it, if it exists."""
    if is_local(path):
        shutil.rmtree(path, ignore_errors=True)
    elif gfile().exists(path):
        gfile().rmtree(path)


def write(path: str, content: bytes, temporary: str) -> None:
    """Writes a small file under a temporary name and renames it."""
    with open_file(temporary, "wb") as file:
        file.write(content)
        sync(file)
    rename(temporary, path)


def read(path: str) -> Optional[bytes]:
    """The content of a small file, or None if it does not exist."""
    if not exists(path):
        return None
    with open_file(path, "rb") as file:
        return bytes(file.read())


def full_disk(error: OSError, path: str) -> OSError:
    """A write error with a message that says what is kept and what to do."""
    reason = os.strerror(error.errno) if error.errno else str(error)
    hint = (
        "free some space and start the same command again"
        if error.errno in (errno.ENOSPC, errno.EDQUOT)
        else "start the same command again when it can be written"
    )
    return OSError(
        error.errno or errno.EIO,
        f"{path} could not be written: {reason}; the shards that are finished are kept: {hint}",
    )
