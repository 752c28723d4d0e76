"""The training modes: where training starts and ends, what runs beside it, how it comes back.

Training length is always a number of steps: epochs are turned into steps by counting rows, so that
a run that was killed and started again ends where it would have, having read the rows that it would
have read (`training.position`).
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
from collections.abc import Iterator
from typing import Any, Optional

import tensorflow as tf

from estimator_kit.checkpoints import reading, run_record
from estimator_kit.checkpoints.reading import ModelOutline
from estimator_kit.checkpoints.warm_start.warm_start import WarmStart
from estimator_kit.compat.tf_estimator import estimator
from estimator_kit.config.cluster import ClusterView
from estimator_kit.config.experiment_config import ExperimentConfig
from estimator_kit.config.rules.cluster import ALL_REDUCE, strategy_of
from estimator_kit.distributed import all_reduce
from estimator_kit.distributed.chief import Chief
from estimator_kit.errors import ConfigError, Locked, Stopped
from estimator_kit.exporters.signatures import check_default
from estimator_kit.model import pretrained_tables
from estimator_kit.model.model_fn import ModelFn
from estimator_kit.model.session_errors import explained
from estimator_kit.result import RunResult
from estimator_kit.result_file import write_result
from estimator_kit.training import (
    bad_data,
    data_service,
    finish,
    input_cache,
    lock,
)
from estimator_kit.training import (
    plan as training_plan,
)
from estimator_kit.training import (
    source as training_input,
)
from estimator_kit.training.after_evaluation import AfterEvaluation
from estimator_kit.training.hooks.input_profile import InputProfile
from estimator_kit.training.hooks.progress import PauseAtSave, ProgressHook
from estimator_kit.training.hooks.saving import SaverHook
from estimator_kit.training.hooks.stop import (
    EARLY_STOPPED,
    SIGTERM,
    InterruptHook,
    StopHook,
    StopRequest,
    stop_on_sigterm,
)
from estimator_kit.training.plan import Plan
from estimator_kit.training.run_config import make_estimator
from estimator_kit.training.source import TrainingInput, check_records, eval_paths
from estimator_kit.training.team import Team
from feature_specs.spec import FeatureSpec
from input_pipelines import input_fns
from input_pipelines.autograph import as_written
from input_pipelines.errors import DataError
from input_pipelines.reading.selection import RowCounts
from input_pipelines.row_cache.cache import RowCache

_log = logging.getLogger("estimator_kit")

# Characters of an error that result.json keeps; TensorFlow's can be pages of graph.
_LONGEST_ERROR = 2000


def run_training(
    config: ExperimentConfig,
    spec: FeatureSpec,
    model: ModelFn,
    view: Optional[ClusterView] = None,
) -> RunResult:
    """Runs `train` or `train_and_evaluate` from wherever the model directory is.

    Args:
      config, spec, model: what is trained.
      view: the cluster with ps whose chief this is; None where this process trains alone.

    Raises:
      NothingToDo: an earlier start has trained and evaluated to the end; nothing was touched.
      Stopped: SIGTERM was received; a checkpoint is saved.
      DataError, LossError, CheckpointError, ConfigError: see their docstrings.
    """
    request = StopRequest()
    if view is None:
        return _run(config, spec, model, request)
    chief = Chief(config, view, request)
    with chief.announcing_the_end():
        return _run(config, spec, model, request, chief, view)


@dataclasses.dataclass(frozen=True)
class _Prepared:
    """What was found out before anything is written."""

    source: TrainingInput
    eval_files: list[str]
    screened: bad_data.Screened
    evaluated: Optional[RowCounts]
    plan: Plan
    warm: Optional[WarmStart]
    outline: ModelOutline


def _prepare(
    config: ExperimentConfig, spec: FeatureSpec, model: ModelFn, view: Optional[ClusterView]
) -> _Prepared:
    """Does all checks."""
    assert config.model_dir is not None
    evaluates = config.mode == "train_and_evaluate"
    if strategy_of(config, view) in ALL_REDUCE:
        all_reduce.check_model(config, model)
    devices = len(all_reduce.devices(config))
    source = TrainingInput.of(config, spec, Team.of(config, view, devices))
    eval_files = eval_paths(config) if evaluates else []
    training_plan.check_apart(source.files, eval_files)
    input_cache.check(config, spec, negatives=source.negatives)
    if tf.io.gfile.exists(config.model_dir) and not tf.io.gfile.isdir(config.model_dir):
        raise ConfigError(f"--model_dir={config.model_dir} is a file; name a folder")
    outline = reading.outline(model)
    training_plan.check_metrics(config, outline)
    if evaluates and config.exporters:
        check_default(config.default_signature, model)
    start_step = training_plan.check_start(config, spec, outline)
    warm = training_plan.find_warm_start(config, spec, outline) if start_step is None else None
    screened = bad_data.screen(
        config, spec, {source.flag: source.files, "--eval_files": eval_files}
    )
    source, eval_files = source.without_bad(screened), screened.files["--eval_files"]
    evaluated = None
    if evaluates:
        check_records(spec, eval_files, "--eval_files", screened.damaged)
        with explained(spec, eval_files, damaged=screened.damaged):
            evaluated = training_input.count_evaluated(spec, eval_files, screened.damaged)
    plan = training_plan.make_plan(config, source, start_step, warm.step if warm is not None else 0)
    training_plan.check_already_done(config, plan)
    if config.data_service is not None and plan.start_step < plan.max_steps:
        data_service.wait_for_service(config)
    if start_step is None:
        pretrained_tables.check(spec)
    return _Prepared(source, eval_files, screened, evaluated, plan, warm, outline)


@contextlib.contextmanager
def _alone(config: ExperimentConfig, plan: Plan) -> Iterator[None]:
    """Holds the model directory, so that no other start trains in it at the same time.

    A folder that TensorFlow alone can reach, as one of a bucket, knows no locks and is not held.

    Raises:
      Locked: another start trains in it, or has done so since the plan was made.
    """
    assert config.model_dir is not None
    if "://" in config.model_dir:
        yield
        return
    with lock.held(config.model_dir, stale_secs=config.lock_stale_secs):
        if (reading.latest_step(config.model_dir) or 0) != (plan.resumed_at or 0):
            raise Locked(
                f"another start has trained in {config.model_dir} since this one looked at it; "
                "start again"
            )
        yield


def _run(
    config: ExperimentConfig,
    spec: FeatureSpec,
    model: ModelFn,
    request: StopRequest,
    chief: Optional[Chief] = None,
    view: Optional[ClusterView] = None,
) -> RunResult:
    assert config.model_dir is not None
    prepared = _prepare(config, spec, model, view)
    with _alone(config, prepared.plan):
        return _carry_out(config, spec, model, request, prepared, chief, view)


def _carry_out(
    config: ExperimentConfig,
    spec: FeatureSpec,
    model: ModelFn,
    request: StopRequest,
    prepared: _Prepared,
    chief: Optional[Chief],
    view: Optional[ClusterView],
) -> RunResult:
    """Trains, and writes what there is to write; all checks are through."""
    assert config.model_dir is not None
    source, plan, screened = prepared.source, prepared.plan, prepared.screened
    eval_files, warm = prepared.eval_files, prepared.warm
    evaluates = config.mode == "train_and_evaluate"
    model.warm_start = warm
    after_evaluation = AfterEvaluation(config, spec, request, eval_files, screened.damaged)
    profile = InputProfile() if config.profile_input else None
    progress = ProgressHook(
        plan.max_steps, every_secs=config.log_every_secs, shared=chief is not None
    )
    if chief is not None:
        chief.begin()
    run_record.write_record(config, spec, prepared.outline.places)
    plan.position.write(config.model_dir, config.epochs)
    screened.write(config.model_dir)
    running = RunResult(mode=config.mode, status="running", bad_data=screened.counts)
    write_result(running, config.model_dir)
    if warm is not None:
        _log.info(warm.table())
        warm.write_report(config.model_dir)
    strategy: dict[str, Any] = {}
    if config.strategy == "mirrored":
        strategy["train_distribute"] = all_reduce.mirrored(config)
    trained = make_estimator(config, model, **strategy)
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
                skip_rows = source.own_skip(plan.position)
                if chief is not None:
                    _train_with(chief, config, model, source, plan, request, progress)
                else:
                    train_input = source.input_fn(
                        skip_rows=skip_rows, counts=plan.counts, cache=cache
                    )
                    _train(config, trained, train_input, eval_input, plan, request, progress,
                           after_evaluation, [profile] if profile is not None else [])  # fmt: skip
                outcome["stop_reason"] = _stop_reason(config, request, plan)
                step = reading.latest_step(config.model_dir) or 0
                outcome.update(
                    _rows(config, source, plan, progress.rows, outcome["stop_reason"], step,
                          alone=chief is None)
                )  # fmt: skip
            else:
                outcome["stop_reason"] = "already_done"
            if evaluates and chief is not None and chief.leaves_evaluation():
                _log.info("the evaluator scores the last checkpoint and writes the exports")
            elif evaluates:
                if chief is not None:  # An evaluator may have gone on with their records.
                    after_evaluation = AfterEvaluation(
                        config, spec, request, eval_files, screened.damaged
                    )
                if not finish.is_evaluated(after_evaluation, config.model_dir):
                    finish.evaluate_now(trained, eval_input, request, after_evaluation)
                outcome["exports"] = finish.final_exports(config, trained, after_evaluation)
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
            global_step=reading.latest_step(config.model_dir),
            metrics=metrics,
            examples_per_second=progress.examples_per_second,
            steps_planned=plan.max_steps,
            input_profile=(profile.result or {}) if profile is not None else {},
            rows_evaluated=int(metrics.get("rows", 0)),
            rows_selected=training_plan.selected_rows(source, plan, prepared.evaluated),
            bad_data=screened.counts,
            input_cache=input_cache.summary(cache),
            task=view.name if view is not None else None,
            **{"rows_trained": progress.rows, "exports": after_evaluation.exports, **outcome},
        )
        write_result(result, config.model_dir)
    return result


@as_written  # A strategy would have AutoGraph read the model.
def _train(
    config: ExperimentConfig,
    trained: Any,
    train_input: Any,
    eval_input: Any,
    plan: Plan,
    request: StopRequest,
    progress: ProgressHook,
    after_evaluation: AfterEvaluation,
    hooks: list[InputProfile],
) -> None:
    """Trains to the end of the plan, with an evaluation after each checkpoint where asked for."""
    train_spec = estimator.TrainSpec(
        train_input,
        max_steps=plan.max_steps,
        hooks=[
            SaverHook(trained.config), progress, StopHook(request), *data_service.hooks(config),
            *hooks,
        ],
        saving_listeners=[PauseAtSave(progress)],
    )  # fmt: skip
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


def _train_with(
    chief: Chief,
    config: ExperimentConfig,
    model: ModelFn,
    source: TrainingInput,
    plan: Plan,
    request: StopRequest,
    progress: ProgressHook,
) -> None:
    """As `_train`, as the chief of a cluster; evaluation is not its work."""

    def make_input() -> Any:
        assert config.model_dir is not None
        step = reading.latest_step(config.model_dir)
        counts = plan.counts
        skip_rows = source.own_skip(plan.position if step is None else plan.position.at(step))
        if skip_rows and counts is None:  # A server was lost in a start that skipped none.
            counts = source.count(epochs=config.epochs, skip_rows=skip_rows)
        return source.input_fn(skip_rows=skip_rows, counts=counts)

    with chief.heeding_the_evaluator():
        chief.train(
            model, make_input, max_steps=plan.max_steps, hooks=[progress, StopHook(request)],
            saving_listeners=[PauseAtSave(progress)],
        )  # fmt: skip
    if request.reason == SIGTERM:
        raise Stopped("stopped by SIGTERM; the checkpoint is saved")


def _rows(
    config: ExperimentConfig,
    source: TrainingInput,
    plan: Plan,
    read: int,
    reason: str,
    step: int,
    *,
    alone: bool,
) -> dict[str, int]:
    """Rows that were trained on, and of the epochs those that were not.

    Args:
      read: by this process.
      reason: why training ended.
      step: where it did.
      alone: whether no other process has trained.

    Raises:
      DataError: fewer rows came than the files had when they were counted.
    """
    exhausted = reason == "input_exhausted"
    if config.data_service is not None:
        planned = plan.rows if exhausted else None
        return {"rows_trained": read, "rows_lost": data_service.lost_rows(config, planned, read)}
    trained, lost = (read, 0) if alone else training_plan.rows_of_all(plan, source, step)
    if exhausted and alone and plan.rows is not None:
        lost = max(0, plan.rows - read)
    changes = source.changed_files() if lost else []
    if lost and (changes or alone):
        raise DataError(
            f"the training files had {lost:,} rows less than were counted at the start "
            f"({plan.rows or 0:,}): {'; '.join(changes) or 'none has another size or time now'}. "
            f"The model is trained to step {step} of {plan.max_steps}; leave files alone while "
            "they are read, and start again"
        )
    if lost:
        _log.warning("%s rows were not trained on: a task that was to read them is gone", lost)
    return {"rows_trained": trained, "rows_lost": lost}


def _stop_reason(config: ExperimentConfig, request: StopRequest, plan: Plan) -> str:
    assert config.model_dir is not None
    step = reading.latest_step(config.model_dir) or 0
    if request.reason == EARLY_STOPPED and step < plan.max_steps:
        return EARLY_STOPPED
    return plan.stop_reason
