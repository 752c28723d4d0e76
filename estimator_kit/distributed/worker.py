"""A worker, from start to end: it trains on its shard, and writes no checkpoint.

A worker that is started again goes on from the position of the last checkpoint. A worker that has
read its shard stays until the training is over: if the chief or a ps is lost, the steps since the
last checkpoint are lost too, and the worker trains them again. If a worker fails permanently, the
chief ends without it. `parameter_server` and `all_reduce` run its steps.
"""

from __future__ import annotations

import abc
import threading
import time
from collections.abc import Callable
from typing import Any, Optional

import tensorflow as tf

from estimator_kit.checkpoints import reading
from estimator_kit.config.cluster import ClusterView
from estimator_kit.config.modes import Train
from estimator_kit.distributed.lost_tasks import Watch
from estimator_kit.distributed.waiting import Mark, Marks, goal_of, wait_for, wait_until
from estimator_kit.errors import SessionLost, Stopped
from estimator_kit.model.model_fn import ModelFn
from estimator_kit.model.session_errors import explained
from estimator_kit.result import SIGTERM, RunResult
from estimator_kit.training import bad_data
from estimator_kit.training.hooks.progress import ProgressHook
from estimator_kit.training.hooks.stop import StopHook, StopRequest, stop_on_sigterm
from estimator_kit.training.source import TrainingInput
from estimator_kit.training.team import Team, needs_all_workers
from feature_specs.spec import FeatureSpec

_OVER = "over"

# How often, in seconds, a worker that has read its shard checks for a new session of the chief.
_LOOK = 0.5

# How many seconds a worker goes on after SIGTERM if a step needs all workers.
_LAST_STEPS = 15.0


class Worker(abc.ABC):
    """A worker of a cluster; override `start_server` and `make_steps`.

    Args:
      config, spec, model: what is trained.
      view: the cluster view of this task.
      devices: how many devices of each task train.
    """

    _watch: Watch  # Set while `run` runs.

    def __init__(
        self,
        command: Train,
        spec: FeatureSpec,
        model: ModelFn,
        view: ClusterView,
        *,
        devices: int = 1,
    ):
        self._command, self._spec, self._model, self._view = command, spec, model, view
        self._model_dir = command.run.model_dir
        self._team = Team.of(command.cluster, view, devices)
        self._marks, self._request = Marks(command.run.model_dir), StopRequest()

    @abc.abstractmethod
    def start_server(self) -> None:
        """Starts the server of this task."""

    @abc.abstractmethod
    def make_steps(self, source: TrainingInput, ready: Mark, hooks: list[Any]) -> Optional[str]:
        """Trains to the end of the shard.

        Args:
          source: the input of this worker.
          ready: the mark of the chief's session.
          hooks: the hooks for each session.

        Returns:
          The id of the chief's session in which it read the shard; None if the training is over.
        """

    def check_restarted_chief(self) -> None:  # noqa: B027
        """Raises UnavailableError if this worker cannot go on with a restarted chief."""

    def run(self) -> RunResult:
        """Trains on the shard, and stays until the training is over.

        Raises:
          Stopped: the process received SIGTERM. The other tasks go on.
          tf.errors.UnavailableError: the chief was stopped, or the chief or a ps could not be
            reached for --cluster_timeout_secs.
          DataError, LossError, ConfigError: see their docstrings.
        """
        view, request = self._view, self._request

        def stop() -> None:
            if request.reason is None:
                request.ask(_OVER)

        self.start_server()
        progress = ProgressHook(
            self._command.training.max_steps,
            every_secs=self._command.program.log_every_secs,
            shared=True,
        )
        with (
            stop_on_sigterm(request),
            Watch(
                view,
                self._marks,
                seconds=self._command.cluster.cluster_timeout_secs,
                goal=goal_of(self._command.settings, self._spec),
                on_end=stop,
                leaves=True,
                request=request,
                workers_needed=needs_all_workers(self._command.cluster),
            ) as self._watch,
        ):
            others = [task for task in view.tasks() if not task[0].startswith("worker:")]
            wait_for(
                others,
                this=view.name,
                seconds=self._command.cluster.cluster_timeout_secs,
                over=self.is_over,
            )
            self._train_with_each_session(progress)
            if request.reason == SIGTERM:
                raise Stopped(f"{view.name} was stopped by SIGTERM; the other tasks go on")
            self._watch.check()
        return RunResult(
            mode=self._command.program.mode,
            task=view.name,
            rows_trained=progress.rows,
            examples_per_second=progress.examples_per_second,
        )

    def is_over(self) -> bool:
        """Whether the training is over, or this task should stop."""
        return self._request.reason is not None

    def input_from_checkpoint(self, source: TrainingInput) -> Any:
        """The input_fn from the last checkpoint on. Sets the mark that this worker trains."""
        step = reading.latest_step(self._model_dir) or 0
        input_fn = source.input_from(source.position(step))
        self._marks.write(f"joined-{self._view.name}")
        return input_fn

    def _train_with_each_session(self, progress: ProgressHook) -> None:
        name = self._view.name
        ready: Optional[Mark] = None
        while not self.is_over():
            before, ready = ready, self._next_session(ready)
            if ready is None:
                break
            if before is not None:
                self.check_restarted_chief()
            ended = self._marks.look(f"ended-{name}")
            if ended is not None and ended.of == ready.id:
                continue  # An earlier start of this worker has read the shard.
            try:
                of = self._train(ready, progress)
            except tf.errors.OpError:
                # If all tasks are stopped at once, a task may leave during a step that needs it.
                if self._request.reason == SIGTERM:
                    break
                raise
            if of is not None and not self.is_over():
                ready = Mark(id=of)
                self._marks.write(f"ended-{name}", of=of)

    def _next_session(self, last: Optional[Mark]) -> Optional[Mark]:
        """Waits for a new session of the chief, and returns its mark; None if training is over.

        Raises:
          tf.errors.UnavailableError: the chief did not make its first session in time.
        """
        new_marks: list[Mark] = []

        def missing() -> list[str]:
            ready = self._marks.look("ready")
            if ready is not None and (last is None or ready.id != last.id):
                new_marks.append(ready)
            return [] if new_marks else [f"chief:0 at {self._view.chief}"]

        if last is None:
            wait_until(
                missing,
                what="the first session of",
                this=self._view.name,
                seconds=self._command.cluster.cluster_timeout_secs,
                over=self.is_over,
            )
        else:
            while not self.is_over() and missing():
                threading.Event().wait(_LOOK)
        return new_marks[0] if new_marks else None

    def _train(self, ready: Mark, progress: ProgressHook) -> Optional[str]:
        """Trains to the end of the shard, and returns the result of `make_steps`."""
        source = TrainingInput.of(self._command, self._spec, self._team)
        screened = bad_data.screen(
            self._command.program, self._command.reading, self._spec, {source.flag: source.files}
        )
        source = source.without_bad(screened)
        source.first_records()
        hook = StopHook(self._request)
        if self._team.ends_together:
            hook = _StopAfterOthers(self._request, self._watch.over)
        with (
            explained(self._spec, source.files, damaged=screened.damaged, model=self._model),
            source.naming_problems(),
        ):
            try:
                return self.make_steps(source, ready, [progress, hook])
            except SessionLost as error:
                raise tf.errors.UnavailableError(
                    None,
                    None,
                    f"{self._view.name}: {error}. Start all tasks again to go on from the last "
                    "checkpoint.",
                ) from error


class _StopAfterOthers(StopHook):
    """Goes on for some seconds after SIGTERM, until the training is over.

    If all tasks are stopped at once, the chief may be in a step that needs this worker.
    """

    def __init__(self, request: StopRequest, over: Callable[[], bool]):
        super().__init__(request)
        self._stopped, self._over = request, over
        self._since: Optional[float] = None

    def after_run(self, run_context: Any, run_values: Any) -> None:
        if self._stopped.reason == SIGTERM and not self._over():
            self._since = time.monotonic() if self._since is None else self._since
            if time.monotonic() - self._since < _LAST_STEPS:
                return
        super().after_run(run_context, run_values)
