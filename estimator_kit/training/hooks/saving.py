"""Saves checkpoints at multiples of --save_checkpoints_steps, whatever step a start begins at.

TensorFlow counts from the last checkpoint. So a run that was stopped at step 26 would save and
evaluate at steps 51, 76 and so on, and an undisturbed run at 50 and 75. The best export and early
stopping would then compare other steps.

TensorFlow also writes the graph as text (graph.pbtxt), again with each checkpoint (.meta), and
twice into the event file. Nothing reads these copies, and with 2,000 columns they are hundreds of
megabytes. So the graph is written only once, into the event file, for TensorBoard. `--mode=inspect`
builds it again when it is asked for.

While a checkpoint is saved and evaluated, `unfinished.json` names it.
"""

from __future__ import annotations

import time
from typing import Any, Optional

import tensorflow as tf

from estimator_kit.training import unfinished
from estimator_kit.training.hooks.stop import SIGTERM, StopRequest


class AtMultiples(tf.compat.v1.train.SecondOrStepTimer):
    """Triggers at multiples of `every_steps`, or `every_secs` after its last time.

    The base class reads the clock of the system. Without this class, a clock that is set back an
    hour would stop the saving of checkpoints for an hour.
    """

    _since = 0.0

    def should_trigger_for_step(self, step: int) -> bool:
        last, every = self.last_triggered_step(), self._every_steps
        if last is None or last == step:
            return last is None
        if every:
            return bool(step // every > last // every)
        return bool(time.monotonic() >= self._since + self._every_secs)

    def update_last_triggered_step(self, step: int) -> Any:
        self._since = time.monotonic()
        return super().update_last_triggered_step(step)


class SaverHook(tf.compat.v1.train.CheckpointSaverHook):
    """`CheckpointSaverHook` with `AtMultiples`. The Estimator then adds no saver hook itself.

    Args:
      run_config: the RunConfig, with the model directory and the interval.
      listeners: run when a checkpoint is saved.
      evaluated: the request to stop, if TensorFlow evaluates each checkpoint that is saved.
    """

    def __init__(
        self,
        run_config: Any,
        listeners: Optional[list[Any]] = None,
        evaluated: Optional[StopRequest] = None,
    ):
        seconds, steps = run_config.save_checkpoints_secs, run_config.save_checkpoints_steps
        super().__init__(
            run_config.model_dir,
            save_secs=seconds,
            save_steps=steps,
            listeners=listeners,
            save_graph_def=False,
        )
        self._model_dir, self._request = run_config.model_dir, evaluated
        self._timer = AtMultiples(every_secs=seconds, every_steps=steps)
        with tf.Graph().as_default():  # A new writer writes the current graph twice.
            tf.compat.v1.summary.FileWriterCache.get(run_config.model_dir)

    def after_create_session(self, session: Any, coord: Any) -> None:
        """As in the base class, but writes the graph once, without the shapes of its tensors."""
        step = session.run(self._global_step_tensor)
        graph = tf.compat.v1.get_default_graph().as_graph_def().SerializeToString()
        event = tf.compat.v1.Event(wall_time=time.time(), graph_def=graph)
        self._summary_writer.add_event(event)
        self._save(session, step)
        self._timer.update_last_triggered_step(step)

    def _save(self, session: Any, step: int) -> Any:
        """Saves a checkpoint; the listeners then evaluate it, except the first one."""
        last, request = self._timer.last_triggered_step(), self._request
        # A SIGTERM saves at any step. An undisturbed training does not evaluate it.
        by_sigterm = request is not None and request.reason == SIGTERM and last != step
        if request is None or last is None or by_sigterm:
            return super()._save(session, step)
        unfinished.begin(self._model_dir, int(step))
        stops = super()._save(session, step)
        unfinished.end(self._model_dir)
        return stops
