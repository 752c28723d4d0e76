"""Decides which rows go into which shard before any shard is written.

The bytes of a row are estimated from the first rows at up to 16 places. The estimate decides the
number of shards. In stable order, a shard is a run of rows (with a split, only the rows on its
side). With a split by time, whole runs may be on one side, so the rows of each side are counted.
CSV and JSON lines can only be read from their start. So their shards are cut inside runs of whole
files, and each run is read once. A run of Parquet files may be cut anywhere. In shuffled order,
`split.places` decides the shard of a row. A plan depends only on the files and the options, so a
conversion that is started again makes the same plan.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import ClassVar, Optional

import numpy as np
import pydantic

from feature_specs import meaning
from feature_specs.files import documents, file_systems, jobs
from feature_specs.files.jobs import File
from feature_specs.files.shards import Written
from feature_specs.spec import FeatureSpec
from input_pipelines import own_code
from input_pipelines.errors import DataError
from input_pipelines.prepare.convert import derived_labels
from input_pipelines.prepare.convert.encoding import Encoder
from input_pipelines.prepare.convert.fields import Field
from input_pipelines.prepare.convert.options import SIDES, ConvertOptions
from input_pipelines.prepare.tables.reader import Table
from input_pipelines.prepare.tables.table_format import Part
from input_pipelines.record_files.framing import FOOTER, HEADER

_VERSION = 1
# The aspects and sections of a spec that change records, or how their values are checked.
READ = (meaning.CONVERSION.aspects, ("features", "labels"))
_SAMPLES = 16
_SAMPLE_ROWS = 1024
_MIB = 2**20


class Feature(documents.Part):
    """A feature of the records; `text` is the form of times, see `text_types`."""

    dtype: str
    list: bool
    feature_list: bool
    text: Optional[str] = None


class _Conversion(jobs.Plan):
    """What the plan and the manifest have in common."""

    noun = "conversion"
    called: ClassVar[Mapping[str, str]] = {
        "version": "the form of the plan",
        "record": "the kind of record",
        "spec": "the feature spec",
        "files": "the files that are converted",
        "csv": "how CSV is written",
        "options": "the flags",
        "features": "the features",
        "shards": "the shards",
    }

    record: str
    spec: Optional[str]
    files: list[File]
    csv: dict[str, pydantic.JsonValue]
    options: dict[str, pydantic.JsonValue]
    features: dict[str, Feature]

    @property
    def paths(self) -> list[str]:
        return [file.path for file in self.files]


class WrittenShard(Written):
    """A finished shard of a part: `data`, `train`, `eval` or `test`."""

    part: str


class ManifestDocument(_Conversion):
    """`_MANIFEST.json` of a conversion. The shards are in the order of the plan."""

    shards: list[WrittenShard]
    rows: int


class PlanDocument(_Conversion):
    """`_PLAN.json` of a conversion. A shard has a name and its rows, [start, stop)."""

    shards: list[tuple[str, int, int]]

    @property
    def names(self) -> list[str]:
        return [name for name, _, _ in self.shards]

    def manifest(
        self, parts: Mapping[str, str], written: Mapping[str, Written]
    ) -> ManifestDocument:
        """The manifest, when all shards are written; `parts` is by shard."""
        same = {name: getattr(self, name) for name in _Conversion.model_fields}
        same["files"] = [
            File(path=f.path, rows=f.rows, bytes=(f.stamp or [0])[0]) for f in self.files
        ]
        return ManifestDocument(
            **same,
            shards=[WrittenShard(**{**dict(written[n]), "part": parts[n]}) for n in self.names],
            rows=sum(shard.rows for shard in written.values()),
        )


@dataclasses.dataclass(frozen=True)
class Shard:
    """One file to write.

    Attributes:
      name: the name of the file.
      number: its number among all shards, from 0.
      part: `data`, `train`, `eval` or `test`.
      start, stop: in stable order, its rows, counted over all files.
      run: shards with the same run are written together, while their rows are read once.
    """

    name: str
    number: int
    part: str
    start: int
    stop: int
    run: int


@dataclasses.dataclass(frozen=True)
class Plan:
    """What a conversion will do.

    Attributes:
      table: the rows.
      row_groups: the result of `Table.row_groups` for each file.
      fields: the features of the records.
      options: what the user decided.
      spec: the feature spec, if there is one.
      shards: all files to write.
      reads: in shuffled order, the runs of rows [start, stop) that are read together.
      size: the approximate size of all records in bytes, before compression.
    """

    table: Table
    row_groups: Mapping[str, Sequence[int]]
    fields: tuple[Field, ...]
    options: ConvertOptions
    spec: Optional[FeatureSpec]
    shards: tuple[Shard, ...]
    reads: tuple[tuple[int, int], ...]
    size: float

    @property
    def rows(self) -> int:
        return sum(map(sum, self.row_groups.values()))

    @property
    def kind(self) -> str:
        lists = any(field.feature_list for field in self.fields)
        return "SequenceExample" if lists else "Example"

    def parts_of(self, start: int, stop: int) -> list[tuple[Part, int]]:
        """The parts to read for the rows [start, stop), each with the number of its first row."""
        parts = []
        before = 0
        for path in self.table.files:
            groups = self.row_groups[path]
            count = sum(groups)
            first, last = max(start - before, 0), min(stop - before, count)
            if first < last:
                part = self.table.rows_of(path, first, last, groups)
                parts.append((part, before + first))
            before += count
        return parts

    def document(self) -> PlanDocument:
        """The plan as a file. Two conversions with the same document write the same bytes."""
        rows = {path: sum(counts) for path, counts in self.row_groups.items()}
        shards = [(s.name, s.start, s.stop) for s in self.shards]
        return document(self.kind, self.spec, self.table, rows, self.options, self.fields, shards)


def document(
    kind: str,
    spec: Optional[FeatureSpec],
    table: Table,
    rows: Mapping[str, int],
    options: ConvertOptions,
    fields: Sequence[Field],
    shards: list[tuple[str, int, int]],
) -> PlanDocument:
    """A plan as a file; `rows` is by file."""
    # Earlier versions wrote other texts of times, so their shards and new ones do not go together.
    times = {column.name: column.form for column in table.columns if column.form}
    return PlanDocument(
        version=_VERSION,
        code=own_code.of_reading(),
        record=kind,
        spec=None if spec is None else spec.fingerprint(*READ),
        files=[File(path=p, rows=rows[p], stamp=file_systems.stamp(p)) for p in table.files],
        csv=table.csv.document(),
        options=options.document(),
        features={
            field.name: Feature(
                dtype=field.dtype,
                list=field.multi,
                feature_list=field.feature_list,
                **({"text": times[field.name]} if field.name in times else {}),
            )
            for field in fields
        },
        shards=shards,
    )


def make(
    table: Table,
    fields: tuple[Field, ...],
    options: ConvertOptions,
    spec: Optional[FeatureSpec],
    sides: Optional[np.ndarray] = None,
) -> Plan:
    """The plan of a conversion. The table must have at least one row.

    Args:
      table, fields, options, spec: see `Plan`.
      sides: int8 [rows], with a split by time: the side of each row, as `split.sides` returns it.

    Raises:
      DataError: a row of the sample cannot be stored.
    """
    row_groups = {path: table.row_groups(path) for path in table.files}
    counts = [sum(row_groups[path]) for path in table.files]
    bytes_a_row = _bytes_a_row(table, row_groups, fields, options)
    rows_of_a_shard = options.shard_mib * _MIB / bytes_a_row
    cut_anywhere = table.cut_anywhere
    shards: list[Shard] = []
    run = 0
    for part, share in options.shares.items():
        rows = rows_of_a_shard / share
        ranges: list[tuple[int, int, int]] = []
        if options.order == "shuffled":
            shards_of_part = max(1, round(sum(counts) / rows))
            ranges = [(0, sum(counts), run)] * shards_of_part
        else:
            if sides is None:
                runs = [cut(*each, rows) for each in _runs(counts, rows, cut_anywhere)]
            else:
                side = sides == SIDES.index(part)
                runs = _runs_of_side(counts, side, rows_of_a_shard, cut_anywhere)
            for pieces in runs:
                for first, last in pieces:
                    ranges.append((first, last, run))
                    run += cut_anywhere
                run += not cut_anywhere
        for i, (start, stop, its_run) in enumerate(ranges):
            name = f"{part}-{i:05}-of-{len(ranges):05}{options.suffix}"
            shards.append(Shard(name, len(shards), part, start, stop, its_run))
    reads: list[tuple[int, int]] = []
    if options.order == "shuffled":
        reads = _runs(counts, rows_of_a_shard, cut_anywhere)
        if cut_anywhere:
            reads = [piece for start, stop in reads for piece in cut(start, stop, rows_of_a_shard)]
    size = bytes_a_row * sum(counts)
    return Plan(table, row_groups, fields, options, spec, tuple(shards), tuple(reads), size)


def _runs(counts: Sequence[int], least: float, as_one: bool) -> list[tuple[int, int]]:
    """Runs of whole files with `least` rows or more, as [start, stop) over all rows."""
    if as_one:
        return [(0, sum(counts))]
    runs: list[tuple[int, int]] = []
    start = stop = 0
    for count in counts:
        stop += count
        if stop - start >= least:
            runs.append((start, stop))
            start = stop
    if stop > start:
        if runs and stop - start < least / 2:  # No small shard at the end.
            start = runs.pop()[0]
        runs.append((start, stop))
    return runs


def _runs_of_side(
    counts: Sequence[int], side: np.ndarray, rows: float, as_one: bool
) -> list[list[tuple[int, int]]]:
    """The runs of one side, each cut into pieces with about `rows` rows of that side.

    Together, the pieces [start, stop) have all rows. `side` says which rows are on the side.
    """
    ends = np.cumsum(counts)
    if len(side) != ends[-1]:
        raise DataError(
            f"{ends[-1]:,} rows were counted, but {len(side):,} were read. Check whether a file "
            "was changed during the conversion"
        )
    before = np.concatenate([[0], np.cumsum(side)])  # The rows on the side before each row.
    in_files = np.diff(before[ends], prepend=0).tolist()
    stops = [stop for _, stop in _runs(in_files, rows, as_one)]
    # A run ends with the file of its last row on this side, and the last run with the last file.
    bounds = [
        0,
        *(int(ends[np.searchsorted(before[ends], stop)]) for stop in stops[:-1]),
        len(side),
    ]
    runs = []
    for start, stop in zip(bounds, bounds[1:]):
        pieces = cut(int(before[start]), int(before[stop]), rows)
        cuts = [int(np.searchsorted(before, last)) for _, last in pieces[:-1]]
        runs.append(list(zip([start, *cuts], [*cuts, stop])))
    return runs


def cut(start: int, stop: int, rows: float) -> list[tuple[int, int]]:
    """Cuts [start, stop) into pieces of about `rows` rows. Their sizes differ by at most one."""
    pieces = max(1, round((stop - start) / rows))
    pieces = min(pieces, stop - start)
    ends = [start + (stop - start) * i // pieces for i in range(pieces + 1)]
    return list(zip(ends, ends[1:]))


def _bytes_a_row(
    table: Table,
    row_groups: Mapping[str, Sequence[int]],
    fields: Sequence[Field],
    options: ConvertOptions,
) -> float:
    """The mean bytes of a record without compression, from the first rows at some places."""
    places_to_read = []
    for path in table.files:
        start = 0
        for count in row_groups[path]:
            if count:
                places_to_read.append((path, start, min(count, _SAMPLE_ROWS)))
            start += count
    step = max(len(places_to_read) / _SAMPLES, 1.0)
    chosen = [places_to_read[int(i * step)] for i in range(min(_SAMPLES, len(places_to_read)))]
    encoder = Encoder(fields)
    size = rows = 0
    for path, start, count in chosen:
        part = table.rows_of(path, start, start + count, row_groups[path])
        for block in derived_labels.read(part, options.derived_labels):
            records = encoder.encode(block.batch)
            size += records.nbytes + (HEADER + FOOTER - 4) * len(records)  # An offset has 4 bytes.
            rows += len(records)
    return max(size / max(rows, 1), 1.0)
