"""`--mode=analyze`: writes a first spec for records, or refreshes the files of an existing spec.

Passes the settings to `input_pipelines/prepare/analyze`, which does the work.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from estimator_kit.config import table_settings
from estimator_kit.config.modes import Analyze
from estimator_kit.errors import ConfigError
from estimator_kit.observing.progress import ShardProgress
from estimator_kit.result import RunResult
from feature_specs.files.jobs import FolderError
from feature_specs.parser import parser
from input_pipelines.prepare.analyze import first_spec, refresh
from input_pipelines.prepare.beam_runner import BeamFlagsError
from input_pipelines.reading import files


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
    beam = command.tables.beam_flags()
    spec = parser.load(command.run.spec) if command.run.spec else None
    csv = table_settings.csv_options(command.tables, spec, paths)
    reads = ShardProgress("analyze", "{} groups of files", command.program.log_every_secs)
    how: dict[str, Any] = {
        "min_count": command.analysis.min_count, "csv": csv, "beam": beam, "on_progress": reads,
    }  # fmt: skip
    try:
        with reads:
            if command.run.spec:
                return refresh.refresh(command.run.spec, paths, **how)
            assert command.analysis.analysis_dir is not None
            return first_spec.write(
                paths,
                labels=command.analysis.labels,
                directory=command.analysis.analysis_dir,
                **how,
            )
    except BeamFlagsError as error:
        raise ConfigError(f"--beam_options: {error}") from error
    except FolderError as error:
        raise ConfigError(
            f"{'--spec' if command.run.spec else '--analysis_dir'}: {error}"
        ) from error
