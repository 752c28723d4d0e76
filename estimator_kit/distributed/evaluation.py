"""The life of an evaluator: it scores each checkpoint that comes, the last one for certain.

Stands outside the cluster: it has no server, reads all of --eval_files in a graph of its own, and
knows of the training what is in the model directory. It alone writes `eval_history.jsonl` and the
exports, and at the end puts metrics and exports into the chief's `result.json`.

tf.estimator's own loop ends with the step `max_steps` alone: where training ends before, it never
does. Here the chief's word ends it.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from typing import Any, Optional

import tensorflow as tf

from estimator_kit import storage
from estimator_kit.checkpoints import reading
from estimator_kit.config.cluster import ClusterView
from estimator_kit.config.mode_configs import ModelDirConfig
from estimator_kit.distributed.lost_tasks import Watch
from estimator_kit.distributed.marks import DONE, EVALUATOR, Marks, goal_of
from estimator_kit.errors import Stopped
from estimator_kit.model.model_fn import ModelFn
from estimator_kit.model.session_errors import explained
from estimator_kit.result import RunResult
from estimator_kit.result_file import read_result, result_path
from estimator_kit.training import bad_data, finish
from estimator_kit.training.after_evaluation import AfterEvaluation
from estimator_kit.training.eval_input import EvalInput, eval_paths
from estimator_kit.training.hooks.stop import (
    EARLY_STOPPED,
    SIGTERM,
    InterruptHook,
    StopRequest,
    stop_on_sigterm,
)
from estimator_kit.training.run_config import make_estimator
from estimator_kit.training.team import needs_all_workers
from feature_specs.spec import FeatureSpec

_log = logging.getLogger("estimator_kit")

# Seconds between two looks for a checkpoint.
_LOOK = 0.5


class _Evaluator:
    def __init__(
        self, config: ModelDirConfig, spec: FeatureSpec, model: ModelFn, request: StopRequest
    ):
        self.model_dir = config.model_dir
        self.request = request
        self.scored: Optional[str] = None
        self._config, self._spec, self._model = config, spec, model
        self.trained = make_estimator(config, model)
        screened = bad_data.screen(config, spec, {"--eval_files": eval_paths(config)})
        self._given = given = EvalInput.of(config, spec, screened)
        self.after = AfterEvaluation(config, spec, self.request, given.files, given.damaged)
        self._input = given.input_fn()
        self._last = float("-inf")

    def newest(self) -> Optional[str]:
        """The latest checkpoint that was trained at all, if it is not scored yet."""
        found = tf.train.latest_checkpoint(self.model_dir)
        if found is None or found == self.scored or found.endswith("-0"):
            return None
        return str(found)

    def is_due(self) -> bool:
        return time.monotonic() - self._last >= self._config.eval_throttle_secs

    def score(self, checkpoint: str) -> None:
        """Evaluates a checkpoint and writes what follows; leaves one out that is gone by now."""
        self._last = time.monotonic()
        try:
            with explained(
                self._spec, self._given.files, damaged=self._given.damaged, model=self._model
            ):
                metrics = self.trained.evaluate(
                    self._input, hooks=[InterruptHook(self.request)], checkpoint_path=checkpoint
                )
                self.after.export(self.trained, "", checkpoint, metrics, False)
        except (tf.errors.NotFoundError, tf.errors.DataLossError, ValueError):
            if tf.io.gfile.exists(f"{checkpoint}.index"):
                raise
            _log.warning(
                "%s was removed while it was scored or exported; a higher --keep_checkpoint_max "
                "keeps more",
                checkpoint,
            )
            return
        self.scored = checkpoint
        _log.info(
            "scored step %d: loss %.5f", int(metrics["global_step"]), self.after.metrics["loss"]
        )
        if self.request.reason == EARLY_STOPPED:
            Marks(self.model_dir).write("stop")


def run_evaluator(
    config: ModelDirConfig, spec: FeatureSpec, model: ModelFn, view: ClusterView
) -> RunResult:
    """Scores checkpoints until training is over, and the last one; then writes the exports.

    Raises:
      Stopped: SIGTERM was received.
      tf.errors.UnavailableError: the chief was stopped, or gone for longer than
        --cluster_timeout_secs.
      DataError, ConfigError: see their docstrings.
    """
    request, marks = StopRequest(), Marks(config.model_dir)
    # Watching first: it says that there is an evaluator.
    with (
        stop_on_sigterm(request),
        Watch(
            view,
            marks,
            seconds=config.cluster_timeout_secs,
            goal=goal_of(config),
            presence=EVALUATOR,
            workers_needed=needs_all_workers(config),
        ) as watch,
    ):
        own = _Evaluator(config, spec, model, request)
        said = False
        while True:
            over = watch.over()  # Looked at first: what it said was saved before.
            if over and _is_all_done(config, watch.end):
                _log.info("the last checkpoint is scored, and the exports are written")
                return RunResult(mode=config.mode, task=view.name, metrics=own.after.metrics)
            checkpoint = own.newest()
            if checkpoint is not None and (over or (own.is_due() and not watch.may_be_over())):
                own.score(checkpoint)
                continue
            if over:
                break
            if own.request.reason == SIGTERM:
                raise Stopped(f"{view.name} was stopped by SIGTERM")
            if not said and own.scored is None:
                said = True
                _log.info(
                    "%s waits for the first checkpoint of chief:0 at %s", view.name, view.chief
                )
            threading.Event().wait(_LOOK)
        end = watch.end or {}
    exports: dict[str, str] = dict(own.after.exports)
    if end.get("status") == DONE and own.scored is not None:
        exports = finish.final_exports(config, own.trained, own.after)
    result = RunResult(
        mode=config.mode,
        task=view.name,
        metrics=own.after.metrics,
        exports=exports,
        global_step=reading.latest_step(own.model_dir),
        rows_evaluated=int(own.after.metrics.get("rows", 0)),
    )
    _complete(own.model_dir, result)
    watch.check()
    return result


def _is_all_done(config: ModelDirConfig, end: Optional[dict[str, Any]]) -> bool:
    """Whether the chief, or a former start of this task, has scored the last checkpoint."""
    if end is None or end.get("status") != DONE:
        return False
    kept = read_result(config.model_dir) or {}
    # The metrics of a cluster with an evaluator are its own, and written when all else is.
    completed = bool(kept.get("metrics"))
    is_last = kept.get("global_step") == reading.latest_step(config.model_dir)
    return end.get("scored_by") != EVALUATOR or (completed and is_last)


def _complete(model_dir: str, result: RunResult) -> None:
    """Puts what the evaluator knows into the result that the chief has written."""
    kept = read_result(model_dir)
    if kept is None or not result.metrics:
        return
    kept.update(
        metrics=dict(result.metrics),
        rows_evaluated=result.rows_evaluated,
        exports=dict(result.exports),
        export_path=result.export_path,
    )
    path = result_path(model_dir)
    storage.write_json(path, kept)
    _log.info("metrics and exports are in %s", os.path.basename(path))
