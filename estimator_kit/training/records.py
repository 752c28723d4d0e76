"""What the files of a run hold: their first records are looked at, their counted rows told.

Nothing is trained or scored on files of the wrong kind, or on none. Which rows are read is
`source`'s and `eval_input`'s.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from feature_specs.spec import FeatureSpec
from input_pipelines.errors import DataError
from input_pipelines.integrity import stored_records
from input_pipelines.reading import row_groups
from input_pipelines.reading.mixing import Mix
from input_pipelines.reading.selection import RowCounts
from input_pipelines.record_files import tfrecords

_log = logging.getLogger("estimator_kit")


def check_records(
    spec: FeatureSpec,
    paths: Sequence[str],
    flag: str,
    damaged: tfrecords.Damaged = tfrecords.NO_DAMAGE,
) -> dict[str, list[bytes]]:
    """The first records of each file, as `tfrecords.first_records`.

    Raises DataError for files that would train or score nothing, or not what the spec means.

    Files that are no TFRecords, that all together have no record, and such as begin with records of
    the other kind, Example or SequenceExample, which TensorFlow would read without an error and
    without a part of them, or of which no two that follow each other are of one group to rank.
    """
    records = tfrecords.first_records(paths, damaged=damaged)
    if not records:
        raise DataError(f"the {len(paths)} files of {flag} hold no record")
    stored_records.check_kind(spec, records)
    row_groups.check_neighbours(spec, records)
    return records


def check_kept(counts: RowCounts, flag: str, paths: Sequence[str]) -> None:
    """Raises DataError where a selection keeps no row."""
    if counts.read and not counts.kept[0]:
        raise DataError(
            f"none of the {counts.read} rows of {flag} ({paths[0]}"
            f"{' and others' if len(paths) > 1 else ''}) is kept; look at `filter` in the spec"
            + (" and at --keep_negatives" if flag != "--eval_files" else "")
        )
    if not counts.read:
        raise DataError(f"the {len(paths)} files of {flag} ({paths[0]}, ...) hold no record")


def summary(counts: Sequence[RowCounts]) -> dict[str, int]:
    """Rows read, kept and dropped (in the first epoch), for result.json."""
    read, kept = sum(c.read for c in counts), sum(c.kept[0] for c in counts)
    return {"read": read, "kept": kept, "dropped": read - kept}


def log_kept(flag: str, counts: Sequence[RowCounts], *, first_epoch: bool = False) -> None:
    """Says how many rows a selection keeps; `first_epoch` says that other epochs keep others."""
    kept, read = sum(c.kept[0] for c in counts), sum(c.read for c in counts)
    end = " in the first epoch" if first_epoch else ""
    _log.info("%s: %s of %s rows are kept%s", flag, f"{kept:,}", f"{read:,}", end)


def log_shares(flag: str, mix: Mix, counts: Sequence[RowCounts]) -> None:
    """Says of each part of a mix its share, and how often its rows are read."""
    total = sum(c.kept[0] for c in counts)
    for part, found in zip(mix.parts, counts):
        share = part.share / mix.round
        _log.info(
            "%s: %s: %.1f%% of the stream, its %s rows read %.2f times an epoch",
            flag,
            part.pattern,
            100 * share,
            f"{found.kept[0]:,}",
            share * total / found.kept[0],
        )
