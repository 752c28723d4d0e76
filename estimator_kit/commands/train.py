"""`--mode=train_and_evaluate` and `--mode=train`: trains a model."""

from __future__ import annotations

import importlib.util
import logging
import os
from collections.abc import Callable
from typing import Optional

from estimator_kit.commands import reference_models
from estimator_kit.commands.services import Services
from estimator_kit.config.areas.exports import metric_of
from estimator_kit.config.cluster import view_of
from estimator_kit.config.modes import Train
from estimator_kit.distributed import tasks
from estimator_kit.errors import NothingToDo, Stopped
from estimator_kit.observing import report
from estimator_kit.observing.outcome import in_words
from estimator_kit.observing.page import page
from estimator_kit.observing.tensorboard import ending
from estimator_kit.result import RunResult, read_result
from estimator_kit.scoring import measured
from estimator_kit.training import bad_data, unfinished
from estimator_kit.training.eval_input import eval_paths
from feature_specs.parser import parser
from feature_specs.spec import FeatureSpec

_log = logging.getLogger("estimator_kit")


def run(command: Train, tell: Callable[[str], None]) -> RunResult:
    """Trains, alone or as a task of a cluster (see `training.run`), and writes the report page.

    The last line names the command that starts TensorBoard.
    """
    spec = parser.load(command.run.spec)
    if command.program.mode == "train_and_evaluate":
        measured.check(spec, by=command.exports.slices, with_importance=command.exports.importance)
    services = Services(command.program, command.run, command.watching)
    compares = command.program.mode != "train" and bool(command.exports.reference_models)
    if compares and importlib.util.find_spec("sklearn") is None:
        _log.warning("--reference_models needs scikit-learn: nothing will be compared at the end")
    try:
        result = tasks.train(command, spec)
    except NothingToDo:
        # If an earlier start was killed before it had reported the end, that is still to do.
        left = unfinished.unfinished_step(command.run.model_dir) is not None
        result = read_result(command.run.model_dir) or RunResult(mode=command.program.mode)
        to_compare = compares and reference_models.missing(command.exports, result)
        if command.program.mode == "train" or not (left or to_compare):
            raise
    except BaseException as error:
        view = view_of(command.settings, os.environ)
        if view is None or view.is_chief:
            services.training("stopped" if isinstance(error, Stopped) else "failed")
        raise
    if compares and result.exports:
        result = reference_models.compare(command, spec, result)
    tell(report.summary(command.run, command.data, spec, result, command.training))
    metric = metric_of(command.exports.best_metric)
    is_undefined = in_words(result.metrics.get(metric, 0.0)) == in_words(None)
    if "best" in command.exports.exporters and is_undefined and result.best is None:
        tell(
            f"WARNING: {metric} is undefined in all evaluations, so no SavedModel of the best one "
            "exists. Use other evaluation rows, or another --best_metric."
        )
    problem: Optional[Exception] = None
    if result.exports and command.program.mode == "train_and_evaluate":
        try:
            _measure(command, spec, result)
        except Exception as error:  # The training has ended, so page and services come first.
            problem = error
    if command.watching.report == "on" and result.export_path is not None:
        _count_flops(command.run.model_dir, result.export_path)
    if result.task is None or result.metrics:  # In a cluster, the task that has evaluated.
        if command.watching.report == "on":
            tell(page.attempt(lambda: page.write(command.run.model_dir)))
        services.training("done")
        measured_slices = command.program.mode == "train_and_evaluate" and bool(
            command.exports.slices
        )
        with_slices = measured_slices and bool(result.exports) and problem is None
        step = result.global_step or 0
        tell(ending.finish(command.run.model_dir, spec, step, with_slices=with_slices))
        if problem is None:
            unfinished.end_work(command.run.model_dir)
    if problem is not None:
        raise problem
    return result


def _count_flops(model_dir: str, export: str) -> None:
    """For the report page. The training has succeeded, so an error here is a warning."""
    try:
        measured.write_flops(model_dir, export)
    except Exception as error:
        _log.warning("the operations of %s could not be counted: %s", export, error)


def _measure(command: Train, spec: FeatureSpec, result: RunResult) -> None:
    assert result.export_path is not None
    if not command.exports.slices and not command.exports.importance:
        return
    measured.forget(
        command.run.model_dir, by=command.exports.slices, with_importance=command.exports.importance
    )
    screened = bad_data.screen(
        command.program,
        command.reading,
        spec,
        {"--eval_files": eval_paths(command.program, command.data, spec)},
    )
    measured.write(
        command.run.model_dir,
        spec,
        result.export_path,
        screened.files["--eval_files"],
        damaged=screened.damaged,
        by=command.exports.slices,
        with_importance=command.exports.importance,
    )
