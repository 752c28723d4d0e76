"""`run`: one experiment from its config to its result. The way through, in the order it is walked:

  1. the spec is read, the model made, and the default data where they are asked for and missing
     (`training.preparation`);
  2. the mode does its work: `distributed.tasks` for train and train_and_evaluate, the rest is here;
  3. the result is returned, and kept in the model directory by the modes that write there.
"""

from __future__ import annotations

import logging
import os
from typing import Any, Optional

from estimator_kit.checkpoints import damage, reading, run_record
from estimator_kit.commands import (
    analyze,
    check_data,
    data_service,
    inspect,
    schema,
    validate,
    validate_data,
    validate_pretrained,
)
from estimator_kit.config.experiment_config import ExperimentConfig
from estimator_kit.config.modes import RETRAINING_MODES, SERVICE_MODES
from estimator_kit.distributed import tasks
from estimator_kit.errors import ConfigError
from estimator_kit.exporters.run_exports import RunExports
from estimator_kit.exporters.signatures import check_default
from estimator_kit.model.model_fn import ModelFn, read_metrics
from estimator_kit.model.session_errors import explained
from estimator_kit.result import RunResult
from estimator_kit.scoring import prediction
from estimator_kit.training import bad_data, input_cache
from estimator_kit.training.after_evaluation import EvaluationHistory
from estimator_kit.training.eval_input import EvalInput, eval_paths
from estimator_kit.training.preparation import prepare
from estimator_kit.training.records import summary
from estimator_kit.training.run_config import make_estimator
from feature_specs.parser import parser
from feature_specs.spec import FeatureSpec
from input_pipelines import input_fns
from input_pipelines.integrity import stored_records
from input_pipelines.reading import files
from input_pipelines.record_files import file_systems, tfrecords

_log = logging.getLogger("estimator_kit")


def run(config: ExperimentConfig) -> RunResult:
    """Runs one experiment.

    Raises:
      SpecError, ConfigError: something in the config or spec cannot be used; nothing was written.
      DataError, LossError: the data cannot be trained on.
      NothingToDo, Stopped: see `training.run.Training.run`.
    """
    if config.mode == "analyze":
        _log.info(analyze.run_analysis(config))
        return RunResult(mode=config.mode)
    if config.mode == "inspect":
        file_systems.check(str(config.inspect_path), flag="--inspect_path")
        _log.info(inspect.inspect(config))
        return RunResult(mode=config.mode)
    if config.mode == "transform":
        from estimator_kit.commands import transform

        _log.info(transform.transform(config))
        return RunResult(mode=config.mode)
    if config.mode in ("import_schema", "export_schema"):
        _log.info(schema.exchange(config))
        return RunResult(mode=config.mode)
    if config.mode == "check_data":
        result, text = check_data.run_check(config)
        _log.info(text)
        return result
    if config.mode in SERVICE_MODES:
        data_service.serve(config)
        return RunResult(mode=config.mode)
    if config.mode in RETRAINING_MODES:
        from estimator_kit.commands import retrain

        result, text = retrain.run(config)
        _log.info(text)
        return result
    if config.mode == "predict" and config.predict_dir is not None:
        from estimator_kit.scoring import scoring

        result, text = scoring.run(config)
        _log.info(text)
        return result
    if config.mode == "validate":
        spec = parser.load(config.spec)
        for line in validate_pretrained.report(config, spec):
            _log.info(line.strip())
        for line in validate.report(config, spec):
            _log.info(line.strip())
        for report in validate_data.reports(config):
            _log.info(report)
        return RunResult(mode=config.mode)
    if config.mode in ("train", "train_and_evaluate"):
        return tasks.train(config)
    prepared = prepare(config)
    with damage.named(config.model_dir, config.warm_start_from):
        return _of_mode(config, prepared.spec, prepared.model)


def _of_mode(
    config: ExperimentConfig, spec: FeatureSpec, model: Optional[ModelFn]
) -> RunResult:
    if config.mode == "predict":
        return _predict(config, spec, model)
    assert model is not None
    trained = _trained(config, spec, model)
    if config.mode == "evaluate":
        return _evaluate(config, spec, model, trained)
    return _export(config, spec, model, trained)


def _trained(config: ExperimentConfig, spec: FeatureSpec, model: ModelFn) -> Any:
    """The Estimator of a model directory whose latest checkpoint fits the model."""
    assert config.model_dir is not None
    checkpoint = reading.latest(config.model_dir)
    if checkpoint is None:
        raise ConfigError(f"--model_dir={config.model_dir} has no checkpoint; train first")
    outline = reading.outline(model)
    run_record.check_spec_unchanged(config.model_dir, spec, outline.places)
    wanted = {name: outline.variables[name] for name in outline.weights}
    reading.check_fit(checkpoint, wanted, ignore_extra=True)
    return make_estimator(config, model)


def _evaluate(
    config: ExperimentConfig, spec: FeatureSpec, model: ModelFn, trained: Any
) -> RunResult:
    input_cache.check(config, spec)
    screened = bad_data.screen(config, spec, {"--eval_files": eval_paths(config)})
    given = EvalInput.of(config, spec, screened)
    with input_cache.opened(config) as cache, explained(
        spec, given.files, damaged=given.damaged, model=model, cache=cache
    ):
        metrics = read_metrics(trained.evaluate(given.input_fn(cache), name=config.eval_name))
    result = RunResult(
        mode=config.mode,
        global_step=int(metrics["global_step"]),
        metrics=metrics,
        rows_evaluated=int(metrics["rows"]),
        rows_selected={"eval": summary([given.counts])} if given.counts else {},
        input_cache=input_cache.summary(cache),
        bad_data=screened.counts,
    )
    assert config.model_dir is not None
    path = os.path.join(config.model_dir, f"evaluation-{config.eval_name}.json")
    result.write_to(
        path, eval_name=config.eval_name, checkpoint=trained.latest_checkpoint(),
        eval_files=given.files,
    )  # fmt: skip
    _log.info("the numbers of this evaluation are in %s", path)
    return result


def _export(
    config: ExperimentConfig, spec: FeatureSpec, model: ModelFn, trained: Any
) -> RunResult:
    """Exports the latest checkpoint; without --eval_files nothing can be asked of it."""
    assert config.model_dir is not None
    check_default(config.default_signature, model)
    paths: list[str] = []
    damaged = tfrecords.NO_DAMAGE
    if config.eval_files:
        screened = bad_data.screen(
            config, spec, {"--eval_files": eval_paths(config)}, with_labels=False
        )
        paths, damaged = screened.files["--eval_files"], screened.damaged
        stored_records.check_kind(spec, tfrecords.first_records(paths, damaged=damaged))
    step = reading.latest_step(config.model_dir)
    evaluated = {e["global_step"]: e for e in EvaluationHistory(config.model_dir).read()}
    metrics = evaluated[step]["metrics"] if step in evaluated else {}
    exports = RunExports(config, spec, paths, damaged)
    path = exports.write(trained, "final", metrics=metrics)
    return RunResult(mode=config.mode, global_step=step, exports={"final": path})


def _predict(
    config: ExperimentConfig, spec: FeatureSpec, model: Optional[ModelFn]
) -> RunResult:
    paths = files.expand(config.predict_files, flag="--predict_files")
    prediction.check_inputs(paths)
    prediction.check_output(config.predict_output, paths)
    screened = bad_data.screen(config, spec, {"--predict_files": paths}, with_labels=False)
    paths, damaged = screened.files["--predict_files"], screened.damaged
    with explained(spec, paths, with_labels=False, damaged=damaged):
        stored_records.check_kind(spec, tfrecords.first_records(paths, damaged=damaged))
        if model is None:
            assert config.export_dir is not None
            batches = prediction.from_saved_model(
                config.export_dir, paths, config.eval_batch_size, damaged
            )
        else:
            trained = _trained(config, spec, model)
            input_fn = input_fns.predict_input_fn(
                spec, paths, batch_size=config.eval_batch_size, damaged=damaged
            )
            batches = prediction.from_estimator(trained, input_fn)
        batches = prediction.chosen(batches, config.predict_outputs)
        count = prediction.write(
            prediction.rows(batches, config.predict_limit), config.predict_output
        )
    return RunResult(mode=config.mode, rows_evaluated=count, bad_data=screened.counts)
