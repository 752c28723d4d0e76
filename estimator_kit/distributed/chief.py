"""The chief of a cluster: a trainer whose steps are made with others, who are told of it.

It removes the marks of former starts, stays until the workers have trained to their ends, and says
that training is over. What it writes in the model directory nobody else does: checkpoints, the
record of the run, `input.json`, `result.json`. How its steps are made is `parameter_server`'s and
`collective`'s.
"""

from __future__ import annotations

import abc
import contextlib
import logging
import threading
import time
from collections.abc import Iterator

import tensorflow as tf

from estimator_kit import exit_codes
from estimator_kit.checkpoints import reading
from estimator_kit.config.cluster import ClusterView
from estimator_kit.config.mode_configs import ModelDirConfig
from estimator_kit.distributed.marks import CHIEF, DONE, EVALUATOR, FAILED, STOPPED, Marks, goal_of
from estimator_kit.errors import ConfigError, NothingToDo, Stopped
from estimator_kit.result_file import read_result
from estimator_kit.training.hooks.stop import EARLY_STOPPED, StopRequest
from estimator_kit.training.plan import Plan
from estimator_kit.training.rows import fewer_than_counted
from estimator_kit.training.source import TrainingInput
from estimator_kit.training.team import Team
from estimator_kit.training.trainer import Steps, Trainer

_log = logging.getLogger("estimator_kit")

# Seconds in which an evaluator that was there before this start says that it is there still.
# A shared file system may tell of a file only when half a minute has gone.
_EVALUATOR_SAYS = 60.0


class Chief(Trainer):
    """The chief of a cluster; override `start_server` and `make_steps`.

    Args:
      config, view: of the task.
      request: where an early stop, which the evaluator asks for, is noted.
      devices: of each task that train.
    """

    shared = True

    def __init__(
        self, config: ModelDirConfig, view: ClusterView, request: StopRequest, *, devices: int = 1
    ):
        super().__init__(config, request, team=Team.of(config, view, devices), task=view.name)
        self._view = view
        self._marks = Marks(config.model_dir)
        self._had_evaluator = False
        self._scored_by = CHIEF

    @abc.abstractmethod
    def start_server(self) -> None:
        """Starts the server of this task."""

    @abc.abstractmethod
    def make_steps(self, steps: Steps) -> None:
        """Makes the steps together with the workers, and saves checkpoints."""

    @contextlib.contextmanager
    def announcing_the_end(self) -> Iterator[None]:
        """Starts the server, and says at the end of the block that training is over, and how.

        Not after an error that may pass: the chief is then started again, and others wait for it.
        Nor where the server did not start: it may be a second chief, started by mistake, or one
        whose name is not known yet, and the others' training is not over by that.
        """
        status, reason, started, told = DONE, "", False, False
        try:
            self.start_server()
            started = True
            yield
            told = True
        except NothingToDo:
            # Others that were started with it wait for no more than what the mark says.
            result = read_result(self._config.model_dir) or {}
            if self._config.mode == "train_and_evaluate" and not result.get("metrics"):
                self._scored_by = EVALUATOR  # It was to, and is not through.
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
                # An error that is under way says more.
                with contextlib.nullcontext() if told else contextlib.suppress(Exception):
                    step = reading.latest_step(self._config.model_dir)
                    self._marks.write(
                        "end",
                        status=status,
                        reason=reason,
                        global_step=step,
                        goal=goal_of(self._config),
                        scored_by=self._scored_by,
                    )

    @contextlib.contextmanager
    def _heeding_the_evaluator(self) -> Iterator[None]:
        """While the block runs, an evaluator can ask for an early stop."""
        closed = threading.Event()

        def look() -> None:
            while not closed.wait(0.5):
                # A storage that does not answer now may do so at the next look.
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
        """Removes the marks of former starts; all checks are through."""
        self._had_evaluator = self._marks.read(EVALUATOR) is not None
        self._marks.clear()

    def leaves_evaluation(self) -> bool:
        """Whether an evaluator scores the last checkpoint and writes the exports.

        One that TF_CONFIG names does, and is started again where it has failed. Another one has to
        be there at the end: its mark is taken away, and it sets it anew.
        """
        if not self._view.evaluators:
            known = self._marks.look(EVALUATOR) is not None or self._had_evaluator
            self._marks.remove(EVALUATOR)
            end = time.monotonic() + (_EVALUATOR_SAYS if known else 0)
            while self._marks.look(EVALUATOR) is None:
                if time.monotonic() >= end:
                    if known:
                        _log.warning("the evaluator is gone; chief:0 scores the last checkpoint")
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
            _log.warning("%s rows were not trained on: a task that was to read them is gone", lost)
        return trained, lost


def _rows_of_all(plan: Plan, source: TrainingInput, step: int) -> tuple[int, int]:
    """Rows that the tasks of a cluster have trained on, and such as were to be and were not.

    Each knows its own alone; the steps tell of all. A task that was lost for good, or whose files
    became shorter, has made fewer steps than there were batches.

    Args:
      plan, source: of the chief.
      step: the global step at the end.
    """
    team, batch_size = source.team, source.config.batch_size
    made = (step - plan.start_step) * team.batches_a_step * batch_size
    if plan.rows is None or plan.stop_reason != "input_exhausted":
        return made, 0
    missing = 0 if team.ends_together else (plan.max_steps - step) * batch_size
    lost = min(max(0, missing), plan.rows)
    if step < plan.max_steps:  # Stopped on the way.
        return min(made, plan.rows - lost), lost
    return plan.rows, 0
