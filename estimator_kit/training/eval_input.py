"""`EvalInput`: the files that the evaluations of a run read. It reads each row once.

    screened = bad_data.screen(config, spec, {"--eval_files": eval_paths(config, spec)})
    eval_input = EvalInput.of(config, spec, screened)
    estimator.evaluate(eval_input.input_fn())

A run never scores on files of the wrong kind, or on files without records.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Optional

from estimator_kit.config.areas.data import Data
from estimator_kit.config.areas.program import Program
from estimator_kit.config.modes import OneModel
from estimator_kit.model.session_errors import explained
from estimator_kit.training import own_input
from estimator_kit.training.bad_data import Screened
from estimator_kit.training.records import check_kept, check_records, log_kept
from feature_specs.spec import FeatureSpec
from input_pipelines import input_fns
from input_pipelines.reading import files
from input_pipelines.reading.selection import RowCounts, Selection
from input_pipelines.record_files import tfrecords
from input_pipelines.row_cache.cache import RowCache


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
