"""`--mode=evaluate`: evaluates the latest checkpoint, or an export (--export_dir)."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any, Optional, TextIO

from estimator_kit.config.modes import Evaluate, TrainedEvaluate
from estimator_kit.model.model_fn import ModelFn
from estimator_kit.model.names import read_metrics
from estimator_kit.model.session_errors import explained
from estimator_kit.observing import report
from estimator_kit.result import EvalSet, EvaluationResult, RunResult, evaluation_path
from estimator_kit.scoring import export_evaluation
from estimator_kit.training import bad_data, catalogues, input_cache
from estimator_kit.training.eval_input import EvalInput, all_paths
from estimator_kit.training.hooks.other_sets import OtherSets
from estimator_kit.training.hooks.progress import EvaluationProgressHook
from estimator_kit.training.hooks.summaries import CurvesHook
from estimator_kit.training.preparation import check_surroundings, prepared, trained_estimator
from estimator_kit.training.records import summary
from feature_specs.spec import FeatureSpec

_log = logging.getLogger("estimator_kit")


def run(
    command: Evaluate, tell: Callable[[str], None], answers: Optional[TextIO] = None
) -> RunResult:
    """Evaluates the latest checkpoint or an export; writes `evaluation-<eval_name>.json`.

    Without a model directory, the metrics of an export go to `answers`, as JSON.

    Raises:
      SpecError, ConfigError: see `preparation.prepared`; or there is nothing to evaluate.
      DataError: the files cannot be read, or a record cannot be used.
    """
    if command.export.export_dir is not None:
        check_surroundings(command)
        evaluated = export_evaluation.evaluate(command)
        tell(evaluated.text)
        if evaluated.path is None and answers is not None:
            print(json.dumps(evaluated.result.as_json(), indent=2, sort_keys=True), file=answers)
        return evaluated.result
    return _of_checkpoint(TrainedEvaluate.of(command.settings), tell)


def _of_checkpoint(command: TrainedEvaluate, tell: Callable[[str], None]) -> RunResult:
    with prepared(command) as run:
        catalogues.load(run.model, command.run.model_dir)
        trained = trained_estimator(command, run.spec, run.model)
        result = _evaluate(command, run.spec, run.model, trained)
    tell(report.summary(command.run, command.data, run.spec, result))
    return result


def _evaluate(
    command: TrainedEvaluate, spec: FeatureSpec, model: ModelFn, trained: Any
) -> RunResult:
    input_cache.check(command.reading, spec)
    screened = bad_data.screen(
        command.program,
        command.reading,
        spec,
        all_paths(command.program, command.data, spec),
    )
    eval_input = EvalInput.of(command, spec, screened)
    with (
        input_cache.opened(command.reading, spec, is_alone=bool(command.data.eval_files)) as cache,
        explained(spec, eval_input.all_files, damaged=eval_input.damaged, model=model, cache=cache),
    ):
        curves = CurvesHook(command.run.model_dir, command.reading.eval_name)
        others = OtherSets(
            command.run.model_dir,
            eval_input.others,
            curves=curves,
            prefix=f"{command.reading.eval_name}_",
            every_secs=command.program.log_every_secs,
        )
        progress = EvaluationProgressHook(every_secs=command.program.log_every_secs)
        evaluation = trained.evaluate(
            others.reading(eval_input, cache),
            hooks=[curves, progress, others],
            name=command.reading.eval_name,
        )
        metrics = read_metrics(evaluation)
    result = EvaluationResult(
        mode=command.program.mode,
        eval_name=command.reading.eval_name,
        eval_files=eval_input.names,
        checkpoint=trained.latest_checkpoint(),
        global_step=int(metrics["global_step"]),
        metrics=metrics,
        eval_sets={name: EvalSet.of(each) for name, each in others.metrics.items()},
        rows_evaluated=int(metrics["rows"]),
        rows_selected={"eval": summary([eval_input.counts])} if eval_input.counts else {},
        input_cache=input_cache.summary(cache),
        bad_data=screened.counts,
    )
    path = evaluation_path(command.run.model_dir, command.reading.eval_name)
    result.save(path)
    _log.info("the metrics of this evaluation are in %s", path)
    return result
