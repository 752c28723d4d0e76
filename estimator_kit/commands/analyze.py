"""`--mode=analyze`: a first spec for some records, or fresh files for a spec that is there.

Connects the flags with `input_pipelines/prepare/analyze`, which does the work.
"""

from __future__ import annotations

from collections.abc import Callable

from estimator_kit.config import table_settings
from estimator_kit.config.experiment_config import ExperimentConfig
from estimator_kit.errors import ConfigError
from estimator_kit.result import RunResult
from feature_specs.parser import parser
from input_pipelines.prepare.analyze import first_spec, refresh
from input_pipelines.prepare.analyze.folder import FolderError
from input_pipelines.prepare.beam.flags import BeamFlagsError
from input_pipelines.reading import files


def run(config: ExperimentConfig, tell: Callable[[str], None]) -> RunResult:
    """Runs the mode; see `run_analysis`."""
    tell(run_analysis(config))
    return RunResult(mode=config.mode)


def run_analysis(config: ExperimentConfig) -> str:
    """Analyzes `config.train_files`, writes the files, and returns what to tell the user.

    Large data are read by several processes, which import the program's main module again: a
    program of your own needs the usual `if __name__ == "__main__":` around what it runs.

    Raises:
      ConfigError: a file is in the way that analysis did not write, or Beam does not know a flag;
        nothing was touched.
      DataError: the records cannot be used; nothing was written.
      SpecError: the spec cannot be used, or could not with the fresh files; nothing was written.
    """
    paths = files.expand(config.train_files, flag="--train_files", days=config.days_of("train"))
    beam = config.beam_flags()
    spec = parser.load(config.spec) if config.spec else None
    csv = table_settings.csv_options(config, spec, paths)
    try:
        if config.spec:
            return refresh.refresh(
                config.spec, paths, min_count=config.min_count, csv=csv, beam=beam
            )
        assert config.analysis_dir is not None
        return first_spec.write(
            paths,
            labels=config.labels,
            directory=config.analysis_dir,
            min_count=config.min_count,
            csv=csv,
            beam=beam,
        )
    except BeamFlagsError as error:
        raise ConfigError(f"--beam_options: {error}") from error
    except FolderError as error:
        raise ConfigError(f"{'--spec' if config.spec else '--analysis_dir'}: {error}") from error
