"""Checks whether TensorFlow can read a path, and names the package that is missing if not.

The kit accesses all paths with `tf.io.gfile`, which knows local files, `gs://` and `ram://`. Other
schemes need a plug-in. Without it, TensorFlow only says "File system scheme 's3' not implemented".
This module looks only at the scheme. It never opens a path, and imports TensorFlow only for paths
that have a scheme.
"""

from __future__ import annotations

import importlib
import os
import re
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
