"""The checks of `--mode=validate` that need TensorFlow: of rows, and of the model that flags name.

`input_pipelines.integrity.spec_check` compares records with the spec, and
`input_pipelines.prepare.analyze.drift` compares them with earlier records.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterator, Sequence
from typing import Union

from estimator_kit.checkpoints import model_outline
from estimator_kit.config import table_settings
from estimator_kit.config.areas.data import Data
from estimator_kit.config.areas.looking import Looking
from estimator_kit.config.areas.run import Run
from estimator_kit.config.areas.tables import Tables
from estimator_kit.config.modes import Validate
from estimator_kit.embeddings import table_memory
from estimator_kit.errors import ConfigError
from estimator_kit.model.computing import Computing
from estimator_kit.training import plan, preparation
from feature_specs import statistics
from feature_specs.feature import Feature
from feature_specs.label import Label
from feature_specs.parser import parser
from feature_specs.spec import FeatureSpec
from input_pipelines.integrity import spec_check
from input_pipelines.prepare.analyze import drift, scan
from input_pipelines.prepare.analyze.summary import RecordSummary
from input_pipelines.prepare.convert import fields as field_rules
from input_pipelines.prepare.tables.options import CsvOptions
from input_pipelines.reading import files, row_groups
from input_pipelines.record_files import kinds, record_lists


def reports(command: Validate) -> Iterator[str]:
    """The report of each check that the flags ask for.

    Raises:
      ConfigError: see `data_report` and `drift_report`; earlier reports have been given.
      DataError: a file cannot be read.
    """
    if command.looking.validate_rows:
        yield data_report(command.run, command.data, command.looking)
    if command.looking.baseline:
        yield drift_report(command)


def data_report(run: Run, data: Data, looking: Looking) -> str:
    """The report on `--validate_rows` rows of the training files, with warnings last.

    Raises:
      ConfigError: records do not fit the spec; the message has the report after the errors.
      DataError: a file cannot be read.
    """
    paths = files.expand(data.train_files, flag="--train_files", days=data.days_of("train"))
    spec = parser.load(run.spec)
    report = spec_check.check(spec, paths, rows=looking.validate_rows)
    errors, warnings = list(report.errors), list(report.warnings)
    text, unusable = row_groups.neighbors(spec, record_lists.first_records(paths))
    if text:
        (errors if unusable else warnings).append(text)
    return _text("the data do not fit the spec", report.lines, warnings, errors)


def drift_report(command: Validate) -> str:
    """How far the training files drifted from the baseline, with warnings last.

    Reads all records of the training files, and of the baseline if it is given as files, and
    compares those that the filter keeps. Both may be tables; their text is then read as the types
    in the spec. The CSV options are for all CSV files among them.

    Raises:
      ConfigError: something drifted further than the spec allows, or cannot be compared with it
        (the message has the report after the errors), or the statistics of the baseline cannot be
        used.
      DataError: a file cannot be read, or has no record.
      MissingPackageError: the package for sketches is not installed.
    """
    spec = parser.load(command.run.spec)
    paths = files.expand(
        command.data.train_files, flag="--train_files", days=command.data.days_of("train")
    )
    if command.looking.baseline_statistics:
        try:
            before = statistics.load(pathlib.Path(command.looking.baseline_statistics))
        except statistics.StatisticsError as error:
            raise ConfigError(f"--baseline: {error}") from error
        csv, old_notes = table_settings.csv_options(command.tables, spec, paths), []
    else:
        baseline = files.expand(command.looking.baseline, flag="--baseline")
        csv = _options_of(spec, baseline, paths, command.tables)
        old = _summary(spec, baseline, csv)
        before = old.statistics(len(baseline))
        old_notes = [f"note: the baseline: {note}" for note in old.notes]
        csv = _options_of(spec, paths, baseline, command.tables)
    new = _summary(spec, paths, csv)
    report = drift.compare(spec, before, new.statistics(len(paths)))
    heading = "the data drifted further than the spec allows"
    if report.unusable:
        also = ", and other data drifted further than it allows"
        more = len(report.errors) > len(report.unusable)
        heading = f"some data do not fit the spec{also if more else ''}"
    notes = [*old_notes, *(f"note: {note}" for note in new.notes)]
    return _text(heading, [*report.lines, *notes], report.warnings, report.errors)


def _summary(spec: FeatureSpec, paths: Sequence[str], csv: CsvOptions) -> RecordSummary:
    entries: dict[str, Union[Feature, Label]] = {**spec.features, **spec.labels}
    dtypes = {name: entry.dtype for name, entry in entries.items()}
    lists, conditions = field_rules.names_of_lists(spec), spec.conditions
    return scan.scan(paths, csv=csv, dtypes=dtypes, lists=lists, conditions=conditions)


def _options_of(
    spec: FeatureSpec, paths: Sequence[str], others: Sequence[str], tables: Tables
) -> CsvOptions:
    """The CSV options for `paths`; the default ones if only the other files are CSV."""
    only_others = kinds.kind_of_all(paths) != kinds.CSV and kinds.kind_of_all(others) == kinds.CSV
    return CsvOptions() if only_others else table_settings.csv_options(tables, spec, paths)


def _text(
    heading: str, lines: Sequence[str], warnings: Sequence[str], errors: Sequence[str]
) -> str:
    """The report as text; raises ConfigError with the errors first if there are any."""
    lines = [*lines, *(f"warning: {warning}" for warning in warnings)]
    if errors:
        raise ConfigError("\n".join([heading, *errors, *lines]))
    return "\n".join(lines)


def check_model(command: Validate, spec: FeatureSpec) -> None:
    """Builds the graphs of the model that flags name; trains nothing.

    Raises:
      ConfigError: the model does not accept its parameters or the spec, its tables do not fit into
        memory, or it has no metric with the name that a flag asks for.
    """
    model = preparation.make_model(command.choice, spec)
    model.computing = Computing.of(command.training)
    if command.cluster.strategy is None and not command.cluster.worker_hosts:
        table_memory.check(spec, model.groups())
    outline = model_outline.outline(model)
    program = command.program.model_copy(update={"mode": "train_and_evaluate"})
    plan.check_metrics(program, command.training, command.exports, outline)
