"""parameter_server, sync_replicas: chief and workers with variables on parameter servers (ps).

Each task has its own session, and makes a new one when a ps was lost; see `sessions`. The chief
saves checkpoints, and saves the last one when all workers have read their shards.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Optional

import tensorflow as tf

from estimator_kit.checkpoints import reading
from estimator_kit.config.cluster import ClusterView
from estimator_kit.config.modes import Train
from estimator_kit.distributed import servers
from estimator_kit.distributed.chief import Chief
from estimator_kit.distributed.lost_tasks import Watch
from estimator_kit.distributed.sessions import ClusterSession, cluster_estimator, keep_training
from estimator_kit.distributed.waiting import Mark, reachable
from estimator_kit.distributed.worker import Worker
from estimator_kit.result import SIGTERM, RunResult, result_path
from estimator_kit.training.hooks.stop import SaverHook, StopRequest
from estimator_kit.training.source import TrainingInput
from estimator_kit.training.team import needs_all_workers
from estimator_kit.training.trainer import Steps

_log = logging.getLogger("estimator_kit")

# The chief stops waiting for a worker that has trained and was unreachable for this many seconds.
_GONE = 30.0


class ParameterServerChief(Chief):
    """The chief. It initializes the variables on the ps, and saves them."""

    def __init__(
        self,
        command: Train,
        view: ClusterView,
        request: StopRequest,
        goal: Mapping[str, Any],
    ):
        super().__init__(command, view, request, goal)
        self._session = ""
        # The time since when each worker is unreachable.
        self._gone: dict[str, float] = {}

    def start_server(self) -> None:
        servers.start(self._command.program, self._command.cluster, self._view)

    def make_steps(self, steps: Steps) -> None:
        view, max_steps = self._view, steps.max_steps

        def attempt(session: ClusterSession) -> None:
            trained = cluster_estimator(self._command, steps.model, view)
            saver = LastToSave(trained.config, lambda step: self._are_done(step, max_steps))
            say_ready = _AfterSession(lambda: self._say_ready(max_steps))
            trained.train(
                steps.make_input(),
                max_steps=max_steps,
                hooks=[saver, *steps.hooks, session, say_ready],
                saving_listeners=list(steps.saving_listeners),
            )

        with Watch(
            view,
            self._marks,
            seconds=self._command.cluster.cluster_timeout_secs,
            goal=self._goal,
            on_end=self._say_given_up,
            leaves=True,
            request=self.request,
            workers_needed=needs_all_workers(self._command.cluster),
        ):
            through = keep_training(
                self._command.cluster, view, attempt, lambda: self.request.reason == SIGTERM
            )
        if through is None:
            _log.warning(
                "stopped by SIGTERM while a server was lost. The steps after the last checkpoint "
                "are lost."
            )

    def _say_given_up(self) -> None:
        """Writes a failed result now, since the process may be ended before it reports."""
        seconds = self._command.cluster.cluster_timeout_secs
        error = f"a task could not be reached for {seconds:g} seconds"
        step = reading.latest_step(self._command.run.model_dir)
        result = RunResult(
            mode=self._command.program.mode,
            status="failed",
            global_step=step,
            error=error,
            task=self._view.name,
        )
        result.save(result_path(self._command.run.model_dir))

    def _say_ready(self, max_steps: int) -> None:
        self._session = self._marks.write("ready", max_steps=max_steps)

    def _has_ended(self, worker: str) -> bool:
        """Whether a worker has read its shard in the current session of the chief."""
        ended = self._marks.look(f"ended-{worker}")
        return ended is not None and ended.of == self._session

    def _are_done(self, step: int, max_steps: int) -> bool:
        """Whether the chief need not wait for further steps of the workers."""
        if step >= max_steps or self.request.reason is not None:
            return True
        waiting = []
        for name, address in self._view.tasks():
            if not name.startswith("worker:") or self._has_ended(name):
                continue
            if reachable(address):
                self._gone.pop(name, None)
                waiting.append(name)
                continue
            since = self._gone.setdefault(name, time.monotonic())
            joined = self._marks.look(f"joined-{name}") is not None
            if time.monotonic() - since < (
                _GONE if joined else self._command.cluster.cluster_timeout_secs
            ):
                waiting.append(name)
            elif self._gone[name] > float("-inf"):
                _log.warning(
                    "%s cannot be reached, and the chief stops waiting for it; some rows of its "
                    "shard were not trained on",
                    name,
                )
                self._gone[name] = float("-inf")
        return not waiting


class ParameterServerWorker(Worker):
    """A worker. It trains the variables on the ps with its shard."""

    def start_server(self) -> None:
        servers.start(self._command.program, self._command.cluster, self._view)

    def make_steps(self, source: TrainingInput, ready: Mark, hooks: list[Any]) -> Optional[str]:
        # With backup workers, the workers would go on after the chief has ended, to the ends of
        # their shards. Otherwise every task reads its shard to the end.
        max_steps = (
            ready.max_steps
            if self._command.cluster.backup_workers
            else self._command.training.max_steps
        )

        def attempt(session: ClusterSession) -> None:
            input_fn = self.input_from_checkpoint(source)
            trained = cluster_estimator(self._command, self._model, self._view)
            trained.train(input_fn, max_steps=max_steps, hooks=[*hooks, session])

        def session_of_chief() -> Optional[str]:
            ready = self._marks.look("ready")
            return ready.id if ready is not None else None

        through = keep_training(
            self._command.cluster, self._view, attempt, self.is_over, session_of_chief
        )
        return (through.of or ready.id) if through is not None else None


class _AfterSession(tf.compat.v1.train.SessionRunHook):
    """Calls a function after the session was made and the variables have values."""

    def __init__(self, call: Callable[[], None]):
        self._call = call

    def after_create_session(self, session: Any, coord: Any) -> None:
        self._call()


class LastToSave(SaverHook):
    """Saves checkpoints, and saves the last one after the last steps of the workers.

    The chief may reach the end of its shard before the workers do. A saver that ends with the chief
    would lose the later steps of the workers.

    Args:
      run_config: see the base class.
      are_done: whether all steps are made, given the global step.
    """

    def __init__(self, run_config: Any, are_done: Callable[[int], bool]):
        super().__init__(run_config)
        self._are_done = are_done

    def end(self, session: Any) -> None:
        said = False
        while True:
            step = int(session.run(self._global_step_tensor))
            if self._are_done(step):
                break
            if not said:
                said = True
                _log.info("chief:0 has read its shard, and waits for the workers")
            if self._timer.should_trigger_for_step(step):
                self._timer.update_last_triggered_step(step)
                self._save(session, step)
            threading.Event().wait(0.25)
        super().end(session)
