"""A complete conversion: plan, folder, work, manifest.

    result = convert(["a.parquet"], directory="out", options=ConvertOptions())
    print(result.text())

If it is started again with the same files and options, it only writes the missing shards.
"""

from __future__ import annotations

import dataclasses
import os
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Optional

from feature_specs.errors import counted
from feature_specs.files import jobs
from feature_specs.files.shards import Written
from feature_specs.spec import FeatureSpec
from input_pipelines.errors import DataError, cores
from input_pipelines.prepare import beam_runner
from input_pipelines.prepare.convert import derived_labels, processes, split, tasks
from input_pipelines.prepare.convert import fields as field_rules
from input_pipelines.prepare.convert import plan as plans
from input_pipelines.prepare.convert.options import ConvertOptions
from input_pipelines.prepare.convert.plan import Plan
from input_pipelines.prepare.convert.value_checks import (
    check_column,
    check_key,
    check_rows,
    kind_of_tables,
)
from input_pipelines.prepare.tables import reader
from input_pipelines.prepare.tables.options import CsvOptions
from input_pipelines.prepare.tables.storable import Rounded

# The least work for a process, in bytes of records. A process takes about a second to start.
_BYTES_OF_A_PROCESS = 32 * 2**20

# Called with the plan, before anything is written.
OnPlan = Callable[[Plan], None]

# Called with the rows read since the last call, the number of finished shards, and of all shards.
OnProgress = Callable[[int, int, int], None]


@dataclasses.dataclass(frozen=True)
class Result:
    """What a conversion did.

    Attributes:
      plan: the plan of the conversion.
      folder: the folder with the shards.
      shards: all shards by name, including shards that an earlier start has written.
      new: how many shards this start has written.
      notes: notes for the user about the values.
      already_done: whether everything was done before, so that this start changed nothing.
    """

    plan: Plan
    folder: str
    shards: dict[str, Written]
    new: int
    notes: tuple[str, ...]
    already_done: bool = False

    @property
    def rows(self) -> int:
        return sum(written.rows for written in self.shards.values())

    def rows_of_parts(self) -> dict[str, int]:
        """The rows of each part, such as `train`."""
        rows = dict.fromkeys(self.plan.options.shares, 0)
        for shard in self.plan.shards:
            rows[shard.part] += self.shards[shard.name].rows
        return rows

    def text(self) -> str:
        """The report for the user."""
        plan = self.plan
        lines = [
            f"{self.folder}: {counted(self.rows, 'row')} of "
            f"{counted(len(plan.table.files), 'file')} as {plan.kind}s of "
            f"{counted(len(plan.fields), 'feature')}"
        ]
        for part in plan.options.shares:
            written = [self.shards[s.name] for s in plan.shards if s.part == part]
            pattern = os.path.join(self.folder, f"{part}-*")
            size = sum(w.bytes for w in written) / 2**20
            lines.append(
                f"  {pattern}: {counted(sum(w.rows for w in written), 'row')} in "
                f"{counted(len(written), 'shard')}, {size:,.1f} MiB"
            )
            if not sum(w.rows for w in written):
                what = "--split puts no key" if plan.options.split_key else "rows puts no row"
                lines.append(f"  warning: the hash of {what} into {part}")
        if plan.options.split_time is not None:
            lines += _first_times(plan.options)
        if self.new < len(self.shards):
            lines.append(f"  {counted(len(self.shards) - self.new, 'shard')} existed already")
        if plan.table.left_out:
            names = ", ".join(plan.table.left_out)
            lines.append(f"  left out because the spec does not name them: {names}")
        return "\n".join([*lines, *(f"  note: {note}" for note in self.notes)])


def _first_times(options: ConvertOptions) -> list[str]:
    """Which times the sides have, after a split by time."""
    column, start, end = options.split_time, options.eval_from, options.test_from
    if end is None:
        return [f"  eval has the rows whose {column} is {start} or later"]
    return [
        f"  eval has the rows whose {column} is {start} or later and before {end}",
        f"  test has the rows whose {column} is {end} or later",
    ]


def convert(
    files: Sequence[str],
    *,
    directory: str,
    options: ConvertOptions = ConvertOptions(),
    spec: Optional[FeatureSpec] = None,
    csv: CsvOptions = CsvOptions(),
    workers: Optional[int] = None,
    beam: Optional[Sequence[str]] = None,
    on_progress: OnProgress = lambda rows, done, shards: None,
    on_plan: OnPlan = lambda plan: None,
) -> Result:
    """Converts the files of a table into a folder of TFRecord shards.

    Args:
      files: CSV, JSON lines or Parquet files, all of one kind, in the order of the rows.
      directory: the output folder. It must be new or empty, or come from an earlier start of the
        same conversion.
      options: how rows become shards.
      spec: decides which columns become which features. Without a spec, the table decides.
      csv: how CSV files are written.
      workers: the number of processes; by default the number of cores, or fewer for small data. The
        number only changes the time.
      beam: flags of an Apache Beam pipeline (`flags.split`) that does the work instead. This also
        changes only the time. The workers must be able to use the same paths.
      on_progress: see `OnProgress`. Not used by a pipeline, which shows its progress itself.
      on_plan: see `OnPlan`. Its errors end the conversion.

    Raises:
      BeamFlagsError: a pipeline cannot be made with the flags. Nothing was changed.
      DataError: the files cannot be read or do not fit the spec, or a row cannot be converted.
        Shards that were already finished are kept, but `_SUCCESS` is not written.
      FolderError: the folder contains something else. Nothing was changed.
      OSError: a file cannot be written, for instance on a full disk. No shard is half written.
      MissingPackageError: pyarrow is not installed, or Beam if `beam` is given.
    """
    if beam is not None:
        beam_runner.check(beam, [directory, *files])
    jobs.check_new(directory, plans.PlanDocument.noun)
    plan, notes = _planned(files, options, spec, csv, beam)
    output = jobs.Job(directory, plan.document())
    output.check()
    on_plan(plan)
    with output.held():
        return _converted(plan, output, notes, workers, beam, on_progress)


def _converted(
    plan: Plan,
    output: jobs.Job[plans.PlanDocument],
    notes: Sequence[str],
    workers: Optional[int],
    beam: Optional[Sequence[str]],
    on_progress: OnProgress,
) -> Result:
    """Writes the missing shards of a plan."""
    complete = output.begin()
    missing = [shard for shard in plan.shards if shard.name not in complete]
    if not missing and output.is_finished:
        return Result(plan, output.folder, complete, 0, tuple(notes), already_done=True)
    context = tasks.context_of(plan, missing, output.folder, output.temporary)
    rounded: Rounded = Counter()
    written = dict(complete)

    def on_rows(rows: int) -> None:
        on_progress(rows, len(written), len(plan.shards))

    stages = list(tasks.of_plan(plan, missing, context))
    if workers is None:
        workers = min(cores(), 1 + int(plan.size / _BYTES_OF_A_PROCESS))
    workers = min(workers, max(map(len, stages)))
    with _workers(workers, beam, context, on_rows) as pool:
        for stage in stages:
            for done in pool.run(stage):
                rounded.update({(name, what): count for name, what, count in done.rounded})
                written.update((shard.name, shard) for shard in done.shards)
    rows = sum(shard.rows for shard in written.values())
    if rows != plan.rows:
        raise DataError(
            f"{plan.rows:,} rows were counted in {plan.table.files[0]} and the other files, but "
            f"{rows:,} were written. Check whether files were changed during the conversion"
        )
    parts = {shard.name: shard.part for shard in plan.shards}
    output.finish(output.plan.manifest(parts, written))
    notes = (*notes, *reader.rounding_notes(rounded))
    return Result(plan, output.folder, written, len(missing), notes)


def _workers(
    count: int, beam: Optional[Sequence[str]], context: tasks.Context, on_rows: processes.OnRows
) -> Any:
    """The workers for the tasks: processes of this machine, or a pipeline."""
    if beam is None:
        return processes.Workers(count, context, on_rows)
    return processes.BeamWorkers(beam, context)


def _planned(
    files: Sequence[str],
    options: ConvertOptions,
    spec: Optional[FeatureSpec],
    csv: CsvOptions,
    beam: Optional[Sequence[str]] = None,
) -> tuple[Plan, list[str]]:
    """The plan, and notes about how columns are read."""
    kind_of_tables(files)
    only = None
    if spec is not None:
        if options.step_columns:
            raise ValueError("step_columns is for a conversion without a spec")
        only = {*field_rules.names_of(spec), *options.columns_read}
    dtypes = field_rules.dtypes_of(spec) if spec is not None else None
    lists = field_rules.names_of_lists(spec) if spec is not None else ()
    table = reader.open_table(files, csv=csv, dtypes=dtypes, lists=lists, only=only, beam=beam)
    check_rows(table)
    if options.split_key is not None:
        remedy = " If all rows are independent, use --split=rows."
        check_key(table, options.split_key, "--split", remedy)
    sides = None
    if options.split_time is not None:
        check_column(table, options.split_time, "--split")
        options, sides = split.resolved(table, options)
    view = derived_labels.view(table, options.derived_labels)
    notes = table.notes
    if spec is None:
        fields = field_rules.inferred(view, options.step_columns)
        notes += [
            f"{column.name}: no row has a value, so no record has this feature"
            for column in table.columns
            if column.dtype is None and not column.multi
        ]
    else:
        fields, missing = field_rules.of_spec(view, spec)
        notes += missing
    notes += derived_labels.notes(options.derived_labels, [field.name for field in fields])
    return plans.make(table, fields, options, spec, sides), notes
