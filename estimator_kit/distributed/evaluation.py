"""An evaluator, from start to end: it scores new checkpoints, and always the last one.

It is not part of the cluster. It has no server, reads all of --eval_files in its own graph, and
learns about the training only from the model directory. Only the evaluator writes
`eval_history.jsonl` and the exports. At the end it adds metrics and exports to the chief's
`result.json`.

tf.estimator's evaluator ends only at the step `max_steps`. If training ends earlier, it runs
without end. This evaluator ends when the chief writes its end mark.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import Counter
from typing import Optional

import tensorflow as tf

from estimator_kit.checkpoints import reading
from estimator_kit.checkpoints.scores_meaning import ScoresMeaning
from estimator_kit.config.areas.program import Program
from estimator_kit.config.cluster import ClusterView
from estimator_kit.config.modes import InFolder, Train
from estimator_kit.distributed.lost_tasks import Watch
from estimator_kit.distributed.waiting import DONE, EVALUATOR, Mark, Marks, goal_of
from estimator_kit.errors import Stopped
from estimator_kit.model.model_fn import ModelFn
from estimator_kit.model.session_errors import explained
from estimator_kit.result import EARLY_STOPPED, SIGTERM, RunResult, read_result, result_path
from estimator_kit.training import after_evaluation, bad_data, catalogues, unfinished
from estimator_kit.training.after_evaluation import AfterEvaluation
from estimator_kit.training.eval_input import EvalInput, all_paths
from estimator_kit.training.hooks.stop import StopRequest, stop_on_sigterm
from estimator_kit.training.run_config import make_estimator
from estimator_kit.training.source import TrainingInput
from estimator_kit.training.team import needs_all_workers
from feature_specs.spec import FeatureSpec

_log = logging.getLogger("estimator_kit")

# Seconds between two looks for a checkpoint.
_LOOK = 0.5

# How often a damaged checkpoint is read before that is an error.
_TRIES = 10


class _Evaluator:
    def __init__(self, command: Train, spec: FeatureSpec, model: ModelFn, request: StopRequest):
        self.model_dir = command.run.model_dir
        self.request = request
        self.scored: Optional[str] = None
        self._damaged: Counter[str] = Counter()  # How often a checkpoint could not be read.
        self._training, self._spec, self._model = command.training, spec, model
        screened = bad_data.screen(
            command.program,
            command.reading,
            spec,
            all_paths(command.program, command.data, spec),
        )
        if model.catalogue_columns is not None:
            source = TrainingInput.of(command, spec)
            catalogues.read(command, spec, model, source.files, screened)
        self.trained = make_estimator(command, model)
        self._eval_input = eval_input = EvalInput.of(command, spec, screened)
        self.meaning = ScoresMeaning.of(command, spec, model, eval_input.files, eval_input.left_out)
        self.after = AfterEvaluation(command, spec, self.request, eval_input, meaning=self.meaning)
        self._input = self.after.reading()
        self._last = float("-inf")
        begun = unfinished.unfinished_step(self.model_dir)
        self._begun = None if begun is None else os.path.join(self.model_dir, f"model.ckpt-{begun}")

    def newest(self) -> Optional[str]:
        """The latest checkpoint after step 0, if it is not scored yet.

        Before it comes the one that an earlier start of this task has not scored to the end.
        """
        if self._begun is not None and tf.io.gfile.exists(f"{self._begun}.index"):
            return self._begun
        checkpoint = tf.train.latest_checkpoint(self.model_dir)
        if checkpoint is None or checkpoint == self.scored or checkpoint.endswith("-0"):
            return None
        return str(checkpoint)

    def is_due(self) -> bool:
        return time.monotonic() - self._last >= self._training.eval_throttle_secs

    def score(self, checkpoint: str) -> None:
        """Evaluates and exports a checkpoint. Skips a checkpoint that was deleted meanwhile."""
        self._last = time.monotonic()
        try:
            with explained(
                self._spec,
                self._eval_input.all_files,
                damaged=self._eval_input.damaged,
                model=self._model,
            ):
                unfinished.begin_work(self.model_dir, after_evaluation.step_in_name(checkpoint))
                self.after.evaluate(self.trained, self._input, checkpoint)
                unfinished.end_work(self.model_dir)
        except (tf.errors.NotFoundError, tf.errors.DataLossError, ValueError) as error:
            if tf.io.gfile.exists(f"{checkpoint}.index"):
                self._damaged[checkpoint] += 1
                is_damaged = isinstance(error, tf.errors.DataLossError)
                if not is_damaged or self._damaged[checkpoint] >= _TRIES:
                    raise
                # A chief that was started again writes the checkpoint that it has read once more.
                _log.info("%s cannot be read now, so it is read again", checkpoint)
                threading.Event().wait(_LOOK)
                self._last = float("-inf")
                return
            _log.warning(
                "%s was removed while it was scored or exported. Raise --keep_checkpoint_max to "
                "keep more checkpoints.",
                checkpoint,
            )
            return
        self.scored, self._begun = checkpoint, None
        if self.request.reason == EARLY_STOPPED:
            Marks(self.model_dir).write("stop")


def run_evaluator(
    command: Train, spec: FeatureSpec, model: ModelFn, view: ClusterView
) -> RunResult:
    """Scores checkpoints until training is over, then the last one, and writes the exports.

    Raises:
      Stopped: the process received SIGTERM.
      tf.errors.UnavailableError: the chief was stopped, or could not be reached for
        --cluster_timeout_secs.
      DataError, ConfigError: see their docstrings.
    """
    request, marks = StopRequest(), Marks(command.run.model_dir)
    # The watch starts first, because it sets the evaluator's mark.
    with (
        stop_on_sigterm(request),
        Watch(
            view,
            marks,
            seconds=command.cluster.cluster_timeout_secs,
            goal=goal_of(command.settings, spec),
            presence=EVALUATOR,
            workers_needed=needs_all_workers(command.cluster),
        ) as watch,
    ):
        own = _Evaluator(command, spec, model, request)
        said = False
        while True:
            # Checked before `newest`: the last checkpoint is saved before training is over.
            over = watch.over()
            if over and _is_all_done(command.program, command.run, watch.end, own.meaning):
                _log.info("the last checkpoint is scored, and the exports are written")
                return RunResult(
                    mode=command.program.mode, task=view.name, metrics=own.after.metrics
                )
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
        end = watch.end
    unfinished.begin_work(own.model_dir, reading.latest_step(own.model_dir) or 0)
    if end is not None and end.status == DONE and own.scored is not None:
        own.after.finish(own.trained)
    kept = read_result(own.model_dir)
    result = RunResult(
        mode=command.program.mode,
        task=view.name,
        exports=own.after.exports,
        global_step=reading.latest_step(own.model_dir),
        scores=own.meaning.digest,
        **own.after.of_result(kept.stop_reason if kept is not None else None),
    )
    if kept is not None and result.metrics:
        _complete(own.model_dir, kept, result)
    watch.check()
    return result


def _is_all_done(
    program: Program, run: InFolder, end: Optional[Mark], meaning: ScoresMeaning
) -> bool:
    """Whether the chief, or an earlier start of this task, has scored the last checkpoint."""
    if end is None or end.status != DONE:
        return False
    kept = read_result(run.model_dir) or RunResult(mode=program.mode)
    # In a cluster with an evaluator, the evaluator adds the metrics, and does so at the very end.
    completed = bool(kept.metrics) and meaning.is_of(kept.scores)
    completed = completed and unfinished.unfinished_step(run.model_dir) is None
    is_last = kept.global_step == reading.latest_step(run.model_dir)
    return end.scored_by != EVALUATOR or (completed and is_last)


def _complete(model_dir: str, kept: RunResult, result: RunResult) -> None:
    """Adds the evaluator's metrics and exports to the result that the chief has written."""
    names = {"metrics", "eval_sets", "best", "rows_evaluated", "scores", "exports"}
    path = result_path(model_dir)
    kept.model_copy(update={name: getattr(result, name) for name in names}).save(path)
    _log.info("metrics and exports are in %s", os.path.basename(path))
