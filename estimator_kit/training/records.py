"""Checks the first records of the files of a run, and reads each row of --eval_files once.

    screened = bad_data.screen(config, spec, {"--eval_files": eval_paths(config, spec)})
    eval_input = EvalInput.of(config, spec, screened)
    estimator.evaluate(eval_input.input_fn())

A run never trains or scores on files of the wrong kind, or on files without records.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping, Sequence
from typing import Optional

from estimator_kit.config.areas.data import Data
from estimator_kit.config.areas.program import Program
from estimator_kit.config.modes import OneModel
from estimator_kit.model.session_errors import explained
from estimator_kit.training import own_input
from estimator_kit.training.bad_data import Screened
from feature_specs.spec import FeatureSpec
from input_pipelines import input_fns
from input_pipelines.errors import DataError
from input_pipelines.integrity import stored_records
from input_pipelines.reading import files, row_groups
from input_pipelines.reading.selection import RowCounts, Selection
from input_pipelines.record_files import tfrecords
from input_pipelines.row_cache.cache import RowCache

_log = logging.getLogger("estimator_kit")


def check_records(
    spec: FeatureSpec,
    paths: Sequence[str],
    flag: str,
    damaged: tfrecords.Damaged = tfrecords.NO_DAMAGE,
) -> dict[str, list[bytes]]:
    """Returns the first records of each file, as `tfrecords.first_records` does.

    Raises:
      DataError: a file is not a TFRecord file, or the files together have no record. Or a file
        begins with records of the wrong kind (Example instead of SequenceExample or the reverse);
        TensorFlow would read only a part of these, without an error. Or the spec ranks rows in
        groups, but no two consecutive rows belong to the same group.
    """
    records = tfrecords.first_records(paths, damaged=damaged)
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
            + (" and --keep_negatives." if flag != "--eval_files" else ".")
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


def eval_paths(program: Program, data: Data, spec: FeatureSpec) -> list[str]:
    """The files of --eval_files, for the selected days; without it, the rows of --input_fn."""
    if not data.eval_files and data.input_fn is not None:
        return [own_input.stored_rows(program, data, spec)]
    return files.expand(data.eval_files, flag="--eval_files", days=data.days_of("eval"))


@dataclasses.dataclass(frozen=True)
class EvalInput:
    """The input of the evaluations of a run.

    Attributes:
      command: the training.
      spec: its feature spec.
      files: the files that are read, without files that the policy leaves out.
      damaged: the files in `files` of which only the good records are read.
      left_out: for each damaged file, a digest of the records that are not read.
      counts: the row counts if the spec has a filter, else None.
    """

    command: OneModel
    spec: FeatureSpec
    files: list[str]
    damaged: tfrecords.Damaged
    left_out: Mapping[str, str]
    counts: Optional[RowCounts]

    @classmethod
    def of(cls, command: OneModel, spec: FeatureSpec, screened: Screened) -> EvalInput:
        """The input of screened files. Checks the first records of each file.

        Raises:
          DataError: the files have no record, or no row passes the filter.
        """
        paths, damaged = screened.files["--eval_files"], screened.damaged
        check_records(spec, paths, "--eval_files", damaged)
        with explained(spec, paths, damaged=damaged):
            counts = _count(spec, paths, damaged)
        return cls(command, spec, paths, damaged, screened.left_out("--eval_files"), counts)

    @property
    def names(self) -> list[str]:
        """What is read, for a person: the files, or the function of the rows."""
        if self.command.data.eval_files:
            return self.files
        return [f"--input_fn={self.command.data.input_fn}"]

    def input_fn(self, cache: Optional[RowCache] = None) -> input_fns.InputFn:
        """The input_fn of an evaluation."""
        return input_fns.eval_input_fn(
            self.spec,
            self.files,
            batch_size=self.command.reading.eval_batch_size,
            limit=self.command.reading.eval_steps,
            damaged=self.damaged,
            cache=cache,
        )


def _count(spec: FeatureSpec, paths: list[str], damaged: tfrecords.Damaged) -> Optional[RowCounts]:
    if not spec.filter:
        return None
    counts = Selection(spec).count(paths, damaged=damaged)
    check_kept(counts, "--eval_files", paths)
    log_kept("--eval_files", [counts])
    return counts
