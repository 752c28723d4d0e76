"""What a run does about corrupt data: `--corrupt_data_policy`, its limits, and its report.

    fail          stops at the first bad record, and names its file, byte and reason
    skip_record   reads all good records, including the good records of damaged files
    quarantine    leaves out each file that has a bad record; it lists the file and does not move it

With `fail` the run checks nothing in advance. With `skip_record` and `quarantine` it reads all
files once, before it trains or writes anything. So it applies the limits before the first step, and
its counts are exact. What it leaves out depends only on the files and the spec. Every start and
every worker therefore leaves out the same records, and a restart relies on that. A record is bad if
its framing is bad (see `record_scanner`), or if the run would have stopped at it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import logging
import os
from collections.abc import Mapping, Sequence
from typing import Any, Optional

from estimator_kit.config.areas.program import Program
from estimator_kit.config.areas.reading import Reading
from estimator_kit.observing.progress import ScanProgress
from feature_specs.files import documents
from feature_specs.spec import FeatureSpec
from input_pipelines.errors import DataError
from input_pipelines.integrity import data_scan
from input_pipelines.integrity.file_check import FileReport
from input_pipelines.record_files import file_bytes, tfrecords

_log = logging.getLogger("estimator_kit")

# How many files an error or a warning names.
_NAMED = 5


@dataclasses.dataclass(frozen=True)
class Screened:
    """The files that a run reads.

    Attributes:
      files: the paths by flag (`--train_files`), without files in quarantine.
      damaged: the files of which only the good records are read.
      digests: for each damaged file, a digest of what was found in it.
      records: the number of good records in the files that are read, by flag. Empty under `fail`.
      counts: the counts for `result.json`. Empty under `fail`.
      listing: the bad files for `bad_data.json`.
    """

    files: Mapping[str, list[str]]
    damaged: tfrecords.Damaged = dataclasses.field(default_factory=dict)
    digests: Mapping[str, str] = dataclasses.field(default_factory=dict)
    records: Mapping[str, int] = dataclasses.field(default_factory=dict)
    counts: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    listing: tuple[Mapping[str, Any], ...] = ()

    def left_out(self, flag: str) -> dict[str, str]:
        """For each damaged file, a digest of the records that are not read; for `position`."""
        return {path: self.digests[path] for path in self.files[flag] if path in self.digests}

    def write(self, model_dir: str) -> None:
        """Writes `bad_data.json` if the run has scanned its files."""
        path = os.path.join(model_dir, "bad_data.json")
        if self.counts:
            documents.write_json(path, {**self.counts, "bad_files": self.listing})


def screen(
    program: Program,
    reading: Reading,
    spec: FeatureSpec,
    files: Mapping[str, Sequence[str]],
    *,
    with_labels: bool = True,
    filtered: Optional[bool] = None,
    remedy: Optional[str] = None,
) -> Screened:
    """Scans the files of a run if its policy requires that.

    Args:
      program, reading: the policy and its limits. The limits apply to the files of each flag
        separately.
      spec: the feature spec.
      files: paths by flag.
      with_labels: whether the run reads labels.
      filtered: see `diagnosis.find_bad_record`.
      remedy: see `diagnosis.explain`.

    Raises:
      DataError: the files have more bad data than the limits allow, or no good record.
    """
    policy = reading.corrupt_data_policy
    if policy == "fail":
        return Screened({flag: list(paths) for flag, paths in files.items()})
    every = sorted({path for paths in files.values() for path in paths})
    _log.info("looking for bad records in %d files (--corrupt_data_policy=%s)", len(every), policy)
    size = sum(map(file_bytes.size, every))
    with ScanProgress("check_data", size, program.log_every_secs) as progress:
        scan_reports = data_scan.scan(
            every,
            spec=spec,
            with_labels=with_labels,
            filtered=filtered,
            remedy=remedy,
            progress=progress,
        )
    reports = {report.path: report for report in scan_reports}
    counts: dict[str, Any] = {"policy": policy}
    kept: dict[str, list[str]] = {}
    records: dict[str, int] = {}
    for flag, paths in files.items():
        if not paths:
            kept[flag] = []
            continue
        mine = [reports[path] for path in paths]
        sums = _Sums(mine, policy)
        counts[flag.removeprefix("--")] = sums.as_dict()
        sums.check(reading, flag)
        kept[flag] = [path for path in paths if not sums.in_quarantine(reports[path])]
        records[flag] = sums.read
    bad = [report for report in reports.values() if report.bad_records]
    if bad:
        done = "left out" if policy == "quarantine" else "their good records are read"
        lines = "\n".join(f"  {line}" for line in first_lines(bad))
        _log.warning("%d of %d files have bad records; %s:\n%s", len(bad), len(every), done, lines)
    read_in_part = bad if policy == "skip_record" else []
    return Screened(
        kept,
        damaged={report.path: report.left_out for report in read_in_part},
        digests={report.path: _digest(report) for report in read_in_part},
        records=records,
        counts=counts,
        listing=tuple(as_dict(report) for report in bad),
    )


@dataclasses.dataclass(frozen=True)
class _Sums:
    """The sums over the reports of one flag's files."""

    reports: Sequence[FileReport]
    policy: str

    def in_quarantine(self, report: FileReport) -> bool:
        return self.policy == "quarantine" and report.bad_records > 0

    @property
    def records(self) -> int:
        return sum(report.records for report in self.reports)

    @property
    def bad_records(self) -> int:
        return sum(report.bad_records for report in self.reports)

    @property
    def read(self) -> int:
        return sum(r.good_records for r in self.reports if not self.in_quarantine(r))

    @property
    def fraction(self) -> float:
        """The share of records, or of bytes if that is larger, that is not read.

        The bytes count because a stretch without framing is one bad record, however long it is.
        """
        sizes = [max(report.size, report.lost_bytes) for report in self.reports]
        lost = [
            size if self.in_quarantine(report) else report.lost_bytes
            for size, report in zip(sizes, self.reports)
        ]
        share = 1 - self.read / self.records if self.records else 0.0
        return max(share, sum(lost) / sum(sizes) if sum(sizes) else 0.0)

    def as_dict(self) -> dict[str, Any]:
        return {
            "files": len(self.reports),
            "bad_files": sum(report.bad_records > 0 for report in self.reports),
            "records": self.records,
            "bad_records": self.bad_records,
            "records_left_out": self.records - self.read,
            "fraction_left_out": self.fraction,
            "lost_bytes": sum(report.lost_bytes for report in self.reports),
            "quarantined": [r.path for r in self.reports if self.in_quarantine(r)],
        }

    def check(self, reading: Reading, flag: str) -> None:
        limits = []
        most = reading.max_bad_records
        if most is not None and self.bad_records > most:
            limits.append(f"{self.bad_records:,} bad records, more than --max_bad={most}")
        share = reading.max_bad_share
        if share is not None and self.fraction > share:
            limits.append(f"{self.fraction:.2%} unreadable data, more than --max_bad={share}")
        if not self.read and self.bad_records:
            limits.append("no good record")
        if limits:
            bad = [report for report in self.reports if report.bad_records]
            heading = f"the {len(self.reports)} files of {flag} have {' and '.join(limits)}"
            raise DataError("\n".join([heading, *(f"  {line}" for line in first_lines(bad))]))


def first_lines(bad: Sequence[FileReport]) -> list[str]:
    """One line for each of the first few files with bad records."""
    lines = [
        f"{report.path}: {report.bad_records:,} of {report.records:,} records are bad, the first: "
        f"{report.listed[0].sentence}"
        for report in bad[:_NAMED]
    ]
    if len(bad) > _NAMED:
        lines.append(f"and {len(bad) - _NAMED:,} more files")
    return lines


def as_dict(report: FileReport) -> dict[str, Any]:
    """A report for JSON, with the places and reasons of the first bad records."""
    listed = [
        {"record": bad.number, "byte": bad.offset, "reason": bad.reason} for bad in report.listed
    ]
    return {
        "path": report.path,
        "records": report.records,
        "bad_records": report.bad_records,
        "lost_bytes": report.lost_bytes,
        "first_bad_records": listed,
    }


def _digest(report: FileReport) -> str:
    listed = [(bad.number, bad.offset) for bad in report.listed]
    facts = (report.records, report.lost_bytes, listed, sorted(report.left_out))
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:16]
