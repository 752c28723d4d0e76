"""Paths: whether TensorFlow can read one, and which spellings name one file.

The kit accesses all paths with `tf.io.gfile`, which knows local files, `gs://` and `ram://`. Other
schemes need a plug-in. Without it, TensorFlow only says "File system scheme 's3' not implemented";
`check` names the package that is missing.

    canonical("./data/../data/a.tfrecord")       # /work/data/a.tfrecord
    ordered(["../b.tfrecord", "a.tfrecord"])     # in the same order, however they are spelled

The same files must give the same rows in the same order, however their paths are spelled. So what
depends on the identity or the order of files uses `canonical` and `ordered`, and never the path
itself. This module never opens a file, and imports TensorFlow only for paths that have a scheme.
"""

from __future__ import annotations

import importlib
import itertools
import os
import re
from collections.abc import Iterable
from typing import Optional

from input_pipelines.errors import MissingPackageError

_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.\-]*)://")

# The schemes that the package tensorflow-io adds.
_TENSORFLOW_IO = {
    "s3": "Amazon S3",
    "s3e": "Amazon S3",
    "hdfs": "Hadoop",
    "viewfs": "Hadoop",
    "har": "Hadoop",
    "az": "Azure Blob Storage",
    "oss": "Alibaba Cloud OSS",
    "http": "HTTP",
    "https": "HTTP",
}


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
    """Raises MissingPackageError if TensorFlow has no file system for the path.

    Imports tensorflow-io if it is installed and needed. The import registers its file systems.

    Args:
      path: a file, a folder or a glob.
      flag: the name of the path in error messages.
    """
    scheme = scheme_of(path)
    if scheme is None:
        return
    import tensorflow as tf

    if scheme in _registered():
        return
    if scheme in _TENSORFLOW_IO:
        reason: Optional[Exception] = None
        try:
            importlib.import_module("tensorflow_io")
        except Exception as error:  # A plug-in for another TensorFlow may raise anything.
            reason = error
        if scheme in _registered():
            return
        found = (
            ""
            if isinstance(reason, ModuleNotFoundError)
            else (
                " tensorflow-io is installed, but did not add it"
                + (f" ({type(reason).__name__}: {str(reason).splitlines()[0]})" if reason else "")
                + "."
            )
        )
        raise MissingPackageError(
            f"{flag}: {path!r}: TensorFlow {tf.__version__} has no file system for {scheme}:// "
            f"({_TENSORFLOW_IO[scheme]}). The package tensorflow-io adds it: pip install "
            f"tensorflow-io, in the release for this TensorFlow.{found} If no such release exists, "
            "copy or mount the files and use local paths"
        ) from reason
    known = ", ".join(sorted(f"{name}://" for name in _registered() if name))
    raise MissingPackageError(
        f"{flag}: {path!r}: TensorFlow {tf.__version__} has no file system for {scheme}://. "
        f"Use a local path or one of: {known}. With tensorflow-io (pip install tensorflow-io), "
        f"also one of: {', '.join(f'{name}://' for name in _TENSORFLOW_IO)}"
    )


def _registered() -> set[str]:
    import tensorflow as tf

    return {scheme.lower() for scheme in tf.io.gfile.get_registered_schemes()}
