"""Whether TensorFlow can read a path, and which package is missing where it cannot.

Every path of the kit goes through `tf.io.gfile`, which knows local files, `gs://` and `ram://`.
Other schemes come with a plug-in, and without it TensorFlow says no more than "File system scheme
's3' not implemented". Looks at schemes alone: never opens a path, and
imports TensorFlow only for one that has a scheme.
"""

from __future__ import annotations

import importlib
import re
from typing import Optional

from input_pipelines.errors import MissingPackageError

_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.\-]*)://")

# Schemes of the package tensorflow-io.
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
    """`s3` of s3://bucket/file; None of a local path."""
    match = _SCHEME.match(path)
    return match[1].lower() if match else None


def check(path: str, *, flag: str) -> None:
    """Raises MissingPackageError where no file system that TensorFlow knows has the path.

    tensorflow-io is imported where it is installed and needed: that registers its file systems.

    Args:
      path: a file, a folder or a glob.
      flag: what an error calls it.
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
        except Exception as error:  # Whatever a plug-in for another TensorFlow fails with.
            reason = error
        if scheme in _registered():
            return
        found = (
            ""
            if isinstance(reason, ModuleNotFoundError)
            else (
                "; it is installed, and gives none"
                + (f" ({type(reason).__name__}: {str(reason).splitlines()[0]})" if reason else "")
            )
        )
        raise MissingPackageError(
            f"{flag}: {path!r}: TensorFlow {tf.__version__} has no file system for {scheme}:// "
            f"({_TENSORFLOW_IO[scheme]}), which the package tensorflow-io gives it: pip install "
            f"tensorflow-io, in the release that is for this TensorFlow{found}; where there is "
            "none, copy or mount the files and name local paths"
        ) from reason
    known = ", ".join(sorted(f"{name}://" for name in _registered() if name))
    raise MissingPackageError(
        f"{flag}: {path!r}: TensorFlow {tf.__version__} has no file system for {scheme}://; "
        f"it knows local paths and {known}, and with tensorflow-io (pip install tensorflow-io) "
        f"{', '.join(f'{name}://' for name in _TENSORFLOW_IO)}"
    )


def _registered() -> set[str]:
    import tensorflow as tf

    return {scheme.lower() for scheme in tf.io.gfile.get_registered_schemes()}
