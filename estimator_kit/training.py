"""The training modes: where training starts and ends, what runs beside it, how it comes back.

Training length is always a number of steps: epochs are turned into steps by counting rows, so that
a run that was killed and started again ends where it would have, having read the rows that it would
have read (`input_position`).
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import math
from typing import Any, Optional

import tensorflow as tf

from estimator_kit import (
    bad_data,
    checkpoints,
    data_service,
    input_cache,
    pretrained_tables,
    run_record,
    training_input,
    warm_start,
)
from estimator_kit.checkpoints import ModelOutline
from estimator_kit.config import ExperimentConfig
from estimator_kit.errors import ConfigError, NothingToDo, Stopped
from estimator_kit.exporters import saved_model
from estimator_kit.exporters.after_evaluation import AfterEvaluation, export_folder
from estimator_kit.hooks.input_profile import InputProfile
from estimator_kit.hooks.progress import PauseAtSave, ProgressHook
from estimator_kit.hooks.stop import (
    EARLY_STOPPED,
    SIGTERM,
    InterruptHook,
    StopHook,
    StopRequest,
    stop_on_sigterm,
)
from estimator_kit.input_position import InputPosition, find_position
from estimator_kit.model_fn import ModelFn
from estimator_kit.result import RunResult, read_result
from estimator_kit.run_config import make_estimator
from estimator_kit.session_errors import explained
from estimator_kit.tf_estimator import estimator
from estimator_kit.training_input import TrainingInput, check_records, eval_paths
from estimator_kit.warm_start import WarmStart
from feature_specs.errors import did_you_mean
from feature_specs.schema import FeatureSpec
from input_pipelines import input_fns, label_order
from input_pipelines.row_cache.cache import RowCache
from input_pipelines.selection import RowCounts

_log = logging.getLogger("estimator_kit")

# Characters of an error that result.json keeps; TensorFlow's can be pages of graph.
_LONGEST_ERROR = 2000


@dataclasses.dataclass(frozen=True)
class _Plan:
    """Where a training starts and ends.

    Attributes:
      start_step: of the checkpoint that it goes on from, 0 without one.
      max_steps: the global step that it ends at.
      stop_reason: what that end means.
      counts: rows of the training files (of each part of a mix), where they were counted.
      position: where in them reading goes on.
    """

    start_step: int
    max_steps: int
    stop_reason: str
    counts: Optional[list[RowCounts]]
    position: InputPosition


def run_training(config: ExperimentConfig, spec: FeatureSpec, model: ModelFn) -> RunResult:
    """Runs `train` or `train_and_evaluate` from wherever the model directory is.

    Raises:
      NothingToDo: an earlier start has trained and evaluated to the end; nothing was touched.
      Stopped: SIGTERM was received; a checkpoint is saved.
      DataError, LossError, CheckpointError, ConfigError: see their docstrings.
    """
    assert config.model_dir is not None
    evaluates = config.mode == "train_and_evaluate"
    source = TrainingInput.of(config, spec)
    eval_files = eval_paths(config) if evaluates else []
    _check_apart(source.files, eval_files)
    input_cache.check(config, spec, negatives=source.negatives)
    if tf.io.gfile.exists(config.model_dir) and not tf.io.gfile.isdir(config.model_dir):
        raise ConfigError(f"--model_dir={config.model_dir} is a file; name a folder")
    outline = checkpoints.outline(model)
    _check_metrics(config, outline)
    start_step = _check_start(config, spec, outline)
    warm = _warm_start(config, spec, outline) if start_step is None else None
    screened = bad_data.screen(
        config, spec, {source.flag: source.files, "--eval_files": eval_files}
    )
    source, eval_files = source.without_bad(screened), screened.files["--eval_files"]
    evaluated = None
    if evaluates:
        check_records(spec, eval_files, "--eval_files", screened.damaged)
        with explained(spec, eval_files, damaged=screened.damaged):
            evaluated = training_input.count_evaluated(spec, eval_files, screened.damaged)
    plan = _plan(config, source, start_step, warm.step if warm is not None else 0)
    _check_already_done(config, plan)
    if config.data_service is not None and plan.start_step < plan.max_steps:
        data_service.wait_for_service(config)
    model.warm_start = warm
    if start_step is None:
        pretrained_tables.check(spec)
    request = StopRequest()
    after_evaluation = AfterEvaluation(config, spec, request)
    profile = InputProfile() if config.profile_input else None
    progress = ProgressHook(plan.max_steps, every_secs=config.log_every_secs)
    # All checks are through; from here on files are written.
    run_record.write_record(config, spec)
    plan.position.write(config.model_dir)
    screened.write(config.model_dir)
    RunResult(mode=config.mode, status="running", bad_data=screened.counts).write(config.model_dir)
    if warm is not None:
        _log.info(warm.table())
        warm.write_report(config.model_dir)
    trained = make_estimator(config, model)
    outcome: dict[str, Any] = {"status": "failed"}
    cache: Optional[RowCache] = None
    try:
        both = [*source.files, *eval_files]
        with contextlib.ExitStack() as stack:
            stack.enter_context(stop_on_sigterm(request))
            cache = stack.enter_context(input_cache.opened(config, stopped=request))
            stack.enter_context(data_service.naming_the_service(config))
            stack.enter_context(
                explained(spec, both, damaged=screened.damaged, model=model, cache=cache)
            )
            eval_input = input_fns.eval_input_fn(
                spec, eval_files, batch_size=config.eval_batch_size, limit=config.eval_steps,
                damaged=screened.damaged, cache=cache,
            )  # fmt: skip
            if plan.start_step < plan.max_steps:
                skip_rows = plan.position.skip_rows
                train_input = source.input_fn(
                    skip_rows=skip_rows, counts=plan.counts, cache=cache
                )
                _train(config, trained, train_input, eval_input, plan, request, progress,
                       after_evaluation, [profile] if profile is not None else [])  # fmt: skip
                outcome["stop_reason"] = _stop_reason(config, request, plan)
                if outcome["stop_reason"] == "input_exhausted":
                    expected = source.expected_rows(skip_rows=skip_rows, counts=plan.counts)
                    outcome["rows_lost"] = data_service.lost_rows(config, expected, progress.rows)
            else:
                outcome["stop_reason"] = "already_done"
            if evaluates:
                if not _evaluated_at(after_evaluation, config.model_dir):
                    _evaluate_now(trained, eval_input, request, after_evaluation)
                outcome["exports"] = _final_exports(config, spec, trained, after_evaluation)
        outcome["status"] = "done"
    except Stopped:
        outcome.update(status="stopped", stop_reason="sigterm")
        raise
    except Exception as error:
        outcome["error"] = f"{type(error).__name__}: {str(error)[:_LONGEST_ERROR]}"
        raise
    finally:
        if profile is not None:
            profile.close()
        metrics = after_evaluation.metrics
        result = RunResult(
            mode=config.mode,
            global_step=checkpoints.latest_step(config.model_dir),
            metrics=metrics,
            examples_per_second=progress.examples_per_second,
            rows_trained=progress.rows,
            steps_planned=plan.max_steps,
            input_profile=(profile.result or {}) if profile is not None else {},
            rows_evaluated=int(metrics.get("rows", 0)),
            rows_selected=_selected(source, plan, evaluated),
            bad_data=screened.counts,
            input_cache=input_cache.summary(cache),
            **{"exports": after_evaluation.exports, **outcome},
        )
        result.write(config.model_dir)
    return result


def _check_apart(train_files: list[str], eval_files: list[str]) -> None:
    shared = sorted(set(train_files) & set(eval_files))
    if shared:
        raise ConfigError(
            f"--train_files and --eval_files share {len(shared)} files, the first {shared[0]}: "
            "a model must not be scored on what it was trained on"
        )


def _check_metrics(config: ExperimentConfig, outline: ModelOutline) -> None:
    if config.mode != "train_and_evaluate":
        return
    asked = {"early_stopping_metric": config.early_stopping_metric}
    if "best" in config.exporters:
        asked["best_metric"] = config.best_metric
    for flag, metric in asked.items():
        if metric is not None and metric not in outline.metrics:
            raise ConfigError(
                f"--{flag}={metric}: the model has no such metric"
                f"{did_you_mean(metric, sorted(outline.metrics))}"
            )


def _check_start(
    config: ExperimentConfig, spec: FeatureSpec, outline: ModelOutline
) -> Optional[int]:
    """The step to go on from, or None; refuses a checkpoint that does not fit."""
    assert config.model_dir is not None
    checkpoint = checkpoints.latest(config.model_dir)
    if checkpoint is None:
        return None
    run_record.check_spec_unchanged(config.model_dir, spec)
    checkpoints.check_fit(checkpoint, outline.variables)
    return checkpoints.latest_step(config.model_dir)


def _warm_start(
    config: ExperimentConfig, spec: FeatureSpec, outline: ModelOutline
) -> Optional[WarmStart]:
    """What a first start takes from another model, where that is asked for."""
    if config.warm_start_from is None:
        return None
    warm = warm_start.plan(
        config.warm_start_from, outline, spec, mode=config.warm_start_mode,
        pattern=config.warm_start_vars, renames=config.warm_start_rename,
    )  # fmt: skip
    if config.max_steps is not None and warm.step >= config.max_steps:
        raise ConfigError(
            f"--warm_start_mode=all takes the step {warm.step} of {warm.checkpoint}, and "
            f"--max_steps={config.max_steps} is not above it; raise it, or take all_but_step"
        )
    return warm


def _plan(
    config: ExperimentConfig,
    source: TrainingInput,
    start_step: Optional[int],
    first_step: int,
) -> _Plan:
    """Where training goes; `first_step` is where it starts when `start_step` is None."""
    start = start_step or 0
    position = find_position(
        config, source.files, start, source.left_out, selection=source.identity()
    )
    if start_step is None and first_step:
        start, position = first_step, dataclasses.replace(position, first_step=first_step)
    counts = None
    ends: list[tuple[int, str]] = []
    if config.max_steps is not None:
        ends.append((config.max_steps, "max_steps"))
    first = check_records(source.spec, source.files, source.flag, source.damaged)
    if config.shuffle:
        for warning in label_order.warnings(source.spec, first, damaged=source.damaged):
            _log.warning(warning)
    goes_on = start < (config.max_steps or math.inf)
    skips = position.skip_rows and goes_on
    if config.epochs is not None or skips or source.must_be_counted:
        with explained(source.spec, source.files, damaged=source.damaged):
            counts = source.count(epochs=config.epochs, skip_rows=position.skip_rows)
    if config.epochs is not None and counts is not None:
        rows = sum(part.in_epochs(config.epochs) for part in counts)
        ends.append((position.first_step + math.ceil(rows / config.batch_size), "input_exhausted"))
    max_steps, reason = min(ends)
    return _Plan(start, max_steps, reason, counts, position)


def _selected(
    source: TrainingInput, plan: _Plan, evaluated: Optional[RowCounts]
) -> dict[str, dict[str, int]]:
    selected = {}
    if source.must_be_counted and plan.counts is not None:
        selected["train"] = training_input.summary(plan.counts)
    if evaluated is not None:
        selected["eval"] = training_input.summary([evaluated])
    return selected


def _check_already_done(config: ExperimentConfig, plan: _Plan) -> None:
    """Raises NothingToDo when a former start has left nothing to train, evaluate or export."""
    assert config.model_dir is not None
    before = read_result(config.model_dir) or {}
    finished = before.get("status") == "done" and before.get("global_step") == plan.start_step
    covered = before.get("mode") in (config.mode, "train_and_evaluate")
    if not (finished and covered and plan.start_step):
        return
    lost = before.get("rows_lost", 0)
    if lost and before.get("steps_planned") == plan.max_steps:
        raise NothingToDo(
            f"{config.model_dir} is already trained to the end of its epochs, at step "
            f"{plan.start_step}, less {lost:,} rows that a worker of --data_service took along; "
            "raise --max_steps or --epochs, or choose another --model_dir"
        )
    if plan.start_step >= plan.max_steps:
        raise NothingToDo(
            f"{config.model_dir} is already trained to step {plan.start_step} of "
            f"{plan.max_steps}; raise --max_steps or --epochs, or choose another --model_dir"
        )
    if before.get("stop_reason") == "early_stopped" and config.early_stopping_metric is not None:
        raise NothingToDo(
            f"{config.model_dir} was stopped early at step {plan.start_step}; drop "
            "--early_stopping_metric to go on, or choose another --model_dir"
        )


def _train(
    config: ExperimentConfig,
    trained: Any,
    train_input: Any,
    eval_input: Any,
    plan: _Plan,
    request: StopRequest,
    progress: ProgressHook,
    after_evaluation: AfterEvaluation,
    hooks: list[InputProfile],
) -> None:
    """Trains to the end of the plan, with an evaluation after each checkpoint where asked for."""
    train_spec = estimator.TrainSpec(
        train_input,
        max_steps=plan.max_steps,
        hooks=[progress, StopHook(request), *data_service.hooks(config), *hooks],
        saving_listeners=[PauseAtSave(progress)],
    )
    if config.mode == "train":
        trained.train(
            train_spec.input_fn,
            max_steps=train_spec.max_steps,
            hooks=train_spec.hooks,
            saving_listeners=train_spec.saving_listeners,
        )
    else:
        eval_spec = estimator.EvalSpec(
            eval_input,
            steps=None,  # The input_fn ends by itself; TensorFlow's default is 100 batches.
            start_delay_secs=0,
            throttle_secs=config.eval_throttle_secs,
            hooks=[InterruptHook(request)],
            exporters=[after_evaluation],
        )
        estimator.train_and_evaluate(trained, train_spec, eval_spec)
    if request.reason == SIGTERM:
        raise Stopped("stopped by SIGTERM; the checkpoint is saved")


def _final_exports(
    config: ExperimentConfig, spec: FeatureSpec, trained: Any, after_evaluation: AfterEvaluation
) -> dict[str, str]:
    """Paths of all exports, after the final one was written where it is asked for."""
    assert config.model_dir is not None
    exports = after_evaluation.exports
    if "final" in config.exporters:
        folder = export_folder(config.model_dir, "final")
        exports["final"] = saved_model.export_saved_model(trained, spec, folder)
    return exports


def _evaluated_at(after_evaluation: AfterEvaluation, model_dir: str) -> bool:
    step = after_evaluation.metrics.get("global_step")
    return step is not None and int(step) == checkpoints.latest_step(model_dir)


def _evaluate_now(
    trained: Any, eval_input: Any, request: StopRequest, after_evaluation: AfterEvaluation
) -> None:
    """The evaluation that a kill after the last checkpoint has prevented."""
    checkpoint = checkpoints.latest(trained.model_dir)
    assert checkpoint is not None
    metrics = trained.evaluate(eval_input, hooks=[InterruptHook(request)])
    after_evaluation.export(trained, "", checkpoint, metrics, is_the_final_export=True)


def _stop_reason(config: ExperimentConfig, request: StopRequest, plan: _Plan) -> str:
    assert config.model_dir is not None
    step = checkpoints.latest_step(config.model_dir) or 0
    if request.reason == EARLY_STOPPED and step < plan.max_steps:
        return EARLY_STOPPED
    return plan.stop_reason
