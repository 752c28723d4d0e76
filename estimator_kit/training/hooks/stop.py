"""Ends training cleanly: after the current step, with a saved checkpoint.

A signal handler or early stopping sets a `StopRequest`. `StopHook` checks it after each training
step, and `InterruptHook` before each evaluation step. Early stopping (`stops`) reads the
evaluations from the model directory's history, so a restart changes nothing.

Checkpoints are saved at multiples of --save_checkpoints_steps, whatever step a start begins at
(`SaverHook`). TensorFlow counts from the last checkpoint. So a run that was stopped at step 26
would save and evaluate at steps 51, 76 and so on, and an undisturbed run at 50 and 75. The best
export and early stopping would then compare other steps.

After an error that may pass (aborted, unavailable), TensorFlow makes a new session in the same
call, from the last checkpoint. But the input would start again at the row at which the process
began, so rows would be read twice and others never. So such a training ends (`OneSession`), and a
new start reads on at the right row.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Optional

import tensorflow as tf

from estimator_kit.config.areas.exports import metric_of
from estimator_kit.config.areas.training import Training
from estimator_kit.errors import SessionLost, Stopped
from estimator_kit.exporters.best import has_stalled
from estimator_kit.observing.histories import Evaluation
from estimator_kit.result import SIGTERM
from estimator_kit.training import unfinished


class StopRequest:
    """Whether and why training should end.

    Attributes:
      reason: why, or None if it should go on.
      of_a_hook: whether a hook has ended the training, not the input. At the last step, this is a
        hook of the Estimator.
    """

    def __init__(self) -> None:
        self.reason: Optional[str] = None
        self.of_a_hook = False

    def ask(self, reason: str) -> None:
        self.reason = reason

    def check(self) -> None:
        """Raises Stopped after SIGTERM."""
        if self.reason == SIGTERM:
            raise Stopped("stopped by SIGTERM; the checkpoint is saved")


class StopHook(tf.compat.v1.train.SessionRunHook):
    """Ends the training loop after a stop request. The saver hook then writes a checkpoint."""

    def __init__(self, request: StopRequest):
        self._request = request

    def after_run(self, run_context: Any, run_values: Any) -> None:
        if self._request.reason is not None:
            run_context.request_stop()

    def end(self, session: Any) -> None:
        # TensorFlow calls `end` while it handles the error of the end of the input.
        self._request.of_a_hook = not isinstance(sys.exc_info()[1], tf.errors.OutOfRangeError)


class InterruptHook(tf.compat.v1.train.SessionRunHook):
    """Stops an evaluation on SIGTERM.

    Evaluations run after a checkpoint was saved, so no training is lost. Metrics over a part of the
    rows would be wrong, so they are dropped.

    Raises:
      Stopped: before the next step after SIGTERM.
    """

    def __init__(self, request: StopRequest):
        self._request = request

    def begin(self) -> None:
        self._request.check()

    def before_run(self, run_context: Any) -> None:
        self._request.check()


@contextmanager
def stop_on_sigterm(request: StopRequest) -> Iterator[None]:
    """Turns SIGTERM into a stop request while the block runs.

    A second SIGTERM ends the process at once. Outside the main thread this does nothing, because
    Python allows signal handlers only there. A thread sets the request as well: Python runs a
    handler only when the main thread returns to Python, which may take as long as a call of
    TensorFlow.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handler(number: int, frame: Any) -> None:
        request.ask(SIGTERM)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def listen(received: int) -> None:
        with open(received, "rb", buffering=0) as numbers:
            while signals := numbers.read(64):
                if signal.SIGTERM in signals:
                    request.ask(SIGTERM)

    received, sent = os.pipe()
    os.set_blocking(sent, False)
    threading.Thread(target=listen, args=(received,), daemon=True).start()
    previous = signal.signal(signal.SIGTERM, handler)
    previous_sent = signal.set_wakeup_fd(sent, warn_on_full_buffer=False)
    try:
        yield
    finally:
        signal.set_wakeup_fd(previous_sent)
        signal.signal(signal.SIGTERM, previous)
        os.close(sent)


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

    TensorFlow also writes the graph as text (graph.pbtxt), again with each checkpoint (.meta), and
    twice into the event file. Nothing reads these copies, and with 2,000 columns they are hundreds
    of megabytes. So the graph is written only once, into the event file, for TensorBoard.
    `--mode=inspect` builds it again when it is asked for.

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
        unfinished.begin_work(self._model_dir, int(step))
        stops = super()._save(session, step)
        unfinished.end_work(self._model_dir)
        return stops


class OneSession(tf.compat.v1.train.SessionRunHook):
    """Raises SessionLost instead of making a second session, once a step has begun."""

    def __init__(self) -> None:
        self._began = False

    def after_create_session(self, session: Any, coord: Any) -> None:
        if self._began:
            raise SessionLost(
                "TensorFlow lost the session after an error that may pass, for example of a store "
                "that did not answer"
            )

    def before_run(self, run_context: Any) -> None:
        self._began = True


def stops(training: Training, evaluations: Sequence[Evaluation]) -> bool:
    """Whether a training ends after these evaluations, by its --early_stopping_... flags."""
    metric, direction = training.early_stopping_metric, training.early_stopping_direction or "min"
    return metric is not None and has_stalled(
        [evaluation.metrics.get(metric_of(metric)) for evaluation in evaluations],
        direction,
        patience=training.early_stopping_patience,
        min_delta=training.early_stopping_min_delta,
    )
