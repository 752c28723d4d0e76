"""The SHA-256 of the kit's own sources, for files that another version of the kit must not reuse.

What is stored to save time, or is half done, names the code that made it. Imports no TensorFlow.
"""

from __future__ import annotations

import functools
import hashlib
import pathlib
from types import ModuleType

import feature_specs
import input_pipelines


def of_reading() -> str:
    """The digest of the packages that read records and tables, in hex."""
    return of_packages(feature_specs, input_pipelines)


@functools.cache
def of_packages(*packages: ModuleType) -> str:
    """The digest of the modules of some packages, in hex. It takes about 1 ms, once."""
    digest = hashlib.sha256()
    for package in packages:
        folder = pathlib.Path(package.__file__ or "").parent
        for path in sorted(folder.rglob("*.py")):
            digest.update(str(path.relative_to(folder)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()
