"""`--mode=export`: writes the latest checkpoint as a SavedModel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from estimator_kit.checkpoints import reading
from estimator_kit.config.modes import Export
from estimator_kit.exporters.saved_model import RunExports
from estimator_kit.exporters.signatures import check_default
from estimator_kit.model.model_fn import ModelFn
from estimator_kit.observing import report
from estimator_kit.observing.histories import EvaluationHistory
from estimator_kit.result import RunResult
from estimator_kit.training import bad_data
from estimator_kit.training.eval_input import eval_paths
from estimator_kit.training.preparation import prepared, trained_estimator
from feature_specs.spec import FeatureSpec
from input_pipelines.integrity import stored_records
from input_pipelines.record_files import record_lists, tfrecords


def run(command: Export, tell: Callable[[str], None]) -> RunResult:
    """Writes the export, and checks it with rows of --eval_files or --input_fn if given."""
    with prepared(command) as prepared_run:
        trained = trained_estimator(command, prepared_run.spec, prepared_run.model)
        result = _export(command, prepared_run.spec, prepared_run.model, trained)
    tell(report.summary(command.run, command.data, prepared_run.spec, result))
    return result


def _export(command: Export, spec: FeatureSpec, model: ModelFn, trained: Any) -> RunResult:
    """Exports the latest checkpoint; without rows to evaluate on, it cannot be checked."""
    check_default(command.exports.default_signature, model)
    paths: list[str] = []
    damaged = tfrecords.NO_DAMAGE
    if command.data.eval_files or command.data.input_fn is not None:
        screened = bad_data.screen(
            command.program,
            command.reading,
            spec,
            {"--eval_files": eval_paths(command.program, command.data, spec)},
            with_labels=False,
            filtered=True,
        )
        paths, damaged = screened.files["--eval_files"], screened.damaged
        stored_records.check_kind(spec, record_lists.first_records(paths, damaged=damaged))
    step = reading.latest_step(command.run.model_dir)
    evaluated = {e.global_step: e for e in EvaluationHistory(command.run.model_dir).read()}
    metrics = evaluated[step].metrics if step in evaluated else {}
    exports = RunExports(command, spec, paths, damaged)
    path = exports.write(trained, "final", metrics=metrics)
    return RunResult(mode=command.program.mode, global_step=step, exports={"final": path})
