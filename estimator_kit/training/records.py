"""Checks the first records of the files of a run, and how many rows a selection keeps."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from feature_specs.spec import FeatureSpec
from input_pipelines.errors import DataError
from input_pipelines.integrity import stored_records
from input_pipelines.reading import row_groups
from input_pipelines.reading.selection import RowCounts
from input_pipelines.record_files import record_lists, tfrecords

_log = logging.getLogger("estimator_kit")


def check_records(
    spec: FeatureSpec,
    paths: Sequence[str],
    flag: str,
    damaged: tfrecords.Damaged = tfrecords.NO_DAMAGE,
) -> dict[str, list[bytes]]:
    """Returns the first records of each file, as `record_lists.first_records` does.

    Raises:
      DataError: a file is not a TFRecord file, or the files together have no record. Or a file
        begins with records of the wrong kind (Example instead of SequenceExample or the reverse);
        TensorFlow would read only a part of these, without an error. Or the spec ranks rows in
        groups, but no two consecutive rows belong to the same group.
    """
    records = record_lists.first_records(paths, damaged=damaged)
    if not records:
        raise DataError(f"{flag}: its {len(paths)} files have no records")
    check_first(spec, records)
    return records


def check_first(spec: FeatureSpec, records: Mapping[str, list[bytes]]) -> None:
    """Checks the kind and the groups of some records; see `check_records`."""
    stored_records.check_kind(spec, records)
    row_groups.check_neighbors(spec, records)


def check_kept(counts: RowCounts, flag: str, paths: Sequence[str]) -> None:
    """Raises DataError if a selection keeps no row."""
    if counts.read and not counts.kept[0]:
        raise DataError(
            f"{flag}: none of its {counts.read} rows is kept ({paths[0]}"
            f"{' and other files' if len(paths) > 1 else ''}). Check `filter` in the spec"
            + (" and --keep_negatives." if not flag.startswith("--eval_files") else ".")
        )
    if not counts.read:
        raise DataError(f"{flag}: its {len(paths)} files have no records ({paths[0]}, ...)")


def summary(counts: Sequence[RowCounts]) -> dict[str, int]:
    """Rows read, kept and dropped (in the first epoch), for result.json."""
    read, kept = sum(c.read for c in counts), sum(c.kept[0] for c in counts)
    return {"read": read, "kept": kept, "dropped": read - kept}


def log_kept(flag: str, counts: Sequence[RowCounts], *, first_epoch: bool = False) -> None:
    """Logs how many rows a selection keeps. With `first_epoch`, later epochs keep other rows."""
    kept, read = sum(c.kept[0] for c in counts), sum(c.read for c in counts)
    end = " in the first epoch" if first_epoch else ""
    _log.info("%s: %s of %s rows are kept%s", flag, f"{kept:,}", f"{read:,}", end)
