"""The part of `--mode=validate` that looks at data; `input_pipelines.spec_check` does the work."""

from __future__ import annotations

from estimator_kit.config import ExperimentConfig
from estimator_kit.errors import ConfigError
from feature_specs import parser
from input_pipelines import files, spec_check


def data_report(config: ExperimentConfig) -> str:
    """What was found in `config.validate_rows` rows of the training files, warnings last.

    Raises:
      ConfigError: records do not fit the spec; the message has the report, too.
      DataError: a file cannot be read.
    """
    paths = files.expand(config.train_files, flag="--train_files")
    report = spec_check.check(parser.load(config.spec), paths, rows=config.validate_rows)
    lines = [*report.lines, *(f"warning: {warning}" for warning in report.warnings)]
    if report.errors:
        raise ConfigError(
            "the data do not fit the spec\n" + "\n".join([*lines, *report.errors])
        )
    return "\n".join(lines)
