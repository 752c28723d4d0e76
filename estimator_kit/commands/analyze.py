"""`--mode=analyze`: writes a first spec for records, or refreshes the files of an existing spec.

Passes the settings to `input_pipelines/prepare/analyze`, which does the work. After a first spec,
`first_experiment` converts tables and writes the flags of a first training.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from estimator_kit.commands import first_experiment, first_sequences
from estimator_kit.config import table_settings
from estimator_kit.config.modes import Analyze
from estimator_kit.errors import ConfigError
from estimator_kit.observing.progress import ShardProgress
from estimator_kit.result import RunResult
from feature_specs.files import file_systems
from feature_specs.files.jobs import FolderError
from feature_specs.parser import parser
from input_pipelines.prepare.analyze import first_flags, first_spec, first_split, refresh
from input_pipelines.prepare.analyze.overrides import Overrides
from input_pipelines.prepare.beam_runner import BeamFlagsError
from input_pipelines.reading import files
from input_pipelines.record_files import kinds


def run(command: Analyze, tell: Callable[[str], None]) -> RunResult:
    """Runs the mode; see `run_analysis`."""
    tell(run_analysis(command))
    return RunResult(mode=command.program.mode)


def run_analysis(command: Analyze) -> str:
    """Analyzes `--train_files`, writes the files, and returns the text for the user.

    Several processes read large data. They import the program's main module again, so your program
    needs the usual `if __name__ == "__main__":` around the code that it runs.

    Raises:
      ConfigError: analysis would have to overwrite a file that it did not write, or Beam does not
        know a flag; nothing was written.
      DataError: the records cannot be used; nothing was written.
      SpecError: the spec cannot be used, or not with the new files; nothing was written.
    """
    paths = files.expand(
        command.data.train_files, flag="--train_files", days=command.data.days_of("train")
    )
    try:
        if command.run.spec:
            return _refreshed(command, command.run.spec, paths)
        return _first(command, paths)
    except BeamFlagsError as error:
        raise ConfigError(f"--beam_options: {error}") from error
    except FolderError as error:
        raise ConfigError(
            f"{'--spec' if command.run.spec else '--analysis_dir'}: {error}"
        ) from error


def _refreshed(command: Analyze, path: str, paths: Sequence[str]) -> str:
    csv = table_settings.csv_options(command.tables, parser.load(path), paths)
    with _progress(command) as reads:
        return refresh.refresh(path, paths, csv=csv, **_how(command, reads))


def _first(command: Analyze, paths: Sequence[str]) -> str:
    """Writes a first spec and, if it can be trained, the flags of a first training."""
    place = command.conversion.convert_dir
    tables = kinds.kind_of_all(paths) != kinds.TFRECORD
    if place is not None:
        file_systems.check(place, flag="--convert_dir")
        if not tables:
            raise ConfigError(
                f"--convert_dir: {paths[0]} is a TFRecord file, which needs no conversion. Remove "
                "the flag."
            )
    log = first_sequences.of_log(command, paths) if tables else None
    if log is not None:
        training, text, records = log
        first = _written(command, records)
        lines = [text, first.report]
    else:
        first = _written(command, paths)
        lines = [first.report]
        if not tables:
            training = first_experiment.of_records(command, first)
        elif place is not None:
            training, text = first_experiment.converted(command, paths, first)
            lines.append(text)
        else:
            how = "read its comments, then convert the tables, or analyze again with --convert_dir"
            return "\n".join([*lines, f"  {how}:", f"  {_conversion(command, first)}"])
    then = first_experiment.write_flags(first, training)
    lines.append(f"{first.path.parent / first_flags.FILE}: the flags of a first training")
    return "\n".join([*lines, "  read the comments of both files, then train:", f"  {then}"])


def _written(command: Analyze, paths: Sequence[str]) -> first_spec.FirstSpec:
    assert command.analysis.analysis_dir is not None, "the rules require it"
    csv = table_settings.csv_options(command.tables, None, paths)
    with _progress(command) as reads:
        return first_spec.write(
            paths,
            labels=command.analysis.labels,
            directory=command.analysis.analysis_dir,
            csv=csv,
            overrides=Overrides(
                command.analysis.categorical, command.analysis.numeric, command.analysis.ignore
            ),
            keep=[first_flags.FILE],
            converted=command.conversion.convert_dir,
            **_how(command, reads),
        )


def _conversion(command: Analyze, first: first_spec.FirstSpec) -> str:
    """The command that converts the tables."""
    ranking = "ranking" in first.heads.values()
    return first_experiment.next_command(
        "convert",
        spec=str(first.path),
        convert_files=",".join(command.data.train_files),
        convert_dir=str(first.path.parent / "data"),
        split=first_split.default(
            first.statistics, first.roles, first.times, ranking=ranking
        ).value,
        split_eval=first_split.EVAL_SHARE,
        split_test=first_split.TEST_SHARE,
    )


def _progress(command: Analyze) -> ShardProgress:
    return ShardProgress("analyze", "{} groups of files", command.program.log_every_secs)


def _how(command: Analyze, reads: ShardProgress) -> dict[str, Any]:
    return {
        "min_count": command.analysis.min_count,
        "beam": command.tables.beam_flags(),
        "on_progress": reads,
    }
