"""A conversion of a plain log into sequences: `--mode=convert --sequence_by=user_id`.

    result = sequences.convert(["log.csv"], directory="out", options=options, spec=None)
    print(result.text())

One row of a log is one event. `histories_and_windows` groups the rows by a key, sorts them by time
and decides which rows become which record. This module writes the records:

    user_id: "ann"   item_id: [a, b, c]   category: [x, y, x]   next_item_id: [b, c, d]

The log is in memory (see `histories_and_windows`), and one process writes all shards. As in a
conversion of rows, the shards depend only on the files and the options, and a conversion that is
started again writes the missing shards.
"""

from __future__ import annotations

import dataclasses
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Optional

import numpy as np

from feature_specs.errors import counted
from feature_specs.files import jobs
from feature_specs.files.shards import ShardFile, Written
from feature_specs.spec import FeatureSpec
from input_pipelines.prepare.convert import (
    batch_checks,
    derived_labels,
    histories_and_windows,
    sequence_plan,
)
from input_pipelines.prepare.convert import fields as field_rules
from input_pipelines.prepare.convert.encoding import Encoder
from input_pipelines.prepare.convert.histories_and_windows import HELD_OUT
from input_pipelines.prepare.convert.options import ConvertOptions
from input_pipelines.prepare.convert.plan import PlanDocument
from input_pipelines.prepare.convert.sequence_plan import SequencePlan
from input_pipelines.prepare.convert.value_checks import (
    check_column,
    check_key,
    check_rows,
    kind_of_tables,
)
from input_pipelines.prepare.tables import reader
from input_pipelines.prepare.tables.options import CsvOptions
from input_pipelines.prepare.tables.storable import Rounded
from input_pipelines.record_files.framing import frames

# Called with the rows read since the last call, the number of finished shards, and of all shards.
OnProgress = Callable[[int, int, int], None]


@dataclasses.dataclass(frozen=True)
class SequenceResult:
    """What a conversion did; see `conversion.Result`."""

    plan: SequencePlan
    folder: str
    shards: dict[str, Written]
    new: int
    notes: tuple[str, ...]
    already_done: bool = False

    def rows_of_parts(self) -> dict[str, int]:
        """The records of each part, such as `train`."""
        rows = dict.fromkeys(self.plan.parts, 0)
        for shard in self.plan.shards:
            rows[shard.part] += self.shards[shard.name].rows
        return rows

    def text(self) -> str:
        """The report for the user."""
        plan, options = self.plan, self.plan.sequences
        sizes = plan.log.sizes
        lines = [
            f"{self.folder}: {counted(sum(w.rows for w in self.shards.values()), plan.kind)} of "
            f"{counted(len(plan.fields), 'feature')} from {counted(int(sizes.sum()), 'row')} of "
            f"{counted(len(plan.table.files), 'file')}, {counted(len(sizes), 'value')} of "
            f"{options.by}"
        ]
        for part, windows in plan.parts.items():
            written = [self.shards[shard.name] for shard in plan.shards if shard.part == part]
            size = sum(w.bytes for w in written) / 2**20
            lines.append(
                f"  {os.path.join(self.folder, part)}-*: {counted(len(windows), 'record')} with "
                f"{counted(windows.targets, 'target')} in {counted(len(written), 'shard')}, "
                f"{size:,.1f} MiB"
            )
            if not len(windows):
                lines.append(f"  warning: no history is long enough for {part}")
        lines += [f"  {line}" for line in _short(sizes, plan)]
        if self.new < len(self.shards):
            lines.append(f"  {counted(len(self.shards) - self.new, 'shard')} existed already")
        if plan.table.left_out:
            names = ", ".join(plan.table.left_out)
            lines.append(f"  left out because no flag names them: {names}")
        return "\n".join([*lines, *(f"  note: {note}" for note in self.notes)])


def _short(sizes: np.ndarray, plan: SequencePlan) -> Iterator[str]:
    """Lines about histories that are too short."""
    of_size = np.bincount(np.minimum(sizes, HELD_OUT + 1), minlength=HELD_OUT + 2)
    one, two, three = (
        f"{counted(int(of_size[rows]), 'value')} of {plan.sequences.by}" for rows in (1, 2, 3)
    )
    if of_size[1]:
        yield f"left out: {one} with only 1 row, which has no next item"
    if plan.sequences.targets == "next":
        return
    if of_size[2]:
        yield f"only in train: {two} with only 2 rows, because eval and test need 3"
    if of_size[3]:
        yield f"only in eval and test: {three} with only 3 rows, which leave no target for train"


def convert(
    files: Sequence[str],
    *,
    directory: str,
    options: ConvertOptions,
    spec: Optional[FeatureSpec] = None,
    csv: CsvOptions = CsvOptions(),
    on_progress: OnProgress = lambda rows, done, shards: None,
) -> SequenceResult:
    """Converts a log into a folder of TFRecord shards with sequences.

    Args:
      files: CSV, JSON lines or Parquet files, all of one kind. Rows may be in any order.
      directory: the output folder. It must be new or empty, or come from an earlier start of the
        same conversion.
      options: how rows become sequences, and these become shards. Needs `sequences`.
      spec: describes the features, which are the names in `options.sequences.features`. Without a
        spec, the log decides their types.
      csv: how CSV files are written.
      on_progress: see `OnProgress`.

    Raises:
      DataError: the files cannot be read or do not fit the spec, a row lacks a value, or no history
        has two rows. Shards that were already finished are kept.
      FolderError: the folder contains something else. Nothing was changed.
      OSError: a file cannot be written.
      MissingPackageError: pyarrow is not installed.
    """
    jobs.check_new(directory, PlanDocument.noun)
    plan, notes = _planned(files, options, spec, csv, lambda rows: on_progress(rows, 0, 0))
    output = jobs.Job(directory, plan.document())
    output.check()
    with output.held():
        written = output.begin()
        missing = [shard for shard in plan.shards if shard.name not in written]
        if not missing and output.is_finished:
            return SequenceResult(plan, output.folder, written, 0, notes, already_done=True)
        for shard in missing:
            written[shard.name] = _write(shard, plan, output)
            on_progress(0, len(written), len(plan.shards))
        parts = {shard.name: shard.part for shard in plan.shards}
        output.finish(output.plan.manifest(parts, written))
    return SequenceResult(plan, output.folder, written, len(missing), notes)


def _planned(
    files: Sequence[str],
    options: ConvertOptions,
    spec: Optional[FeatureSpec],
    csv: CsvOptions,
    on_rows: Callable[[int], None],
) -> tuple[SequencePlan, tuple[str, ...]]:
    """Reads the log, and decides what to write."""
    kind_of_tables(files)
    how = options.sequences
    assert how is not None
    dtypes = None if spec is None else field_rules.dtypes_of(spec)
    if dtypes is not None and how.order_by not in (how.by, *how.columns):
        dtypes.pop(how.order_by, None)  # Only its order matters.
    names = {*how.read, *options.columns_read}
    table = reader.open_table(files, csv=csv, dtypes=dtypes, only=names)
    check_rows(table)
    check_key(table, how.by, "--sequence_by")
    check_column(table, how.by, "--sequence_by")
    check_column(table, how.order_by, "--order_by")
    rows = derived_labels.view(table, options.derived_labels)
    for name in how.columns:
        check_column(rows, name, "--sequence_columns")
    rounded: Rounded = Counter()
    log = histories_and_windows.read(rows, how, options.derived_labels, rounded, on_rows)
    view = sequence_plan.view_of(rows, how)
    notes = [*view.notes, *log.notes]
    if spec is None:
        fields = field_rules.inferred(view, options.step_columns)
    else:
        fields, absent = field_rules.of_spec(view, spec)
        notes += absent
    plan = sequence_plan.make(table, log, fields, options, spec)
    return plan, (*notes, *reader.rounding_notes(rounded))


def _write(
    shard: sequence_plan.Shard, plan: SequencePlan, output: jobs.Job[PlanDocument]
) -> Written:
    """Writes one shard."""
    encoder = Encoder(plan.fields)
    filters = plan.spec.conditions if plan.spec is not None else ()
    with ShardFile(output.folder, shard.name, output.temporary) as file:
        for records in plan.records(shard):
            if plan.spec is not None:
                batch_checks.check(records, plan.fields, plan.spec.source, filters=filters)
            data, _ = frames(encoder.encode(records.batch))
            file.write(data, records.batch.num_rows)
    return file.written
