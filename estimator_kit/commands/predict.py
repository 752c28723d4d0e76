"""`--mode=predict`: predicts files, into one file or into a folder (--predict_dir)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Optional, TextIO

import tensorflow as tf

from estimator_kit import tensorflow_errors
from estimator_kit.config.experiment_config import ExperimentConfig, complete
from estimator_kit.config.mode_configs import ModelDirConfig
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
from input_pipelines.record_files import tfrecords

# Takes files and the damage in them; gives batches of predictions.
_Predict = Callable[[list[str], tfrecords.Damaged], Iterator[Any]]


def run(
    config: ExperimentConfig, tell: Callable[[str], None], answers: Optional[TextIO] = None
) -> RunResult:
    """Predicts with the export `config.export_dir`, or with the latest checkpoint.

    Raises:
      SpecError, ConfigError: something in the config or spec cannot be used.
      DataError: a file cannot be read, or a record does not fit the spec.
      ExportError: the export does not load, or cannot answer.
    """
    if config.predict_dir is not None:
        result, text = scoring.run(config)
        tell(text)
        return result
    if config.predict_output is None and answers is None:
        raise ConfigError(
            "predict_output is missing. ek.run prints no predictions: name a .jsonl or .tfrecord "
            "file."
        )
    if config.export_dir is not None:
        spec, result = _with_export(config, config.export_dir, answers)
    else:
        spec, result = _with_checkpoint(complete(config, ModelDirConfig), answers)
    tell(report.summary(config, spec, result))
    return result


def _with_export(
    config: ExperimentConfig, export_dir: str, answers: Optional[TextIO]
) -> tuple[FeatureSpec, RunResult]:
    view = preparation.check_surroundings(config)
    preparation.generate_data(config, view)
    found = exports.read(exports.newest(export_dir), config.spec, top_k=config.top_k)
    spec = exports.spec_of(found, "how to read the records")
    export = exports.choose(found, config.predict_outputs)

    def predict(paths: list[str], damaged: tfrecords.Damaged) -> Iterator[Any]:
        return exports.predictions(
            export,
            paths,
            config.eval_batch_size,
            damaged=damaged,
            threads=config.threads,
        )

    cannot = f"--export_dir={export.path} cannot answer"
    with tensorflow_errors.as_export_error(cannot, (tf.errors.OpError,)):
        return spec, _predict(config, spec, predict, answers, remedy=exports.RECORD_REMEDY)


def _with_checkpoint(
    config: ModelDirConfig, answers: Optional[TextIO]
) -> tuple[FeatureSpec, RunResult]:
    with preparation.prepared(config) as made:

        def predict(paths: list[str], damaged: tfrecords.Damaged) -> Iterator[Any]:
            trained = preparation.trained_estimator(config, made.spec, made.model)
            input_fn = input_fns.predict_input_fn(
                made.spec, paths, batch_size=config.eval_batch_size, damaged=damaged
            )
            return prediction.from_estimator(trained, input_fn)

        return made.spec, _predict(config, made.spec, predict, answers)


def _predict(
    config: ExperimentConfig,
    spec: FeatureSpec,
    predict: _Predict,
    answers: Optional[TextIO],
    *,
    remedy: Optional[str] = None,
) -> RunResult:
    paths = files.expand(config.predict_files, flag="--predict_files", as_given=True)
    prediction.check_inputs(paths)
    prediction.check_output(config.predict_output, paths)
    if config.predict_output is not None:
        staged.check_writable(config.predict_output, flag="--predict_output", is_file=True)
    screened = bad_data.screen(
        config, spec, {"--predict_files": paths}, with_labels=False, remedy=remedy
    )
    paths, damaged = screened.files["--predict_files"], screened.damaged
    with explained(spec, paths, with_labels=False, damaged=damaged, remedy=remedy):
        stored_records.check_kind(spec, tfrecords.first_records(paths, damaged=damaged))
        kept.check_features(config.keep_columns, spec, paths, damaged)
        batches = prediction.chosen(predict(paths, damaged), config.predict_outputs)
        rows = prediction.rows(batches, config.predict_limit)
        if config.keep_columns:
            rows = _with_features(rows, config.keep_columns, spec, paths, damaged)
        count = prediction.write(rows, config.predict_output or answers)
    return RunResult(mode=config.mode, rows_evaluated=count, bad_data=screened.counts)


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
