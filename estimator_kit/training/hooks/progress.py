"""Progress of training and of evaluations, for a person and for the result.

`ProgressHook` counts the rows and seconds of training only: the time for checkpoints, evaluations
and exports is not part of its rate. `observing.progress` shows the numbers.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Optional

import tensorflow as tf

from estimator_kit.errors import ConfigError
from estimator_kit.model.names import LOSS_TENSOR, ROWS_TENSOR
from estimator_kit.observing.progress import BEFORE_TIME_LEFT, Progress


class PauseAtSave(tf.compat.v1.train.CheckpointSaverListener):
    """Stops the clock of a ProgressHook while a checkpoint is saved, evaluated and exported."""

    def __init__(self, progress: ProgressHook):
        self._progress = progress

    def before_save(self, session: Any, global_step_value: int) -> None:
        self._progress.pause()


class ProgressHook(tf.compat.v1.train.SessionRunHook):
    """Counts rows and seconds, and shows the progress.

    Args:
      max_steps: the step at which training ends, to show the time left; None if it is not known.
      every_secs: seconds between log lines.
      clock: a monotonic clock in seconds. It is an argument so that tests need not wait.
      shared: whether other processes also increase the global step.

    Attributes:
      rows: how many rows were trained on so far.
      rows_a_step: the most rows of a step, on all devices together; None before the first step.
      seconds: how long the training steps took.
    """

    def __init__(
        self,
        max_steps: Optional[int],
        *,
        every_secs: float = 10.0,
        clock: Callable[[], float] = time.monotonic,
        shared: bool = False,
    ):
        self.rows = 0
        self.rows_a_step: Optional[int] = None
        self._shared = shared
        self.seconds = 0.0
        self._max_steps = max_steps
        self._clock = clock
        self._progress = Progress(
            "train", "step {}", total=max_steps, every_secs=every_secs, clock=clock
        )
        self._steps = 0
        self._step = 0
        self._started = 0.0
        self._ended: Optional[float] = None
        self._loss = float("nan")
        self._first_rows = 0

    @property
    def examples_per_second(self) -> Optional[float]:
        return (self.rows - self._first_rows) / self.seconds if self.seconds else None

    def after_create_session(self, session: Any, coord: Any) -> None:
        # Counted here, because a value fetched with the train op may be from before or after it.
        global_step = tf.compat.v1.train.get_global_step(session.graph)
        self._step = self._start_step = int(session.run(global_step))

    def pause(self) -> None:
        """Stops the clock until the next step."""
        self._ended = self._clock()

    def before_run(self, run_context: Any) -> Any:
        self._started = self._clock()
        self._ended = None
        graph = run_context.session.graph
        return tf.compat.v1.train.SessionRunArgs(
            [of_devices(graph, ROWS_TENSOR), of_devices(graph, LOSS_TENSOR)]
        )

    def after_run(self, run_context: Any, run_values: Any) -> None:
        each, losses = run_values.results
        rows, loss = sum(map(int, each)), sum(map(float, losses)) / len(losses)
        now = self._clock()
        self.rows += rows
        self.rows_a_step = max(rows, self.rows_a_step or 0)
        self._steps += 1
        self._step += 1
        # The first step builds and optimizes the graph; it would spoil the rate.
        if self._steps > 1:
            self.seconds += (now if self._ended is None else self._ended) - self._started
        else:
            self._first_rows = rows
        self._loss = loss
        if self._steps == 2:
            self._check_step_counts(run_context)
        if self._progress.due():
            if self._shared:
                self._step = self._counted(run_context)
            self._show()

    def _check_step_counts(self, run_context: Any) -> None:
        """Raises ConfigError if the training op does not increase the global step."""
        if self._counted(run_context) == self._start_step:
            raise ConfigError(
                "the model's train_op does not increase the global step, so training would never "
                "end. Use ek.minimize, or pass the global step to the optimizer's minimize."
            )

    def _counted(self, run_context: Any) -> int:
        graph = run_context.session.graph
        return int(run_context.session.run(tf.compat.v1.train.get_global_step(graph)))

    def end(self, session: Any) -> None:
        if self._steps:
            if self._shared:
                step = tf.compat.v1.train.get_global_step(session.graph)
                self._step = int(session.run(step))
            self._show(last=True)
        self._progress.close()

    def _show(self, *, last: bool = False) -> None:
        self._progress.update(
            self._step,
            left_secs=self._time_left(),
            last=last,
            loss=self._loss,
            examples_per_second=self.examples_per_second,
        )

    def _time_left(self) -> Optional[float]:
        if self._max_steps is None or self._steps <= BEFORE_TIME_LEFT:
            return None
        steps = self._step - self._start_step if self._shared else self._steps
        return max(0, self._max_steps - self._step) * self.seconds / max(1, steps - 1)


class Speed:
    """Examples a second since the call before, or None if no step was timed since then."""

    def __init__(self, progress: ProgressHook):
        self._progress = progress
        self._rows, self._seconds = progress.rows, progress.seconds

    def __call__(self) -> Optional[float]:
        rows, seconds = self._progress.rows, self._progress.seconds
        new_rows, took = rows - self._rows, seconds - self._seconds
        self._rows, self._seconds = rows, seconds
        return new_rows / took if took > 0 else None


class EvaluationProgressHook(tf.compat.v1.train.SessionRunHook):
    """Shows how many batches of an evaluation are done, and measures how long it takes.

    Use one for all evaluations of a run: it then knows the number of batches from the one before.

    Args:
      every_secs: seconds between log lines.
      clock: a monotonic clock in seconds.

    Attributes:
      seconds: how long the last evaluation took; None before it has ended.
    """

    def __init__(self, *, every_secs: float = 10.0, clock: Callable[[], float] = time.monotonic):
        self.seconds: Optional[float] = None
        self._clock = clock
        self._every = every_secs
        self._total: Optional[int] = None

    def begin(self) -> None:
        self.seconds = None
        self._started = self._clock()
        self._batches = 0
        self._progress = Progress(
            "evaluate", "batch {}", total=self._total, every_secs=self._every, clock=self._clock
        )

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self._batches += 1
        self._progress.update(self._batches)

    def end(self, session: Any) -> None:
        self._total = self._batches
        self.seconds = self._clock() - self._started
        self._progress.close()


def of_devices(graph: tf.Graph, name: str) -> list[tf.Tensor]:
    """The tensor with a name on each device that the graph trains on."""
    tensors, prefix = [], ""
    while True:
        try:
            tensors.append(graph.get_tensor_by_name(f"{prefix}{name}:0"))
        except KeyError:
            if tensors:
                return tensors
            raise
        prefix = f"replica_{len(tensors)}/"
