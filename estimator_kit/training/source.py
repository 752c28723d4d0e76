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

from estimator_kit.config.areas.data_service import kept_together_problem
from estimator_kit.config.mode_configs import ModelDirConfig
from estimator_kit.errors import ConfigError
from estimator_kit.training import data_service, own_input
from estimator_kit.training.bad_data import Screened
from estimator_kit.training.position import BY_NAME, InputPosition, find_position
from estimator_kit.training.records import (
    check_first,
    check_kept,
    check_records,
    log_kept,
    log_shares,
)
from estimator_kit.training.team import ALONE, Team
from feature_specs.files import file_systems
from feature_specs.spec import FeatureSpec
from input_pipelines import input_fns
from input_pipelines.errors import DataError
from input_pipelines.reading import files
from input_pipelines.reading.mixing import Mix
from input_pipelines.reading.own_rows import OwnRows
from input_pipelines.reading.selection import Negatives, RowCounts, Selection
from input_pipelines.record_files import tfrecords
from input_pipelines.record_files.file_bytes import samples_of
from input_pipelines.row_cache.cache import RowCache

_log = logging.getLogger("estimator_kit")


@dataclasses.dataclass(frozen=True)
class TrainingInput:
    """The input of one training.

    Attributes:
      config: the experiment.
      spec: its feature spec.
      source: the files, a mix, or the rows of --input_fn.
      negatives: the down-sampling of negatives, or None.
      damaged: the files of which only the good records are read.
      left_out: for each damaged file, a digest of the records that are not read.
      good_records: the number of good records in all files, if the files were scanned.
      team: the processes that train together, each on its shard.
      stamps: (bytes, nanoseconds since 1970) for each file, at the start.
      samples: a sample of the content of each file, at the start; see `samples_of`.
    """

    config: ModelDirConfig
    spec: FeatureSpec
    source: Union[list[str], Mix, OwnRows]
    negatives: Optional[Negatives] = None
    damaged: tfrecords.Damaged = dataclasses.field(default_factory=dict)
    left_out: Mapping[str, str] = dataclasses.field(default_factory=dict)
    good_records: Optional[int] = None
    team: Team = ALONE
    stamps: Mapping[str, tuple[int, int]] = dataclasses.field(default_factory=dict)
    samples: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(cls, config: ModelDirConfig, spec: FeatureSpec, team: Team = ALONE) -> TrainingInput:
        """The input that the flags describe.

        Raises:
          ConfigError: --keep_negatives does not name a suitable label. Or the head ranking needs
            rows of one group together, and a mix or --keep_negatives would separate them.
          DataError: a pattern matches no file.
        """
        negatives = None
        if config.keep_negatives is not None:
            try:
                negatives = Negatives.of(config.keep_negatives, spec)
            except ValueError as error:
                raise ConfigError(f"--keep_negatives: {error}") from error
        problem = kept_together_problem(config, spec.kept_together)
        if problem is not None:
            raise ConfigError(problem)
        source: Union[list[str], Mix, OwnRows]
        if config.train_mix and spec.kept_together is not None:
            raise ConfigError(
                "--train_mix: the head ranking needs the rows of one "
                f"{spec.kept_together!r} together, but a mix takes single rows from its parts. "
                "Use --train_files."
            )
        if config.input_fn is not None:
            source = own_input.rows_to_train_on(config, spec, team)
        elif config.train_mix:
            source = Mix.of(config.train_mix, days=config.days_of("train"), flag="--train_mix")
        else:
            days = config.days_of("train")
            source = files.expand(config.train_files, flag="--train_files", days=days)
            if spec.kept_together is not None and len(source) < team.size:
                raise ConfigError(
                    f"--train_files: {_too_few(team, len(source), spec.kept_together)}"
                )
        paths = source if isinstance(source, list) else source.files
        stamps = _stamps(paths)
        samples = samples_of({path: size for path, (size, _) in stamps.items()})
        return cls(config, spec, source, negatives, team=team, stamps=stamps, samples=samples)

    def of_member(self, index: int) -> TrainingInput:
        """The input of another member of the team."""
        team = dataclasses.replace(self.team, index=index)
        return dataclasses.replace(self, team=team)

    def position(self, start_step: int) -> InputPosition:
        """The position at which a start at a global step reads."""
        found = find_position(
            self.config,
            self.files,
            start_step,
            self.left_out,
            selection=self.identity(),
            sizes=self.sizes,
            samples={path: self.samples[path] for path in self.files},
        )
        if isinstance(self.source, OwnRows) and found.steps_read:
            own_input.warn_of_restart(self.source, found, self.team, self.config.batch_size)
        before, now = found.epochs, self.config.epochs
        if before is not None and before != now and start_step == self._end_of(found, before):
            found = found.model_copy(update={"whole": (start_step, before)})
        return found

    def own_skip(self, position: InputPosition) -> int:
        """How many rows of this process's shard were read before a position."""
        step, epochs = position.whole
        rows = self.team.own_rows(max(0, position.step - step), self.config.batch_size)
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
        step, whole = position.whole
        rows = [sum(c.in_epochs(epochs) - c.in_epochs(whole) for c in one) for one in counts]
        return step + self.team.steps_of(rows, self.config.batch_size)

    def _end_of(self, position: InputPosition, epochs: int) -> int:
        counts = [
            self.of_member(i).count(epochs=epochs, skip_rows=0) for i in range(self.team.size)
        ]
        return self.end_of(position, epochs, counts)

    @property
    def flag(self) -> str:
        if isinstance(self.source, OwnRows):
            return "--input_fn"
        return "--train_mix" if isinstance(self.source, Mix) else "--train_files"

    @property
    def files(self) -> list[str]:
        return self.source if isinstance(self.source, list) else list(self.source.files)

    def first_records(self) -> dict[str, list[bytes]]:
        """Checks the first records, and returns the first records of each file.

        Raises:
          DataError: see `records.check_records`; or a row of --input_fn cannot be used.
        """
        if not isinstance(self.source, OwnRows):
            return check_records(self.spec, self.files, self.flag, self.damaged)
        first = own_input.checked_first_rows(self.source, self.spec)
        check_first(self.spec, {self.source.place: first})
        return {}

    def naming_problems(self) -> AbstractContextManager[None]:
        """Replaces errors about rows of --input_fn by errors that name the function and the row."""
        if isinstance(self.source, OwnRows):
            return own_input.explained(self.source, self.spec)
        return contextlib.nullcontext()

    @property
    def sizes(self) -> dict[str, int]:
        """The size of each file in bytes. Files are assigned to shards by size."""
        return {path: self.stamps[path][0] for path in self.files}

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
        own = isinstance(self.source, OwnRows)
        return bool(self.spec.filter or self.negatives) and not own

    def without_bad(self, found: Screened) -> TrainingInput:
        """The same input without the files and records that the policy leaves out.

        Raises:
          DataError: a part of a mix has no file left, or fewer files are left than tasks need.
        """
        if isinstance(self.source, OwnRows):
            return self
        kept = found.files[self.flag]
        together = self.spec.kept_together
        if together is not None and len(kept) < self.team.size:
            raise DataError(
                f"{self.flag}: without bad files, {_too_few(self.team, len(kept), together)}"
            )
        return dataclasses.replace(
            self,
            source=self.source.only(kept, self.flag) if isinstance(self.source, Mix) else kept,
            damaged=found.damaged,
            left_out=found.left_out(self.flag),
            good_records=found.records.get(self.flag),
        )

    def identity(self) -> dict[str, Any]:
        """What decides the order of rows, except the values that `find_position` adds itself."""
        identity: dict[str, Any] = {}
        if self.spec.filter:
            identity["filter"] = list(self.spec.filter)
        if self.negatives is not None:
            identity["keep_negatives"] = [self.negatives.label, self.negatives.share, BY_NAME]
        if isinstance(self.source, OwnRows):
            identity.update(self.source.identity())
        if self.config.data_service is not None:
            identity["data_service"] = True  # The service reads rows in another order.
        if isinstance(self.source, Mix):
            identity["mix"] = [
                (list(file_systems.canonical_of(part.files).values()), part.share)
                for part in self.source.parts
            ]
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
        selection = Selection(
            self.spec, negatives=self.negatives, seed=self.config.seed, of=self.files
        )
        if isinstance(self.source, OwnRows):
            more_than = skip_rows if epochs is None else None
            counts = [own_input.count(self.source, selection, self.team.shard, more_than)]
            if selection.any and epochs is not None:
                log_kept(self.flag, counts)
            return counts
        known = self.good_records
        whole = self.team.size == 1 and not isinstance(self.source, Mix)
        if known is not None and not selection.any and whole:
            return [RowCounts(known, (known,))]
        parts: list[Sequence[str]] = [self.files]
        skips = [skip_rows]
        if isinstance(self.source, Mix):
            parts = [part.files for part in self.source.parts]
            skips = self.source.skips(skip_rows)[0]
        _log.info("counting the rows of %d training files", len(self.files))
        counts = []
        for paths, skip in zip(parts, skips):
            whole_files = self.spec.kept_together is not None
            own, shard = self.team.shard.deal(paths, self.sizes, whole=whole_files)
            found = selection.count_until(
                own, shard, rows=skip, epochs=epochs or 1, damaged=self.damaged
            )
            check_kept(found, self.flag, paths)
            counts.append(found)
        if self.must_be_counted:
            log_kept(self.flag, counts, first_epoch=self.negatives is not None)
        if isinstance(self.source, Mix):
            log_shares(self.flag, self.source, counts)
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
            counts = self.count(epochs=self.config.epochs, skip_rows=skip_rows)
        return self._input_fn(skip_rows, counts, cache)

    def _input_fn(
        self,
        skip_rows: int,
        counts: Optional[Sequence[RowCounts]],
        cache: Optional[RowCache],
    ) -> input_fns.InputFn:
        rows: Any = None
        if self.config.data_service is not None:
            return data_service.input_fn(
                self.config,
                self.spec,
                self.files,
                skip_rows=skip_rows,
                counts=counts,
                negatives=self.negatives,
            )
        if counts is not None:
            each = [part.rows_an_epoch for part in counts]
            rows = each if isinstance(self.source, Mix) else each[0]
        team = self.team
        epochs = None if team.ends_together and not team.pads else self.config.epochs
        if epochs is not None and counts is not None and (team.size > 1 or team.pads):
            # Other shards may have more rows, so the step may be beyond the end of this shard.
            skip_rows = min(skip_rows, sum(c.in_epochs(epochs) for c in counts))
        return input_fns.train_input_fn(
            self.spec,
            self.source,
            batch_size=self.config.batch_size,
            seed=self.config.seed,
            shuffle=self.config.shuffle,
            epochs=epochs,
            shard=self.team.shard,
            skip_rows=skip_rows,
            rows_an_epoch=rows,
            negatives=self.negatives,
            damaged=self.damaged,
            cache=cache,
            sizes=self.sizes,
            pad=team.pads,
        )


def _too_few(team: Team, files_left: int, kept_together: str) -> str:
    return (
        f"expected at least {team.size} files, one for each task that trains, got {files_left}. "
        "Otherwise tasks share a file record by record, but the head ranking needs the rows of one "
        f"{kept_together!r} together. Write the data to more files."
    )


def _stamps(paths: Sequence[str]) -> dict[str, tuple[int, int]]:
    found = ((path, tf.io.gfile.stat(path)) for path in paths)
    return {path: (one.length, one.mtime_nsec) for path, one in found}
