"""What a training reads: files, a mix of files, or rows of a function; which are kept, how many.

`position` stores in steps how far a training has read; this module counts the rows.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Optional, Union

import tensorflow as tf

from estimator_kit.config.areas.cluster import kept_together_problem
from estimator_kit.config.modes import Train
from estimator_kit.errors import ConfigError
from estimator_kit.training import data_service, own_input
from estimator_kit.training.bad_data import Screened
from estimator_kit.training.position import BY_NAME, InputPosition, find_position
from estimator_kit.training.records import check_first, check_kept, check_records, log_kept
from estimator_kit.training.team import ALONE, Team
from feature_specs.spec import FeatureSpec
from input_pipelines import input_fns
from input_pipelines.errors import DataError
from input_pipelines.reading import files
from input_pipelines.reading.mixing import Mix
from input_pipelines.reading.negatives import Negatives
from input_pipelines.reading.own_rows import OwnRows
from input_pipelines.reading.selection import RowCounts
from input_pipelines.reading.shuffling import Span
from input_pipelines.reading.sources import Files, Mixed, OfFunction, RowSource
from input_pipelines.record_files import tfrecords
from input_pipelines.record_files.file_bytes import samples_of
from input_pipelines.row_cache.cache import Cached, RowCache

_log = logging.getLogger("estimator_kit")


@dataclasses.dataclass(frozen=True)
class TrainingInput:
    """The input of one training.

    Attributes:
      command: the training.
      source: the rows and their order, with their feature spec.
      team: the processes that train together, each on its shard.
      left_out: for each damaged file, a digest of the records that are not read.
      good_records: the number of good records in all files, if the files were scanned.
      stamps: (bytes, nanoseconds since 1970) for each file, at the start.
      samples: a sample of the content of each file, at the start; see `samples_of`.
    """

    command: Train
    source: RowSource
    team: Team = ALONE
    left_out: Mapping[str, str] = dataclasses.field(default_factory=dict)
    good_records: Optional[int] = None
    stamps: Mapping[str, tuple[int, int]] = dataclasses.field(default_factory=dict)
    samples: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(cls, command: Train, spec: FeatureSpec, team: Team = ALONE) -> TrainingInput:
        """The input that the flags describe.

        Raises:
          ConfigError: --keep_negatives does not name a suitable label. Or the head ranking needs
            rows of one group together, and a mix or --keep_negatives would separate them.
          DataError: a pattern matches no file.
        """
        negatives = None
        if command.training.keep_negatives is not None:
            try:
                negatives = Negatives.of(command.training.keep_negatives, spec)
            except ValueError as error:
                raise ConfigError(f"--keep_negatives: {error}") from error
        problem = kept_together_problem(command.service, spec.kept_together)
        if problem is not None:
            raise ConfigError(problem)
        if command.data.train_mix and spec.kept_together is not None:
            raise ConfigError(
                "--train_mix: the head ranking needs the rows of one "
                f"{spec.kept_together!r} together, but a mix takes single rows from its parts. "
                "Use --train_files."
            )
        order = command.choice.seed, command.training.shuffle, negatives
        if command.data.input_fn is not None:
            rows = own_input.rows_to_train_on(command.data, spec, team)
            return FunctionInput(command, OfFunction(spec, rows, *order), team)
        days = command.data.days_of("train")
        source: Union[Files, Mixed]
        if command.data.train_mix:
            mix = Mix.of(command.data.train_mix, days=days, flag=Mixed.flag)
            source = Mixed(spec, mix, *order)
        else:
            paths = files.expand(command.data.train_files, flag=Files.flag, days=days)
            source = Files(spec, paths, *order)
            if source.runs and len(paths) < team.size:
                raise ConfigError(f"{Files.flag}: {_too_few(team, len(paths), spec.kept_together)}")
        stamps = _stamps(source.files)
        sizes = {path: size for path, (size, _) in stamps.items()}
        source = dataclasses.replace(source, sizes=sizes)
        return cls(command, source, team, stamps=stamps, samples=samples_of(sizes))

    @property
    def spec(self) -> FeatureSpec:
        return self.source.spec

    @property
    def negatives(self) -> Optional[Negatives]:
        return self.source.negatives

    @property
    def damaged(self) -> tfrecords.Damaged:
        return self.source.damaged

    @property
    def flag(self) -> str:
        return self.source.flag

    @property
    def files(self) -> list[str]:
        return self.source.files

    @property
    def function(self) -> Optional[OwnRows]:
        """The function of --input_fn."""
        return None

    def of_member(self, index: int) -> TrainingInput:
        """The input of another member of the team."""
        team = dataclasses.replace(self.team, index=index)
        return dataclasses.replace(self, team=team)

    def position(self, start_step: int) -> InputPosition:
        """The position at which a start at a global step reads."""
        position = find_position(
            self.command.run,
            self.command.choice,
            self.command.training,
            self.files,
            start_step,
            self.left_out,
            selection=self.identity(),
            sizes={path: self.stamps[path][0] for path in self.files},
            samples={path: self.samples[path] for path in self.files},
        )
        before, now = position.epochs, self.command.training.epochs
        if before is not None and before != now and start_step == self._end_of(position, before):
            position = position.model_copy(update={"whole": (start_step, before)})
        return position

    def own_skip(self, position: InputPosition) -> int:
        """How many rows of this process's shard were read before a position."""
        step, epochs = position.whole
        rows = self.team.own_rows(max(0, position.step - step), self.command.training.batch_size)
        if epochs:
            rows += sum(c.in_epochs(epochs) for c in self.count(epochs=epochs, skip_rows=0))
        return rows

    def end_of(
        self, position: InputPosition, epochs: int, counts: Sequence[Sequence[RowCounts]]
    ) -> int:
        """The global step at which `epochs` epochs are read.

        Args:
          position: the current position.
          epochs: the number of epochs since this input began.
          counts: the row counts of each member of the team.
        """
        step, whole_epochs = position.whole
        rows = [sum(c.in_epochs(epochs) - c.in_epochs(whole_epochs) for c in one) for one in counts]
        return step + self.team.steps_of(rows, self.command.training.batch_size)

    def _end_of(self, position: InputPosition, epochs: int) -> int:
        counts = [
            self.of_member(i).count(epochs=epochs, skip_rows=0) for i in range(self.team.size)
        ]
        return self.end_of(position, epochs, counts)

    def first_records(self) -> dict[str, list[bytes]]:
        """Checks the first records, and returns the first records of each file.

        Raises:
          DataError: see `records.check_records`; or a row of --input_fn cannot be used.
        """
        return check_records(self.spec, self.files, self.flag, self.damaged)

    def naming_problems(self) -> AbstractContextManager[None]:
        """Replaces errors about rows of --input_fn by errors that name the function and the row."""
        return contextlib.nullcontext()

    def changed_files(self) -> list[str]:
        """One sentence for each file that has changed since the start."""
        changes = []
        for path in self.files:
            try:
                now = _stamps([path])[path]
            except tf.errors.OpError:
                changes.append(f"{path} no longer exists")
                continue
            if now != self.stamps[path]:
                changes.append(f"{path} had {self.stamps[path][0]:,} bytes and now has {now[0]:,}")
        return changes

    @property
    def must_be_counted(self) -> bool:
        """Whether rows must be counted even without --epochs.

        The rows of a function may never end, so they are not.
        """
        return self.source.is_selected

    def without_bad(self, screened: Screened) -> TrainingInput:
        """The same input without the files and records that the policy leaves out.

        Raises:
          DataError: a part of a mix has no file left, or fewer files are left than tasks need.
        """
        kept = screened.files[self.flag]
        together = self.spec.kept_together
        if together is not None and len(kept) < self.team.size:
            raise DataError(
                f"{self.flag}: without bad files, {_too_few(self.team, len(kept), together)}"
            )
        return dataclasses.replace(
            self,
            source=self.source.only(kept, screened.damaged),
            left_out=screened.left_out(self.flag),
            good_records=screened.records.get(self.flag),
        )

    def identity(self) -> dict[str, Any]:
        """What decides the order of rows, except the values that `find_position` adds itself."""
        identity: dict[str, Any] = {}
        if self.spec.filter:
            identity["filter"] = list(self.spec.filter)
        if self.negatives is not None:
            identity["keep_negatives"] = [self.negatives.label, self.negatives.share, BY_NAME]
        identity.update(self.source.identity())
        if self.command.service.data_service is not None:
            identity["data_service"] = True  # The service reads rows in another order.
        if self.team.size > 1:
            identity["trainers"] = self.team.size
            identity["dealt"] = "by size"
        if self.team.batches_a_step > 1:
            identity["batches_a_step"] = self.team.batches_a_step
        return identity

    def count(self, *, epochs: Optional[int], skip_rows: int) -> list[RowCounts]:
        """Counts the rows of the files, or of each part of a mix, in as many epochs as needed.

        Raises:
          DataError: a file is corrupt, or no row is kept.
        """
        source = self.source
        is_all = self.team.size == 1 and len(source.parts) == 1 and not source.is_selected
        if self.good_records is not None and is_all:
            return [RowCounts(self.good_records, (self.good_records,))]
        _log.info("counting the rows of %d training files", len(self.files))
        counts = source.count(self.team.shard, skip_rows, epochs)
        for part, paths in zip(counts, source.parts):
            check_kept(part, self.flag, paths)
        if self.must_be_counted:
            log_kept(self.flag, counts, first_epoch=self.negatives is not None)
        source.log_counts(counts)
        return counts

    def input_from(
        self,
        position: InputPosition,
        *,
        counts: Optional[Sequence[RowCounts]] = None,
        cache: Optional[RowCache] = None,
    ) -> input_fns.InputFn:
        """The input_fn from a position on. Counts the rows if they are needed and not given."""
        skip_rows = self.own_skip(position)
        if counts is None and (skip_rows or self.must_be_counted):
            counts = self.count(epochs=self.command.training.epochs, skip_rows=skip_rows)
        team, source = self.team, self.source
        if self.command.service.data_service is not None:
            assert isinstance(source, Files)
            return data_service.input_fn(
                self.command.service,
                self.command.training,
                self.command.cluster,
                source,
                skip_rows,
                counts,
            )
        if cache is not None:
            assert isinstance(source, Files)
            source = Cached.of(source, cache)
        epochs = None if team.ends_together and not team.pads else self.command.training.epochs
        if epochs is not None and counts is not None and (team.size > 1 or team.pads):
            # Other shards may have more rows, so the step may be beyond the end of this shard.
            skip_rows = min(skip_rows, sum(c.in_epochs(epochs) for c in counts))
        return input_fns.training_batches(
            source,
            batch_size=self.command.training.batch_size,
            span=Span(skip_rows, epochs, [part.rows_an_epoch for part in counts or ()]),
            shard=team.shard,
            pad=team.pads,
        )


class FunctionInput(TrainingInput):
    """The rows of --input_fn as the input of a training."""

    source: OfFunction

    @property
    def function(self) -> OwnRows:
        return self.source.origin

    def position(self, start_step: int) -> InputPosition:
        position = super().position(start_step)
        if position.steps_read:
            own_input.warn_of_restart(
                self.function, position, self.team, self.command.training.batch_size
            )
        return position

    def first_records(self) -> dict[str, list[bytes]]:
        first = own_input.checked_first_rows(self.function, self.spec)
        check_first(self.spec, {self.function.place: first})
        return {}

    def naming_problems(self) -> AbstractContextManager[None]:
        return own_input.explained(self.function, self.spec)

    def without_bad(self, screened: Screened) -> TrainingInput:
        return self

    def count(self, *, epochs: Optional[int], skip_rows: int) -> list[RowCounts]:
        counts = own_input.count(self.source, self.team.shard, skip_rows, epochs)
        if self.source.selection.drops_rows and epochs is not None:
            log_kept(self.flag, counts)
        return counts


def _too_few(team: Team, files_left: int, kept_together: Optional[str]) -> str:
    return (
        f"expected at least {team.size} files, one for each task that trains, got {files_left}. "
        "Otherwise tasks share a file record by record, but the head ranking needs the rows of one "
        f"{kept_together!r} together. Write the data to more files."
    )


def _stamps(paths: Sequence[str]) -> dict[str, tuple[int, int]]:
    stats = ((path, tf.io.gfile.stat(path)) for path in paths)
    return {path: (stat.length, stat.mtime_nsec) for path, stat in stats}
