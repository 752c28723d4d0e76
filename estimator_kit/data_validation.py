"""The part of `--mode=validate` that looks at data.

`input_pipelines.spec_check` holds records against the spec, and `input_pipelines.analyze.drift`
against what records were before.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterator, Sequence

from estimator_kit.config import ExperimentConfig
from estimator_kit.errors import ConfigError
from feature_specs import parser, statistics
from input_pipelines import files, spec_check
from input_pipelines.analyze import drift, scan


def reports(config: ExperimentConfig) -> Iterator[str]:
    """What each check that the flags ask for has found, one by one.

    Raises:
      ConfigError: see `data_report` and `drift_report`; the checks before have been told.
      DataError: a file cannot be read.
    """
    if config.validate_rows:
        yield data_report(config)
    if config.has_baseline:
        yield drift_report(config)


def data_report(config: ExperimentConfig) -> str:
    """What was found in `config.validate_rows` rows of the training files, warnings last.

    Raises:
      ConfigError: records do not fit the spec; the message has the report, too.
      DataError: a file cannot be read.
    """
    paths = files.expand(config.train_files, flag="--train_files")
    report = spec_check.check(parser.load(config.spec), paths, rows=config.validate_rows)
    return _text("the data do not fit the spec", report.lines, report.warnings, report.errors)


def drift_report(config: ExperimentConfig) -> str:
    """How far the training files moved from the baseline, warnings last.

    Reads all records of the training files, and of the baseline where it is given as files.

    Raises:
      ConfigError: something moved further than the spec allows (the message has the report, too),
        or the statistics of the baseline cannot be used.
      DataError: a file cannot be read, or has no record.
      MissingPackageError: the package for sketches is not installed.
    """
    spec = parser.load(config.spec)
    paths = files.expand(config.train_files, flag="--train_files")
    if config.baseline_statistics:
        try:
            before = statistics.load(pathlib.Path(config.baseline_statistics))
        except statistics.StatisticsError as error:
            raise ConfigError(f"--baseline_statistics: {error}") from error
    else:
        baseline = files.expand(config.baseline_files, flag="--baseline_files")
        before = scan.scan(baseline).statistics(len(baseline))
    report = drift.compare(spec, before, scan.scan(paths).statistics(len(paths)))
    heading = "the data drifted further than the spec allows"
    return _text(heading, report.lines, report.warnings, report.errors)


def _text(
    heading: str, lines: Sequence[str], warnings: Sequence[str], errors: Sequence[str]
) -> str:
    """A report; raises ConfigError when it has errors."""
    lines = [*lines, *(f"warning: {warning}" for warning in warnings)]
    if errors:
        raise ConfigError(f"{heading}\n" + "\n".join([*lines, *errors]))
    return "\n".join(lines)
