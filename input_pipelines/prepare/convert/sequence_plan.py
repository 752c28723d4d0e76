"""Which sequences go into which shard, and the sequences of a shard as record batches.

`sequences` makes a plan and writes it. Histories stay in the order of `histories_and_windows`, or
are shuffled by `split`, as the rows of other conversions are.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, Optional

import numpy as np

from feature_specs.spec import FeatureSpec
from input_pipelines.errors import DataError
from input_pipelines.prepare.convert import histories_and_windows, plan, split
from input_pipelines.prepare.convert.encoding import Encoder
from input_pipelines.prepare.convert.fields import Field
from input_pipelines.prepare.convert.histories_and_windows import Histories, Windows
from input_pipelines.prepare.convert.options import SIDES, ConvertOptions, SequenceOptions
from input_pipelines.prepare.tables.library import arrow
from input_pipelines.prepare.tables.reader import Table
from input_pipelines.record_files.framing import FOOTER, HEADER

# A batch has about this many steps.
_STEPS = 2**17
_SAMPLE = 1024
_MIB = 2**20


@dataclasses.dataclass(frozen=True)
class Shard:
    """One file to write: the records [start, stop) of its part."""

    name: str
    part: str
    start: int
    stop: int


@dataclasses.dataclass(frozen=True)
class Records:
    """A batch of sequences; `where` names a record in errors, as `reader.Rows` does."""

    batch: Any
    history: np.ndarray
    log: Histories
    by: str

    def where(self, i: int) -> str:
        """The name of record `i` of the batch in error messages."""
        return f"{self.by} {self.log.key(int(self.history[i]))}"


@dataclasses.dataclass(frozen=True)
class SequencePlan:
    """What a conversion will do.

    Attributes:
      table: the files of the log.
      log: its rows.
      fields: the features of the records.
      options: what the user decided.
      spec: the feature spec, if there is one.
      parts: the records of each part, in their order.
      shards: all files to write.
    """

    table: Table
    log: Histories
    fields: tuple[Field, ...]
    options: ConvertOptions
    spec: Optional[FeatureSpec]
    parts: Mapping[str, Windows]
    shards: tuple[Shard, ...]

    @property
    def sequences(self) -> SequenceOptions:
        assert self.options.sequences is not None
        return self.options.sequences

    @property
    def kind(self) -> str:
        lists = any(field.feature_list for field in self.fields)
        return "SequenceExample" if lists else "Example"

    def records(self, shard: Shard) -> Iterator[Records]:
        """The records of a shard, in batches of about the same size."""
        part = self.parts[shard.part]
        ends = np.cumsum(part.length[shard.start : shard.stop])
        cuts = np.flatnonzero(np.diff(ends // _STEPS)) + 1
        for places_of in np.split(np.arange(shard.start, shard.stop), cuts):
            if len(places_of):
                yield records_of(self.log, part.take(places_of), self.sequences)

    def document(self) -> plan.PlanDocument:
        """The plan as a file. Two conversions with the same document write the same bytes."""
        rows = {path: sum(self.table.row_groups(path)) for path in self.table.files}
        shards = [(s.name, s.start, s.stop) for s in self.shards]
        return plan.document(
            self.kind, self.spec, self.table, rows, self.options, self.fields, shards
        )


def view_of(table: Table, options: SequenceOptions) -> Table:
    """The table of the records: with the columns in `options.features`."""
    columns = {column.name: column for column in table.columns}
    lists = [dataclasses.replace(columns[name], multi=True) for name in options.columns]
    target = dataclasses.replace(lists[0], name=options.target, note="")
    view = (columns[options.by], *lists, target)
    return dataclasses.replace(table, columns=view)


def records_of(log: Histories, part: Windows, options: SequenceOptions) -> Records:
    """The records of some windows, with the features in `options.features`."""
    pa = arrow()
    ends = np.cumsum(part.length)
    offsets = pa.array(np.concatenate([[0], ends]).astype(np.int32))
    # The number of each step, counted over all windows, minus the first one of its window.
    inside = np.arange(int(ends[-1])) - np.repeat(ends - part.length, part.length)
    rows = np.repeat(part.start, part.length) + inside

    def lists(name: str, places_of: np.ndarray) -> Any:
        return pa.ListArray.from_arrays(
            offsets, _plain(log.columns[name].take(pa.array(places_of)))
        )

    arrays = [_plain(log.keys.take(pa.array(part.history)))]
    arrays += [lists(name, rows) for name in options.columns]
    arrays.append(lists(options.columns[0], rows + 1))
    batch = pa.RecordBatch.from_arrays(arrays, names=list(options.features))
    return Records(batch, part.history, log, options.by)


def _plain(column: Any) -> Any:
    """The values of a column, without a dictionary."""
    return column.dictionary_decode() if arrow().types.is_dictionary(column.type) else column


def make(
    table: Table,
    log: Histories,
    fields: tuple[Field, ...],
    options: ConvertOptions,
    spec: Optional[FeatureSpec],
) -> SequencePlan:
    """The plan of a conversion.

    Raises:
      DataError: no history has two rows.
    """
    how = options.sequences
    assert how is not None
    parts = _sides(histories_and_windows.parts(log.starts, how), log, options)
    if not any(map(len, parts.values())):
        raise DataError(
            f"{table.files[0]}: every {how.by} has only 1 row, so no row has a next one. Check "
            "--sequence_by, or give more files"
        )
    if options.order == "shuffled":
        parts = {
            part: windows.take(np.argsort(split.random_numbers(0, len(windows), options.seed)))
            for part, windows in parts.items()
        }
    shards: list[Shard] = []
    for part, windows in parts.items():
        most = options.shard_mib * _MIB / _bytes_a_record(log, windows, fields, how)
        ranges = plan.cut(0, len(windows), most) if len(windows) else [(0, 0)]
        for i, (start, stop) in enumerate(ranges):
            name = f"{part}-{i:05}-of-{len(ranges):05}{options.suffix}"
            shards.append(Shard(name, part, start, stop))
    return SequencePlan(table, log, fields, options, spec, parts, tuple(shards))


def _sides(
    parts: Mapping[str, Windows], log: Histories, options: ConvertOptions
) -> dict[str, Windows]:
    """The parts, split by --split. All records of a history are on the same side."""
    if options.split_key is None:
        return dict(parts)
    sides = split.of_keys(log.keys, options)
    (windows,) = parts.values()
    of_windows = sides[windows.history]
    return {
        part: windows.take(np.flatnonzero(of_windows == SIDES.index(part)))
        for part in options.shares
    }


def _bytes_a_record(
    log: Histories, part: Windows, fields: tuple[Field, ...], options: SequenceOptions
) -> float:
    """The mean bytes of a record without compression, from records at equal distances."""
    if not len(part):
        return 1.0
    chosen = np.unique(np.linspace(0, len(part) - 1, _SAMPLE).astype(np.int64))
    size = 0
    encoder = Encoder(fields)
    for i in range(0, len(chosen), 16):  # Histories may be long.
        records = encoder.encode(records_of(log, part.take(chosen[i : i + 16]), options).batch)
        size += records.nbytes + (HEADER + FOOTER - 4) * len(records)  # An offset has 4 bytes.
    return size / len(chosen)
