"""Stores what the analysis of a period's records found, so that later cycles do not read them.

    summary = of(place, paths, is_as_it_was=...)    from its file, or from the records
    keep(folder, places)                            removes the files of all other periods

A window shares most of its periods with the window before, and their summaries can be merged
(`RecordSummary.merge`). `facts` names the file of a summary after everything that decides it. The
first line of the file is a hash of the rest, which is JSON, never pickle. If the rest has another
hash, the records are read again.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Optional

from feature_specs.files import file_systems, staged
from feature_specs.sections.records import Condition
from input_pipelines.prepare.analyze import scan, summary
from input_pipelines.prepare.analyze.summary import RecordSummary

_log = logging.getLogger("estimator_kit")

# The names of their files begin with it.
SUMMARY = "summary"


def of(
    place: str,
    paths: Sequence[str],
    *,
    is_as_it_was: Callable[[], bool],
    conditions: Sequence[Condition] = (),
) -> RecordSummary:
    """The summary of the records of some files. The caller may change it.

    Args:
      place: the file of the stored summary.
      paths: the files, in order.
      is_as_it_was: whether the files still have these contents. If not, nothing is stored.
      conditions: of the spec's filter; see `scan`.

    Raises:
      ConfigError: the place of the summary is a folder.
      DataError: the files have no records, or a record cannot be read.
      MissingPackageError: the package for sketches is not installed.
    """
    content = _read(place)
    if content is None:
        content = summary.to_bytes(scan.scan(paths, conditions=conditions))
        if is_as_it_was():
            staged.write(place, _digest(content) + b"\n" + content)
    # Also a new summary comes from its stored form, so that both are merged to the same statistics.
    return summary.from_bytes(content)


def keep(folder: str, places: Iterable[str]) -> None:
    """Removes all stored summaries of a folder except some, by their files."""
    kept = {*map(os.path.basename, places)}
    for name in os.listdir(folder):
        if name.startswith(f"{SUMMARY}-") and name not in kept:
            os.remove(os.path.join(folder, name))


def _read(place: str) -> Optional[bytes]:
    """The content of a summary's file, or None if it does not exist or is damaged."""
    stored = file_systems.read(place)
    if stored is None:
        return None
    digest, _, content = stored.partition(b"\n")
    if digest != _digest(content):
        _log.warning("%s is damaged, so the records of its period are read again", place)
        return None
    return content


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode()
