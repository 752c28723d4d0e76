"""`--mode=predict`: predicts files, into one file or into a folder (--predict_dir)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Optional, TextIO

import tensorflow as tf

from estimator_kit import tensorflow_errors
from estimator_kit.config.modes import Predict, TrainedPredict
from estimator_kit.errors import ConfigError
from estimator_kit.model.session_errors import explained
from estimator_kit.observing import report
from estimator_kit.result import RunResult
from estimator_kit.scoring import export as exports
from estimator_kit.scoring import kept, prediction, scoring
from estimator_kit.training import bad_data, preparation
from feature_specs.files import staged
from feature_specs.spec import FeatureSpec
from input_pipelines import input_fns
from input_pipelines.integrity import stored_records
from input_pipelines.reading import files
from input_pipelines.record_files import record_lists, tfrecords

# Takes files and the damage in them; gives batches of predictions.
_Predict = Callable[[list[str], tfrecords.Damaged], Iterator[Any]]


def run(
    command: Predict, tell: Callable[[str], None], answers: Optional[TextIO] = None
) -> RunResult:
    """Predicts with the export `--export_dir`, or with the latest checkpoint.

    Raises:
      SpecError, ConfigError: something in the config or spec cannot be used.
      DataError: a file cannot be read, or a record does not fit the spec.
      ExportError: the export does not load, or cannot answer.
    """
    if command.prediction.predict_dir is not None:
        result, text = scoring.run(command)
        tell(text)
        return result
    if command.prediction.predict_output is None and answers is None:
        raise ConfigError(
            "predict_output is missing. ek.run prints no predictions: name a .jsonl or .tfrecord "
            "file."
        )
    if command.export.export_dir is not None:
        spec, result = _with_export(command, command.export.export_dir, answers)
    else:
        spec, result = _with_checkpoint(TrainedPredict.of(command.settings), answers)
    tell(report.summary(command.run, command.data, spec, result))
    return result


def _with_export(
    command: Predict, export_dir: str, answers: Optional[TextIO]
) -> tuple[FeatureSpec, RunResult]:
    view = preparation.check_surroundings(command)
    preparation.generate_data(command.data, view)
    full_export = exports.read(
        exports.newest(export_dir), command.run.spec, top_k=command.prediction.top_k
    )
    spec = exports.spec_of(full_export, "how to read the records")
    export = exports.choose(full_export, command.prediction.predict_outputs)

    def predict(paths: list[str], damaged: tfrecords.Damaged) -> Iterator[Any]:
        return exports.predictions(
            export,
            paths,
            command.reading.eval_batch_size,
            damaged=damaged,
            threads=command.program.threads,
        )

    cannot = f"--export_dir={export.path} cannot answer"
    with tensorflow_errors.as_export_error(cannot, (tf.errors.OpError,)):
        return spec, _predict(command, spec, predict, answers, remedy=exports.RECORD_REMEDY)


def _with_checkpoint(
    command: TrainedPredict, answers: Optional[TextIO]
) -> tuple[FeatureSpec, RunResult]:
    with preparation.prepared(command) as run:

        def predict(paths: list[str], damaged: tfrecords.Damaged) -> Iterator[Any]:
            trained = preparation.trained_estimator(command, run.spec, run.model)
            input_fn = input_fns.predict_input_fn(
                run.spec, paths, batch_size=command.reading.eval_batch_size, damaged=damaged
            )
            return prediction.from_estimator(trained, input_fn)

        return run.spec, _predict(command, run.spec, predict, answers)


def _predict(
    command: Predict,
    spec: FeatureSpec,
    predict: _Predict,
    answers: Optional[TextIO],
    *,
    remedy: Optional[str] = None,
) -> RunResult:
    paths = files.expand(command.data.predict_files, flag="--predict_files", as_given=True)
    prediction.check_inputs(paths)
    prediction.check_output(command.prediction.predict_output, paths)
    if command.prediction.predict_output is not None:
        staged.check_writable(
            command.prediction.predict_output, flag="--predict_output", is_file=True
        )
    screened = bad_data.screen(
        command.program,
        command.reading,
        spec,
        {"--predict_files": paths},
        with_labels=False,
        remedy=remedy,
    )
    paths, damaged = screened.files["--predict_files"], screened.damaged
    with explained(spec, paths, with_labels=False, damaged=damaged, remedy=remedy):
        stored_records.check_kind(spec, record_lists.first_records(paths, damaged=damaged))
        kept.check_features(command.prediction.keep_columns, spec, paths, damaged)
        batches = prediction.chosen(predict(paths, damaged), command.prediction.predict_outputs)
        rows = prediction.rows(batches, command.prediction.predict_limit)
        if command.prediction.keep_columns:
            rows = _with_features(rows, command.prediction.keep_columns, spec, paths, damaged)
        count = prediction.write(rows, command.prediction.predict_output or answers)
    return RunResult(mode=command.program.mode, rows_evaluated=count, bad_data=screened.counts)


def _with_features(
    rows: Iterator[dict[str, Any]],
    names: Sequence[str],
    spec: FeatureSpec,
    paths: Sequence[str],
    damaged: tfrecords.Damaged,
) -> Iterator[dict[str, Any]]:
    """The rows, each after the features of its record with these names."""
    # The rows come first, so that no record is asked for when they end.
    for row, features in zip(rows, kept.of_files(names, spec, paths, damaged)):
        kept.check_taken(names, row)
        yield {**features, **row}
