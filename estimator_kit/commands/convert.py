"""`--mode=convert`: writes tables as TFRecord shards.

Passes the settings to `input_pipelines/prepare/convert`, which does the work. Imports no
TensorFlow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Optional, Union

from estimator_kit.config import table_settings
from estimator_kit.config.areas.conversion import Conversion
from estimator_kit.config.areas.program import Program
from estimator_kit.config.areas.tables import Tables
from estimator_kit.config.modes import Convert
from estimator_kit.errors import ConfigError, NothingToDo
from estimator_kit.observing.progress import ShardProgress
from estimator_kit.result import RunResult
from feature_specs.files import file_systems
from feature_specs.files.jobs import FolderError
from feature_specs.parser import parser
from feature_specs.spec import FeatureSpec
from input_pipelines.prepare.beam_runner import BeamFlagsError
from input_pipelines.prepare.convert import conversion, sequences
from input_pipelines.reading import files

Result = Union[conversion.Result, sequences.SequenceResult]


def run(command: Convert, tell: Callable[[str], None]) -> RunResult:
    """Runs the mode; see `run_conversion`."""
    tell(run_conversion(command))
    return RunResult(mode=command.program.mode)


def run_conversion(command: Convert) -> str:
    """Converts `--convert_files`, and returns the text for the user.

    Several processes convert large data. They import the program's main module again, so your
    program needs the usual `if __name__ == "__main__":` around the code that it runs.

    Raises:
      ConfigError: the folder holds something else, Beam does not know a flag, or a flag for tables
        contradicts the spec; nothing was written.
      DataError: a file or row cannot be converted.
      MissingPackageError: TensorFlow has no file system for a path.
      NothingToDo: an earlier start has written everything; nothing was changed.
      OSError: a file cannot be written.
      SpecError: the spec cannot be used.
    """
    file_systems.check(command.conversion.convert_dir, flag="--convert_dir")
    paths = files.expand(command.conversion.convert_files, flag="--convert_files")
    spec = parser.load(command.run.spec) if command.run.spec else None
    result = written(
        command.conversion, command.program, command.tables, command.choice.seed, paths, spec
    )
    if result.already_done:
        raise NothingToDo(
            f"--convert_dir: {command.conversion.convert_dir!r} has all {len(result.shards):,} "
            "shards of this conversion. Nothing was changed."
        )
    return result.text()


def written(
    conversion_settings: Conversion,
    program: Program,
    tables: Tables,
    seed: int,
    paths: Sequence[str],
    spec: Optional[FeatureSpec],
    on_plan: conversion.OnPlan = lambda plan: None,
) -> Result:
    """Writes the rows of some files into `convert_dir`; for the errors, see `run_conversion`."""
    csv = table_settings.csv_options(tables, spec, paths, written=True)
    options = conversion_settings.convert_options(seed)
    folder = conversion_settings.convert_dir
    assert folder is not None, "the rules require it"
    try:
        with ShardProgress("convert", "{} shards", program.log_every_secs) as progress:
            if options.sequences is not None:
                return sequences.convert(
                    paths,
                    directory=folder,
                    options=options,
                    spec=spec,
                    csv=csv,
                    on_progress=progress,
                )
            return conversion.convert(
                paths,
                directory=folder,
                options=options,
                spec=spec,
                csv=csv,
                workers=program.processes,
                beam=tables.beam_flags(),
                on_progress=progress,
                on_plan=on_plan,
            )
    except FolderError as error:
        raise ConfigError(f"--convert_dir: {error}") from error
    except BeamFlagsError as error:
        raise ConfigError(f"--beam_options: {error}") from error
