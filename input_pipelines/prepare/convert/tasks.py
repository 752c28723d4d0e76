"""The tasks of a conversion. Each process does one task at a time.

    WriteTask       stable order: reads a run of rows once and writes its shards
    SpillTask       shuffled order: reads a run of rows and distributes them over the shards
    MergeTask       shuffled order: sorts the rows of one shard and writes it

Tasks do not depend on each other or on processes. A WriteTask needs memory for a batch, a SpillTask
some tens of MiB, and a MergeTask about the size of one shard.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any, Optional, Union

import numpy as np

from feature_specs.files import documents
from feature_specs.files.shards import ShardFile, Written
from feature_specs.sections.records import Condition
from input_pipelines.errors import DataError
from input_pipelines.prepare.convert import batch_checks, derived_labels, spills, split
from input_pipelines.prepare.convert.encoding import Encoder
from input_pipelines.prepare.convert.fields import Field
from input_pipelines.prepare.convert.options import SIDES, ConvertOptions
from input_pipelines.prepare.convert.plan import Plan, Shard
from input_pipelines.prepare.tables.library import arrow
from input_pipelines.prepare.tables.reader import Rows
from input_pipelines.prepare.tables.storable import Rounded
from input_pipelines.prepare.tables.table_format import Part
from input_pipelines.record_files.framing import frames

Advance = Callable[[int], None]

# A batch is encoded in pieces of about this many bytes, because Arrow's offsets end at 2 GiB.
_PIECE = 64 * 2**20


@dataclasses.dataclass(frozen=True)
class Context:
    """The data that all tasks of a conversion share; see `context_of`.

    Attributes:
      folder, temporary: the folder of finished shards, and the folder of unfinished ones.
      fields: the features of the records.
      options: what the user decided.
      spec_source: the name of the spec with which values are checked; empty without a spec.
      filters: the spec's filter. Rows that it drops are not checked.
      dealt: in shuffled order, for each part the number of its first shard and of its shards.
      wanted: in shuffled order, the numbers of the shards to write.
      spills: in shuffled order, the number of spills.
    """

    folder: str
    temporary: str
    fields: tuple[Field, ...]
    options: ConvertOptions
    spec_source: str
    dealt: dict[str, tuple[int, int]]
    wanted: tuple[int, ...]
    spills: int
    filters: tuple[Condition, ...] = ()


@dataclasses.dataclass(frozen=True)
class WriteTask:
    """Shards that are written while some rows are read once.

    `counts_rounded` is true in only one part, so that rounded values are counted once.
    """

    reads: tuple[tuple[Part, int], ...]
    rows: int
    shards: tuple[Shard, ...]
    counts_rounded: bool


@dataclasses.dataclass(frozen=True)
class SpillTask:
    """Rows that are written to the spill with this name."""

    name: str
    reads: tuple[tuple[Part, int], ...]
    rows: int


@dataclasses.dataclass(frozen=True)
class MergeTask:
    """A shard to write. Its rows are in the spills."""

    shard: Shard


Task = Union[WriteTask, SpillTask, MergeTask]


class Done(documents.Document):
    """The result of a task: its finished shards, and the counts of `Rounded`."""

    shards: tuple[Written, ...] = ()
    rounded: tuple[tuple[str, str, int], ...] = ()


def context_of(plan: Plan, missing: Sequence[Shard], folder: str, temporary: str) -> Context:
    """The context of the tasks that write the missing shards."""
    by_part: dict[str, list[int]] = {}
    wanted: tuple[int, ...] = ()
    if plan.options.order == "shuffled":
        for shard in plan.shards:
            by_part.setdefault(shard.part, []).append(shard.number)
        wanted = tuple(shard.number for shard in missing)
    return Context(
        folder,
        temporary,
        plan.fields,
        plan.options,
        spec_source=plan.spec.source if plan.spec is not None else "",
        dealt={part: (numbers[0], len(numbers)) for part, numbers in by_part.items()},
        wanted=wanted,
        spills=len(plan.reads),
        filters=plan.spec.conditions if plan.spec is not None else (),
    )


def of_plan(plan: Plan, missing: Sequence[Shard], context: Context) -> Iterator[list[Task]]:
    """The tasks that write the missing shards, in stages: finish each list before the next one."""
    if plan.options.order == "stable":
        yield _write_tasks(plan, missing)
        return
    yield [
        SpillTask(name, tuple(plan.parts_of(start, stop)), stop - start)
        for name, (start, stop) in zip(spills.names(context.spills), plan.reads)
        if not spills.is_whole(context.temporary, name, context.wanted)
    ]
    yield [MergeTask(shard) for shard in missing]


def _write_tasks(plan: Plan, missing: Sequence[Shard]) -> list[Task]:
    runs: dict[int, list[Shard]] = {}
    for shard in missing:
        runs.setdefault(shard.run, []).append(shard)
    tasks: list[Task] = []
    first_part = plan.shards[0].part
    for shards in runs.values():
        start, stop = shards[0].start, shards[-1].stop
        reads = tuple(plan.parts_of(start, stop))
        tasks.append(WriteTask(reads, stop - start, tuple(shards), shards[0].part == first_part))
    return tasks


def perform(task: Task, context: Context, advance: Advance) -> Done:
    """Does one task.

    Args:
      task: what to do.
      context: the context of the conversion.
      advance: called with the number of rows after each batch. It may raise an error to stop.

    Raises:
      DataError: a row cannot be converted.
      OSError: a file cannot be written.
    """
    if isinstance(task, WriteTask):
        return _write(task, context, advance)
    if isinstance(task, SpillTask):
        return _spill(task, context, advance)
    return _merge(task, context, advance)


def _read(
    task: Union[WriteTask, SpillTask], context: Context, rounded: Rounded
) -> Iterator[tuple[int, Rows]]:
    """The batches of a task, each with the number of its first row."""
    count = 0
    for part, first in task.reads:
        for rows in derived_labels.read(part, context.options.derived_labels, rounded):
            if context.spec_source:
                batch_checks.check(
                    rows, context.fields, context.spec_source, filters=context.filters
                )
            yield first, rows
            first += rows.batch.num_rows
            count += rows.batch.num_rows
    if count != task.rows:
        paths = ", ".join(dict.fromkeys(part.path for part, _ in task.reads))
        raise DataError(
            f"{paths}: {task.rows:,} rows were counted, but {count:,} were read. Check whether the "
            "file was changed during the conversion"
        )


def _encoded(
    encoder: Encoder, batch: Any, path: str
) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
    """The frames of a batch, in pieces: the rows, their bytes, and where each frame begins.

    Raises:
      DataError: a record is too large; the message names its file.
    """
    pieces = max(1, -(-batch.nbytes // _PIECE))
    size = max(1, -(-batch.num_rows // pieces))
    for start in range(0, batch.num_rows, size):
        rows = slice(start, min(start + size, batch.num_rows))
        try:
            data, at = frames(encoder.encode(batch.slice(start, size)))
        except DataError as error:
            raise DataError(f"{path}: {error}") from error
        yield rows, data, at


def _write(task: WriteTask, context: Context, advance: Advance) -> Done:
    encoder = Encoder(context.fields)
    rounded: Rounded = Counter()
    written: list[Written] = []
    waiting = list(task.shards)
    with ExitStack() as stack:
        file: Optional[ShardFile] = None
        for first, rows in _read(task, context, rounded):
            mask = _mask(rows, first, context, task.shards[0].part)
            last = first + rows.batch.num_rows
            while waiting and waiting[0].start < last:
                shard = waiting[0]
                if file is None:
                    shard_file = ShardFile(context.folder, shard.name, context.temporary)
                    file = stack.enter_context(shard_file)
                start, stop = max(shard.start, first) - first, min(shard.stop, last) - first
                batch = rows.batch.slice(start, stop - start)
                if mask is not None:
                    batch = batch.filter(arrow().array(mask[start:stop]))
                for which, data, _ in _encoded(encoder, batch, rows.path):
                    file.write(data, which.stop - which.start)
                if shard.stop > last:
                    break
                stack.close()
                written.append(file.written)
                file = None
                waiting.pop(0)
            advance(rows.batch.num_rows)
    return Done(shards=tuple(written), rounded=_counts(rounded) if task.counts_rounded else ())


def _counts(rounded: Rounded) -> tuple[tuple[str, str, int], ...]:
    return tuple((name, what, count) for (name, what), count in rounded.items())


def _mask(rows: Rows, first: int, context: Context, part: str) -> Optional[np.ndarray]:
    """Which rows of a batch belong to a part; None if all do. `first` is the batch's first row."""
    sides = split.sides(rows, first, context.options)
    return None if sides is None else sides == SIDES.index(part)


def _spill(task: SpillTask, context: Context, advance: Advance) -> Done:
    encoder = Encoder(context.fields)
    rounded: Rounded = Counter()
    with spills.SpillWriter(context.temporary, task.name, context.wanted) as spill:
        for first, rows in _read(task, context, rounded):
            count = rows.batch.num_rows
            numbers = split.random_numbers(first, count, context.options.seed)
            shards = np.full(count, -1, np.int64)
            for part, (first_shard, how_many) in context.dealt.items():
                mask = _mask(rows, first, context, part)
                dealt = split.shards_of(numbers, how_many) + first_shard
                shards = dealt if mask is None else np.where(mask, dealt, shards)
            keep = spill.wanted(shards)
            batch = rows.batch
            if not keep.all():
                batch = batch.filter(arrow().array(keep))
                shards, numbers = shards[keep], numbers[keep]
            keys = split.places(numbers)
            for which, data, at in _encoded(encoder, batch, rows.path):
                spill.add(shards[which], keys[which], data, at)
            advance(count)
    return Done(rounded=_counts(rounded))


def _merge(task: MergeTask, context: Context, advance: Advance) -> Done:
    names = spills.names(context.spills)
    with ShardFile(context.folder, task.shard.name, context.temporary) as file:
        for data, rows in spills.shuffled(context.temporary, names, task.shard.number):
            file.write(data, rows)
            advance(0)
    return Done(shards=(file.written,))
