"""The chief of a cluster: a trainer that runs its steps together with other tasks.

It removes the marks of earlier starts, stays until the workers have read their shards, and tells
the other tasks that training is over. Only the chief writes checkpoints, the run record,
`input.json` and `result.json`. `parameter_server` and `all_reduce` run its steps.
"""

from __future__ import annotations

import abc
import contextlib
import logging
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any

import tensorflow as tf

from estimator_kit import exit_codes
from estimator_kit.checkpoints import reading
from estimator_kit.config.areas.cluster import Cluster
from estimator_kit.config.cluster import ClusterView
from estimator_kit.config.modes import Train
from estimator_kit.distributed.waiting import CHIEF, DONE, EVALUATOR, FAILED, STOPPED, Marks
from estimator_kit.errors import ConfigError, NothingToDo, Stopped
from estimator_kit.result import EARLY_STOPPED, INPUT_EXHAUSTED, RunResult, read_result
from estimator_kit.training.hooks.stop import StopRequest
from estimator_kit.training.plan import Plan
from estimator_kit.training.source import TrainingInput
from estimator_kit.training.team import Team
from estimator_kit.training.trainer import Steps, Trainer, fewer_than_counted

_log = logging.getLogger("estimator_kit")

# How many seconds an evaluator of an earlier start has to set its mark again. On a shared file
# system a new file may take half a minute to appear.
_EVALUATOR_SAYS = 60.0


class Chief(Trainer):
    """The chief of a cluster; override `start_server` and `make_steps`.

    Args:
      command, view: the training and the cluster view of this task.
      request: receives the evaluator's request for an early stop.
      goal: the goal of this start; see `goal_of`.
    """

    shared = True

    def __init__(
        self,
        command: Train,
        view: ClusterView,
        request: StopRequest,
        goal: Mapping[str, Any],
    ):
        team = Team.of(command.cluster, view, self.devices_of(command.cluster))
        super().__init__(command, request, team=team, task=view.name)
        self._view, self._goal = view, goal
        self._marks = Marks(command.run.model_dir)
        self._had_evaluator = False
        self._scored_by = CHIEF

    def devices_of(self, cluster: Cluster) -> int:
        """How many devices of each task train. By default one."""
        return 1

    @abc.abstractmethod
    def start_server(self) -> None:
        """Starts the server of this task."""

    @abc.abstractmethod
    def make_steps(self, steps: Steps) -> None:
        """Runs the steps together with the workers, and saves checkpoints."""

    @contextlib.contextmanager
    def announcing_the_end(self) -> Iterator[None]:
        """Starts the server. At the end of the block, tells the other tasks how training ended.

        It writes no end mark in two cases, because the other tasks should keep waiting:

        - after a temporary error: the chief will be started again;
        - if the server did not start: this may be a second chief, started by mistake, or a chief
          whose host name is not known yet.
        """
        status, reason, started, completed = DONE, "", False, False
        try:
            self.start_server()
            started = True
            yield
            completed = True
        except NothingToDo:
            # Tasks that were started with this chief wait only for the task that the mark names.
            mode = self._command.program.mode
            result = read_result(self._command.run.model_dir) or RunResult(mode=mode)
            if mode == "train_and_evaluate" and not result.metrics:
                self._scored_by = EVALUATOR  # The evaluator has not finished yet.
            raise
        except (Stopped, KeyboardInterrupt):
            status = STOPPED
            raise
        except BaseException as error:
            status, reason = FAILED, str(error)[:500]
            if exit_codes.exit_code(error) == exit_codes.TEMPORARY:
                status = ""
            raise
        finally:
            if status and started:
                # If an error is being raised, it must not be hidden by an error here.
                with contextlib.nullcontext() if completed else contextlib.suppress(Exception):
                    step = reading.latest_step(self._command.run.model_dir)
                    self._marks.write(
                        "end",
                        status=status,
                        reason=reason,
                        global_step=step,
                        goal=self._goal,
                        scored_by=self._scored_by,
                    )

    @contextlib.contextmanager
    def _heeding_the_evaluator(self) -> Iterator[None]:
        """While the block runs, an evaluator can request an early stop."""
        closed = threading.Event()

        def look() -> None:
            while not closed.wait(0.5):
                # The storage may answer again at the next look.
                with contextlib.suppress(tf.errors.OpError, OSError, ConfigError):
                    if self._marks.read("stop") is not None and self.request.reason is None:
                        self.request.ask(EARLY_STOPPED)

        thread = threading.Thread(target=look, daemon=True)
        thread.start()
        try:
            yield
        finally:
            closed.set()
            thread.join()

    def begin(self) -> None:
        """Removes the marks of earlier starts, after all checks."""
        self._had_evaluator = self._marks.read(EVALUATOR) is not None
        self._marks.clear()

    def leaves_evaluation(self) -> bool:
        """Whether an evaluator scores the last checkpoint and writes the exports.

        An evaluator in TF_CONFIG does; if it has failed, it is started again. For any other
        evaluator the chief removes its mark, and checks that the evaluator sets it again.
        """
        if not self._view.evaluators:
            saw_evaluator = self._marks.look(EVALUATOR) is not None or self._had_evaluator
            self._marks.remove(EVALUATOR)
            end = time.monotonic() + (_EVALUATOR_SAYS if saw_evaluator else 0)
            while self._marks.look(EVALUATOR) is None:
                if time.monotonic() >= end:
                    if saw_evaluator:
                        _log.warning(
                            "the evaluator has left, so chief:0 scores the last checkpoint"
                        )
                    return False
                threading.Event().wait(0.25)
        self._scored_by = EVALUATOR
        return True

    def train(self, steps: Steps) -> None:
        with self._heeding_the_evaluator():
            self.make_steps(steps)

    def rows(
        self, source: TrainingInput, plan: Plan, *, read: int, step: int, exhausted: bool
    ) -> tuple[int, int]:
        trained, lost = _rows_of_all(plan, source, step)
        changes = source.changed_files() if lost else []
        if changes:
            raise fewer_than_counted(source, plan, lost, step, changes)
        if lost:
            _log.warning("the model was not trained on %s rows: the task with them was lost", lost)
        return trained, lost


def _rows_of_all(plan: Plan, source: TrainingInput, step: int) -> tuple[int, int]:
    """Returns how many rows the tasks of a cluster have trained on, and how many were lost.

    A task knows only its own rows, so the sums are computed from the global step. A task that was
    lost, or whose files became shorter, has made fewer steps than it had batches.

    Args:
      plan, source: the plan and the input of the chief.
      step: the global step at the end.
    """
    team, batch_size = source.team, source.command.training.batch_size
    rows_stepped = (step - plan.start_step) * team.batches_a_step * batch_size
    if plan.rows is None or plan.stop_reason != INPUT_EXHAUSTED:
        return rows_stepped, 0
    missing = 0 if team.ends_together else (plan.max_steps - step) * batch_size
    lost = min(max(0, missing), plan.rows)
    if step < plan.max_steps:  # Stopped before the end.
        return min(rows_stepped, plan.rows - lost), lost
    return plan.rows, 0
