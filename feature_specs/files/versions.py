"""Versions of a model: folders whose name is a number, and which are always complete.

    with versions.unnamed(folder) as temporary:
        ...                                         # writes and checks the model
        path = versions.publish(temporary, folder)  # folder/13

    <folder>/13/               a version, as servers expect it; the highest is the newest
    <folder>/.tmp-version-1/   a version that is being written, or was when a process died
    <folder>/.tmp-12-3f9a02c1/ a version that is being removed, or was when a process died

A version gets its number when it is complete, and loses it before it is removed
(`staged.remove_folder`). So no reader sees half of a version. (A store that cannot rename folders,
such as a bucket, copies file by file.) What a killed process has left is removed before the next
version is written, see `staged.remove_left`. This module does not know which versions are kept.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterator

from feature_specs.errors import ConfigError
from feature_specs.files import file_systems, staged

# The largest number of a version: gRPC sends it as int64.
LARGEST = 2**63 - 1

# A plain number: not `007` or `²`.
_NUMBER = re.compile(r"0|[1-9][0-9]{0,18}")

# Temporary folders of this version of the kit and of the one before it.
_TEMPORARY = re.compile(r"\.tmp-(version|\d+)-(\d+|[0-9a-f]{8})|\.(staging|removed)-\d+(-\w+)?")


def numbers(folder: str) -> list[int]:
    """The numbers of the versions in a folder, the oldest first."""
    names = file_systems.names_in(folder)
    names = [name for name in names if _NUMBER.fullmatch(name) and int(name) <= LARGEST]
    return sorted(int(n) for n in names if file_systems.is_folder(os.path.join(folder, n)))


def paths(folder: str) -> list[str]:
    """The paths of the versions in a folder, the oldest first."""
    return [os.path.join(folder, str(number)) for number in numbers(folder)]


@contextlib.contextmanager
def unnamed(folder: str) -> Iterator[str]:
    """Yields an empty temporary folder for a new version. At its end, only `publish` keeps it."""
    remove_left(folder)
    with staged.temporary_folder(os.path.join(folder, "version")) as temporary:
        yield temporary


def publish(temporary: str, folder: str, *, least: int = 1) -> str:
    """Gives a version its number; returns its path.

    The number is at least `least`, and above the names of all folders and files: TensorFlow
    Serving takes the largest number for the newest version, even if it names a file, and reads
    `007` as 7.
    """
    while True:
        taken = [int(n) for n in file_systems.names_in(folder) if n.isascii() and n.isdigit()]
        number = max([least, *(n + 1 for n in taken if n <= LARGEST)])
        if number > LARGEST:
            raise ConfigError(
                f"{folder} has {number - 1}, the largest number that a version can have, so no "
                "later version can be published. Move it away."
            )
        path = os.path.join(folder, str(number))
        try:
            staged.publish(temporary, path)
        except Exception:  # In a store, an error of TensorFlow.
            if not file_systems.exists(path):
                raise
            continue  # Another process was faster.
        return path


def remove_left(folder: str) -> None:
    """Removes what killed processes have left of versions in a folder."""
    for name in file_systems.names_in(folder):
        if _TEMPORARY.fullmatch(name):
            staged.remove_left(os.path.join(folder, name), now=time.time())
