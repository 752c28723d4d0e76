"""The facts of data files: rows, damage, statistics. No file is scanned twice.

A window shares most of its periods with the window of the cycle before. So the facts of a file are
stored in `facts/` of the model directory, under everything that decides them: the SHA-256 of
its bytes, whether its name says GZIP, the kit's code, and the fingerprint of the spec. The
statistics of a set of files are stored in the same way; of the spec, only the filter decides them.
They are merged from the summaries of the folders, which are the periods. `period_summaries` stores
the summaries, so the records of a period are analyzed once. You may remove anything there: the kit
computes it again, as long as the files exist and have not changed. Nothing is stored under the hash
of bytes that a file no longer has.
"""

from __future__ import annotations

import fnmatch
import functools
import hashlib
import logging
import os
import pathlib
from collections.abc import Sequence
from typing import Optional

import tensorflow as tf

from estimator_kit.errors import ConfigError
from estimator_kit.retraining import period_summaries
from feature_specs.files import documents, file_systems, jobs
from feature_specs.sections.retraining import LabelRate
from feature_specs.spec import FeatureSpec
from feature_specs.statistics import Statistics
from input_pipelines import own_code
from input_pipelines.errors import DataError
from input_pipelines.integrity import data_scan
from input_pipelines.prepare.analyze.summary import RecordSummary
from input_pipelines.reading.selection import Selection
from input_pipelines.record_files import file_bytes
from input_pipelines.row_cache.folder import Digests

_log = logging.getLogger("estimator_kit")


class FileFacts(documents.Part):
    """One data file.

    Attributes:
      path: its path.
      bytes: its size.
      sha256: the SHA-256 of its bytes.
      rows: the number of good records.
      bad: what is wrong with its first bad record; None if the file has no bad record.
      dropped: how many of its records the spec's filter drops; 0 if it has a bad record.
    """

    path: str
    bytes: int
    sha256: str
    rows: int
    bad: Optional[str] = None
    dropped: int = 0


class _StoredFacts(documents.Document):
    """The stored facts of a file's content."""

    bytes: int
    rows: int
    bad: Optional[str]
    dropped: int


class Facts:
    """The stored facts of files.

    Args:
      folder: the local folder of the facts. It is made if it does not exist.
      spec: the feature spec that records are compared with.
    """

    def __init__(self, folder: str, spec: FeatureSpec):
        os.makedirs(folder, exist_ok=True)
        self._folder = folder
        self._spec = spec
        self._against = spec.fingerprint_of_rows()
        self._filter = repr(spec.conditions)
        self._digests = Digests(pathlib.Path(folder) / "digests.txt")
        self._stamps: dict[str, list[int]] = {}  # Of the files whose facts were found.

    def of_files(self, paths: Sequence[str]) -> list[FileFacts]:
        """The facts of some files, in the same order.

        Raises:
          DataError: a file was written while it was read.
        """
        stamps = {path: file_systems.stamp(path) for path in paths}
        digests = {path: self._digests.of(path) for path in paths}
        kept = {
            path: self._place("file", _content(path, digests[path]), self._against)
            for path in paths
        }
        read = {path: _StoredFacts.load(place) for path, place in kept.items()}
        stored = {path: facts for path, facts in read.items() if facts is not None}
        unknown = [path for path in paths if path not in stored]
        for report in data_scan.scan(unknown, spec=self._spec) if unknown else ():
            dropped = 0
            if not report.bad_records and self._spec.filter:
                counts = Selection(self._spec).count([report.path])
                dropped = counts.read - counts.kept[0]
            if file_systems.stamp(report.path) != stamps[report.path]:
                raise DataError(
                    f"{report.path} was written while it was read. Start again when it is complete."
                )
            bad = report.listed[0].sentence if report.bad_records else None
            stored[report.path] = _StoredFacts(
                bytes=report.size, rows=report.good_records, bad=bad, dropped=dropped
            )
            stored[report.path].save(kept[report.path])
        self._stamps.update(stamps)
        return [FileFacts(path=path, sha256=digests[path], **dict(stored[path])) for path in paths]

    def statistics(self, files: Sequence[FileFacts]) -> Statistics:
        """The statistics of some files together.

        Raises:
          DataError: the files have no record.
          MissingPackageError: the package for sketches is not installed.
        """
        kept = self.known_statistics(files)
        if kept is not None:
            return kept
        return self._store(files, self._merged(files))

    def summary(self, files: Sequence[FileFacts]) -> RecordSummary:
        """The summary of the records of some files, for vocabularies. It stores their statistics.

        Raises: see `statistics`.
        """
        merged = self._merged(files)
        if self.known_statistics(files) is None:
            self._store(files, merged)
        return merged

    def keep_summaries(self, files: Sequence[FileFacts]) -> None:
        """Removes the summaries of all other files. They are large, and their time has passed."""
        period_summaries.keep(self._folder, map(self._place_of_summary, _by_folder(files)))

    def _merged(self, files: Sequence[FileFacts]) -> RecordSummary:
        """The summary of some files, merged from the summaries of their folders."""
        if not files:
            raise DataError("statistics need at least one file, got none")
        merged = None
        for own in _by_folder(files):
            summary = period_summaries.of(
                self._place_of_summary(own),
                [file.path for file in own],
                conditions=self._spec.conditions,
                is_as_it_was=functools.partial(self._are_as_they_were, own),
            )
            if merged is None:
                merged = summary
            else:
                merged.merge(summary)
        assert merged is not None
        merged.check_files()
        return merged

    def _store(self, files: Sequence[FileFacts], merged: RecordSummary) -> Statistics:
        statistics = merged.statistics(len(files))
        if self._are_as_they_were(files):
            statistics.save(self._place_of_statistics(files))
        return statistics

    def old_statistics(self, files: Sequence[FileFacts]) -> Optional[Statistics]:
        """The statistics of an old window, whose rows count by the filter of today.

        None if they are not stored, and its files changed, or the filter cannot be applied to them
        or drops all their rows.

        Raises:
          MissingPackageError: the package for sketches is not installed.
        """
        kept = self.known_statistics(files)
        if kept is None and all(self._is_as_it_was(file) for file in files):
            try:
                return self.statistics(files)
            except DataError as error:
                if not self._spec.filter:
                    raise
                _log.warning("the last cycle's window: %s", error)
        return kept

    def known_statistics(self, files: Sequence[FileFacts]) -> Optional[Statistics]:
        """The statistics of some files if they are stored. It reads no records."""
        try:
            return Statistics.load(self._place_of_statistics(files))
        except ConfigError as error:  # Written by another version of the kit.
            _log.warning("statistics are made again: %s", error)
            return None

    def check_unchanged(self, files: Sequence[FileFacts]) -> None:
        """Checks that files have the same bytes as when `of_files` found these facts.

        Files that do not exist any more are not checked. Of a file in a store, it compares the size
        and the time first, because its bytes would be read again.

        Raises:
          DataError: a file has other bytes.
          OSError, tf.errors.OpError: a file cannot be read.
        """
        for file in files:
            if not file_systems.exists(file.path):
                continue
            is_local = file_systems.is_local(file.path)
            if not is_local and file_systems.stamp(file.path) == self._stamps.get(file.path):
                continue
            now = self._digests.of(file.path)
            if now != file.sha256:
                raise DataError(
                    f"{file.path} has changed since this cycle chose its periods, so its model may "
                    f"have other data than its checks: expected the SHA-256 {file.sha256}, got "
                    f"{now}. Start again: the next cycle reads it as it is now."
                )

    def _are_as_they_were(self, files: Sequence[FileFacts]) -> bool:
        return all(map(self._is_as_it_was, files))

    def _is_as_it_was(self, file: FileFacts) -> bool:
        try:
            return self._digests.of(file.path) == file.sha256
        except (OSError, tf.errors.OpError):
            return False

    def _place_of_statistics(self, files: Sequence[FileFacts]) -> str:
        contents = sorted(_content(f.path, f.sha256) for f in files)
        return self._place("statistics", self._filter, *contents)

    def _place_of_summary(self, files: Sequence[FileFacts]) -> str:
        """It depends on the paths, because a summary names places of records."""
        parts = [f"{file.path} {_content(file.path, file.sha256)}" for file in files]
        return self._place(period_summaries.SUMMARY, self._filter, *parts, ending="txt")

    def _place(self, what: str, *parts: str, ending: str = "json") -> str:
        """The file of facts that depend on some parts, and on the code that reads data files."""
        name = hashlib.sha256("\n".join([own_code.of_reading(), *parts]).encode()).hexdigest()
        return os.path.join(self._folder, f"{what}-{name[:40]}.{ending}")


def _content(path: str, sha256: str) -> str:
    """What identifies the records of a file: its bytes, and how its name says to read them."""
    return f"{sha256} GZIP" if file_bytes.is_gzip(path) else sha256


def _by_folder(files: Sequence[FileFacts]) -> list[list[FileFacts]]:
    """The files of each folder that have records; all files together if none has."""
    folders: dict[str, list[FileFacts]] = {}
    for file in files:
        if file.rows:
            folders.setdefault(os.path.dirname(file.path), []).append(file)
    return list(folders.values()) or [list(files)]


def manifest_problem(folder: str, files: Sequence[FileFacts], names: str = "*") -> Optional[str]:
    """How a period differs from its `_MANIFEST.json`; None if it does not, or has no manifest.

    Args:
      folder: the folder of the period.
      files: the files of the period that are read: all of them, or for example only the training
        shards.
      names: a pattern of file names. Every shard in the manifest that matches must exist.
    """
    try:
        manifest = jobs.Manifest.load(os.path.join(folder, jobs.MANIFEST))
    except ConfigError as error:
        return str(error)
    if manifest is None:
        return None
    shards = {shard.name: shard for shard in manifest.shards}
    # `files` may include files of other folders.
    own = {os.path.basename(f.path): f for f in files if _is_in(f.path, folder)}
    for name in shards:
        if fnmatch.fnmatchcase(name, names) and name not in own:
            return (
                f"{os.path.join(folder, name)} is in the manifest of its period, but does not exist"
            )
    for name, entry in own.items():
        if name not in shards:
            return f"{entry.path} is not in the manifest of its period"
        said = shards[name]
        if entry.bad is None and (said.bytes, said.rows) != (entry.bytes, entry.rows):
            return (
                f"{entry.path} has {entry.rows:,} records in {entry.bytes:,} bytes, but the "
                f"manifest of its period says {said.rows:,} records in {said.bytes:,} bytes"
            )
    return None


def _is_in(path: str, folder: str) -> bool:
    """Whether a path from `files.expand` is directly in a folder."""
    inside = file_systems.canonical(os.path.join(folder, "x"))
    return os.path.dirname(file_systems.canonical(path)) == os.path.dirname(inside)


def label_rate_problem(label: str, rate: LabelRate, statistics: Statistics) -> Optional[str]:
    """What is wrong with the mean of a label, or None.

    Args:
      label: the name of the label.
      rate: the bounds.
      statistics: the statistics of the records.
    """
    feature = statistics.features.get(label)
    if feature is None or feature.numbers is None:
        return f"label {label!r} has no value in {statistics.rows:,} records"
    mean = feature.numbers.mean
    if rate.min is not None and mean < rate.min:
        return f"the mean of label {label!r} is {mean:.6g}, below min: {rate.min:g}"
    if rate.max is not None and mean > rate.max:
        return f"the mean of label {label!r} is {mean:.6g}, above max: {rate.max:g}"
    return None
