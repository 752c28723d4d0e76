"""A whole run of predictions: export, plan, folder, work, manifest.

    result, text = run(config)      # of --mode=predict with --predict_dir

A restart with the same flags predicts only the files that are missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Optional

from estimator_kit.config import table_settings
from estimator_kit.config.areas.program import Program
from estimator_kit.config.areas.reading import Reading
from estimator_kit.config.areas.run import FromExport
from estimator_kit.config.areas.tables import Tables
from estimator_kit.config.modes import Predict
from estimator_kit.errors import ConfigError, NothingToDo
from estimator_kit.observing.progress import ShardProgress
from estimator_kit.result import RunResult
from estimator_kit.scoring import export as exports
from estimator_kit.scoring import kept, work
from estimator_kit.scoring.export import Export
from estimator_kit.scoring.plan import Plan, PlanDocument, ScoredFile, output_names
from estimator_kit.training import bad_data
from feature_specs.files import file_systems, jobs
from feature_specs.files.shards import Written
from feature_specs.spec import FeatureSpec
from input_pipelines.errors import DataError, cores
from input_pipelines.integrity import stored_records
from input_pipelines.prepare.convert import fields as field_rules
from input_pipelines.prepare.convert import processes
from input_pipelines.prepare.convert.fields import Field
from input_pipelines.prepare.tables import formats, reader
from input_pipelines.prepare.tables.options import CsvOptions
from input_pipelines.prepare.tables.reader import Table
from input_pipelines.prepare.tables.storable import Rounded
from input_pipelines.reading import files
from input_pipelines.record_files import kinds, tfrecords

# The work that is worth a process, which takes seconds to load TensorFlow.
_BYTES_OF_A_PROCESS = 32 * 2**20

_KILLED = (
    "another program killed a process of the prediction, as the system does when memory runs out. "
    "The finished files are kept. Run the same command again with a smaller --processes or "
    "--eval_batch_size."
)


def run(command: Predict) -> tuple[RunResult, str]:
    """Predicts `--predict_files` into `--predict_dir` with `--export_dir`.

    Returns what the run did, and the summary for the user. Several processes predict many or large
    files. They import the program's main module again, so your own program needs the usual
    `if __name__ == "__main__":` around what it runs.

    Raises:
      ConfigError: the folder has other content, the export cannot be used, or a column to keep
        does not exist; nothing was changed.
      DataError: a file or row cannot be predicted; finished files stay, and the folder has no
        `_SUCCESS`.
      ExportError: the export does not load.
      NothingToDo: an earlier start predicted everything; nothing was changed.
      OSError: a file cannot be written; no file is incomplete.
    """
    assert command.prediction.predict_dir is not None and command.export.export_dir is not None
    for flag in ("export_dir", "predict_dir"):
        file_systems.check(getattr(command.settings, flag), flag=f"--{flag}")
    try:
        jobs.check_new(command.prediction.predict_dir, PlanDocument.noun)
        export = exports.choose(
            exports.read(
                exports.newest(command.export.export_dir),
                command.run.spec,
                top_k=command.prediction.top_k,
            ),
            command.prediction.predict_outputs,
        )
        paths = files.expand(command.data.predict_files, flag="--predict_files")
        kind = kinds.kind_of_all(paths)
        screened = _screened(
            command.program, command.export, command.reading, export.spec, paths, kind
        )
        paths = screened.files["--predict_files"]
        table, fields, notes = _table(command.tables, export, paths, kind)
        notes += _notes_of_empty(paths, kind, screened.damaged)
        _check_kept(command.prediction.keep_columns, export, paths, kind, table, screened.damaged)
        suffix = formats.of(kind).output_suffix if kind != kinds.TFRECORD else ""
        names = {path: name + suffix for path, name in output_names(paths).items()}
        shards = tuple(
            ScoredFile(
                names[path],
                path,
                tuple(file_systems.stamp(path)),
                sum(table.row_groups(path)) if table is not None else None,
            )
            for path in paths
        )
        csv = table.csv if table is not None else CsvOptions()
        plan = Plan(
            export,
            kind,
            shards,
            command.prediction.keep_columns,
            csv,
            command.prediction.predict_outputs,
            screened.left_out("--predict_files"),
        )
        output = jobs.Job(command.prediction.predict_dir, plan.document())
        output.check()
        with output.held():
            return _predicted(
                command.program, command.reading, plan, output, table, fields, screened, notes
            )
    except jobs.FolderError as error:
        raise ConfigError(f"--predict_dir: {error}") from error


def _screened(
    program: Program,
    export: FromExport,
    reading: Reading,
    spec: Optional[FeatureSpec],
    paths: list[str],
    kind: str,
) -> bad_data.Screened:
    """The files that `--corrupt_data_policy` leaves."""
    if kind == kinds.TFRECORD and spec is not None:
        screened = bad_data.screen(
            program,
            reading,
            spec,
            {"--predict_files": paths},
            with_labels=False,
            remedy=exports.RECORD_REMEDY,
        )
        stored_records.check_kind(
            spec, kept.first_records(screened.files["--predict_files"], screened.damaged)
        )
        return screened
    if reading.corrupt_data_policy != "fail":
        policy = f"--corrupt_data_policy={reading.corrupt_data_policy}"
        if kind != kinds.TFRECORD:
            raise ConfigError(
                f"{policy} works only with TFRecord files, got {kind} files. Remove the flag."
            )
        raise ConfigError(
            f"{policy} needs a feature spec, and --export_dir={export.export_dir} has none. Pass "
            "the spec that it was made with as --spec."
        )
    return bad_data.Screened({"--predict_files": paths})


def _notes_of_empty(paths: Sequence[str], kind: str, damaged: tfrecords.Damaged) -> list[str]:
    """Notes for the user about empty TFRecord files, which count as files without rows."""
    if kind != kinds.TFRECORD:
        return []
    empty = [path for path in paths if path not in damaged and not file_systems.stamp(path)[0]]
    if len(empty) == len(paths):
        raise DataError(
            f"--predict_files: no records in {paths[0]}{_others(paths)}. Name files with records."
        )
    return [f"{path} is empty, so the file of its predictions is empty too" for path in empty]


def _others(paths: Sequence[str]) -> str:
    return " and the other files" if len(paths) > 1 else ""


def _table(
    tables: Tables, export: Export, paths: Sequence[str], kind: str
) -> tuple[Optional[Table], tuple[Field, ...], list[str]]:
    """The files as a table, the features of its records, and notes about how it is read."""
    csv = tables.csv_options()
    if kind == kinds.TFRECORD:
        if csv != CsvOptions():
            raise ConfigError(
                "--csv_columns, --csv_delimiter, --csv_skip_spaces, --csv_comment, --csv_missing "
                "and --csv_list_separator work only with CSV files, got the TFRecord file "
                f"{paths[0]}. Remove these flags."
            )
        return None, (), []
    spec = exports.spec_of(export, "how rows of a table become records")
    used = spec.used_features()
    dtype_of = field_rules.dtypes_of(spec)
    dtypes = {name: dtype_of[name] for name in used}
    csv = table_settings.csv_options(tables, spec, paths)
    table = reader.open_table(
        paths,
        csv=csv,
        dtypes=dtypes,
        lists=field_rules.names_of_lists(spec),
        only=used,
        correct="correct the table",
    )
    if not sum(sum(table.row_groups(path)) for path in paths):
        raise DataError(
            f"--predict_files: no rows in {paths[0]}{_others(paths)}. Name files with rows."
        )
    fields, missing = field_rules.of_spec(
        table, spec, only=used, learning=False, remedy="correct the table"
    )
    return table, fields, [*table.notes, *missing]


def _check_kept(
    keep: Sequence[str],
    export: Export,
    paths: Sequence[str],
    kind: str,
    table: Optional[Table],
    damaged: tfrecords.Damaged,
) -> None:
    """Raises ConfigError if a column to keep does not exist, or cannot be in the output."""
    taken = [output.name for output in export.outputs]
    if table is not None:
        try:
            of_kind = formats.of(kind).output_columns
            taken = [name for output in export.outputs for name in of_kind(output)]
        except ValueError as error:
            raise ConfigError(f"--predict_files: {error}") from None
    kept.check_taken(keep, taken)
    if table is None:
        kept.check_features(keep, export.spec, paths, damaged)
        return
    column_names = [*(column.name for column in table.columns), *table.left_out]
    kept.check_known(keep, column_names, f"{paths[0]} has no column {{!r}}")


def _predicted(
    program: Program,
    reading: Reading,
    plan: Plan,
    output: jobs.Job[PlanDocument],
    table: Optional[Table],
    fields: tuple[Field, ...],
    screened: bad_data.Screened,
    notes: Sequence[str],
) -> tuple[RunResult, str]:
    """Predicts the files of a plan that are missing."""
    finished = output.begin()
    missing = [file for file in plan.shards if file.name not in finished]
    if not missing and output.is_finished:
        raise NothingToDo(
            f"--predict_dir: {output.folder!r} already has the predictions of all "
            f"{len(finished):,} files. Nothing was changed."
        )
    workers = _processes(program, missing)
    context = _context(program, reading, plan, output, fields, screened.damaged, workers)
    written: dict[str, Written] = dict(finished)
    rounded: Rounded = Counter()

    progress = ShardProgress("predict", "{} files", program.log_every_secs)

    def on_rows(rows: int) -> None:
        progress(rows, len(written), len(plan.shards))

    tasks = [work.FileTask(file, _part(table, file)) for file in missing]
    try:
        with (
            progress,
            processes.Workers(
                workers, context, on_rows, perform=work.perform, killed=_KILLED
            ) as pool,
        ):
            for done in pool.run(tasks):
                written[done.written.name] = done.written
                rounded.update(done.rounded)
    finally:
        work.release()
    output.finish(output.plan.manifest(plan.export, written))
    result = RunResult(
        mode=program.mode,
        rows_evaluated=sum(file.rows for file in written.values()),
        bad_data=screened.counts,
    )
    return result, _text(
        plan, output.folder, written, len(missing), [*notes, *reader.rounding_notes(rounded)]
    )


def _part(table: Optional[Table], file: ScoredFile) -> Any:
    if table is None:
        return None
    return table.rows_of(file.path, 0, file.rows or 0, table.row_groups(file.path))


def _processes(program: Program, missing: Sequence[ScoredFile]) -> int:
    count = program.processes
    if count is None:
        count = min(cores(), 1 + sum(file.stamp[0] for file in missing) // _BYTES_OF_A_PROCESS)
    return max(1, min(count, len(missing)))


def _context(
    program: Program,
    reading: Reading,
    plan: Plan,
    output: jobs.Job[PlanDocument],
    fields: tuple[Field, ...],
    damaged: tfrecords.Damaged,
    workers: int,
) -> work.Context:
    export = plan.export
    share = max(1, cores() // workers) if workers > 1 else 0
    return work.Context(
        folder=output.folder,
        temporary=output.temporary,
        export_dir=export.path,
        signature=export.signature,
        argument=export.argument,
        fixed_inputs=export.fixed_inputs,
        outputs=export.outputs,
        spec=export.spec.source if export.spec is not None else "",
        kind=plan.kind,
        fields=fields,
        keep=plan.keep,
        csv=plan.csv,
        batch_size=reading.eval_batch_size,
        damaged=damaged,
        threads=program.threads or share,
    )


def _text(
    plan: Plan, folder: str, written: Mapping[str, Written], new: int, notes: Sequence[str]
) -> str:
    """The summary that the user reads."""
    rows = sum(file.rows for file in written.values())
    lines = [
        f"{folder}: predicted {rows:,} rows of {len(written):,} {plan.kind} files",
        f"  by {plan.export.path}: {', '.join(output.name for output in plan.export.outputs)}",
    ]
    if plan.keep:
        lines.append(f"  with {', '.join(plan.keep)} of each row")
    if new < len(written):
        lines.append(f"  {len(written) - new:,} files were already complete")
    return "\n".join([*lines, *(f"  note: {note}" for note in notes)])
