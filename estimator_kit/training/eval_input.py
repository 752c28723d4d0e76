"""`EvalInput`: the files that the evaluations of a run read. It reads each row once.

    screened = bad_data.screen(config, spec, all_paths(config, spec))
    eval_input = EvalInput.of(config, spec, screened)
    estimator.evaluate(eval_input.input_fn())
    eval_input.others["test"].input_fn()        # the other sets of --eval_files

A run never scores on files of the wrong kind, or on files without records.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Optional

from estimator_kit.checkpoints.scores_meaning import ScoresMeaning
from estimator_kit.config.areas.data import TEST, Data
from estimator_kit.config.areas.program import Program
from estimator_kit.config.modes import OneModel
from estimator_kit.errors import ConfigError
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

FLAG = "--eval_files"


def flag_of(name: str) -> str:
    """What messages call the files of another evaluation set."""
    return f"{FLAG}, set {name}"


def all_paths(program: Program, data: Data, spec: FeatureSpec) -> dict[str, list[str]]:
    """The files of all evaluation sets: `eval_paths` by `FLAG`, and other sets by `flag_of`.

    Raises:
      ConfigError: a file that judges is also in the set `test`, under any spelling. Other sets may
        have some of these files, such as the files of one market.
    """
    days = data.days_of("eval")
    others = {
        flag_of(name): files.expand(patterns, flag=flag_of(name), days=days)
        for name, patterns in data.other_sets.items()
    }
    judging = eval_paths(program, data, spec)
    check_test(others.get(flag_of(TEST), ()), judging)
    return {FLAG: judging, **others}


def check_test(test: Sequence[str], judging: Sequence[str]) -> None:
    """Raises ConfigError if a file of the set `test` is one of the files that judge."""
    shared = files.shared(test, judging)
    if shared:
        raise ConfigError(
            f"{flag_of(TEST)}: {shared[0]} is also one of the files that judge. The rows of this "
            "set may not choose the model. Name other files, or give the set another name."
        )


def eval_paths(program: Program, data: Data, spec: FeatureSpec) -> list[str]:
    """The files that judge, for the selected days; without --eval_files, rows of --input_fn."""
    if not data.eval_files and data.input_fn is not None:
        return [own_input.stored_rows(program, data, spec)]
    return files.expand(data.judging_files, flag=FLAG, days=data.days_of("eval"))


@dataclasses.dataclass(frozen=True)
class EvalInput:
    """The input of the evaluations of a run: one set of rows, and the other sets.

    Attributes:
      command: the training.
      spec: its feature spec.
      files: the files that are read, without files that the policy leaves out.
      damaged: the files in `files` of which only the good records are read.
      left_out: for each damaged file, a digest of the records that are not read.
      counts: the row counts if the spec has a filter, else None.
      others: the other sets of --eval_files, by name.
    """

    command: OneModel
    spec: FeatureSpec
    files: list[str]
    damaged: tfrecords.Damaged
    left_out: Mapping[str, str]
    counts: Optional[RowCounts]
    others: Mapping[str, EvalInput] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(cls, command: OneModel, spec: FeatureSpec, screened: Screened) -> EvalInput:
        """The input of screened files. Checks the first records of each file.

        Raises:
          DataError: the files of a set have no record, or no row of a set passes the filter.
        """
        others = {
            name: cls._of_set(command, spec, screened, flag_of(name))
            for name in command.data.other_sets
        }
        return dataclasses.replace(cls._of_set(command, spec, screened, FLAG), others=others)

    @classmethod
    def _of_set(
        cls, command: OneModel, spec: FeatureSpec, screened: Screened, flag: str
    ) -> EvalInput:
        paths, damaged = screened.files[flag], screened.damaged
        check_records(spec, paths, flag, damaged)
        with explained(spec, paths, damaged=damaged):
            counts = _count(spec, paths, damaged, flag)
        return cls(command, spec, paths, damaged, screened.left_out(flag), counts)

    @property
    def names(self) -> list[str]:
        """What is read, for a person: the files, or the function of the rows."""
        if self.command.data.eval_files:
            return self.files
        return [f"--input_fn={self.command.data.input_fn}"]

    @property
    def all_files(self) -> list[str]:
        """The files of all sets."""
        return [*self.files, *(path for each in self.others.values() for path in each.files)]

    def scores_of_others(self, means: ScoresMeaning) -> dict[str, str]:
        """For each other set, a digest of what its scores mean."""
        return {
            name: means.of_rows(each.files, each.left_out) for name, each in self.others.items()
        }

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


def _count(
    spec: FeatureSpec, paths: list[str], damaged: tfrecords.Damaged, flag: str
) -> Optional[RowCounts]:
    if not spec.filter:
        return None
    counts = Selection(spec).count(paths, damaged=damaged)
    check_kept(counts, flag, paths)
    log_kept(flag, [counts])
    return counts
