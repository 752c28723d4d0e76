"""`Trainer` runs the steps of a training, and counts its rows. `Alone` runs them in one process.

The stages of a training (`run`) are the same everywhere. A trainer does what differs: it starts and
ends with other tasks, makes the Estimator, and counts rows. The trainers of devices and clusters
are in `distributed`, and `distributed.tasks` chooses one.
"""

from __future__ import annotations

import abc
import contextlib
import dataclasses
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Optional

from estimator_kit.config.modes import Train
from estimator_kit.model.model_fn import ModelFn
from estimator_kit.tf_estimator import estimator
from estimator_kit.training import data_service
from estimator_kit.training.hooks.stop import OneSession, SaverHook, StopRequest
from estimator_kit.training.plan import Plan
from estimator_kit.training.records import summary
from estimator_kit.training.run_config import make_estimator
from estimator_kit.training.source import TrainingInput
from estimator_kit.training.team import ALONE, Team
from input_pipelines.eager import as_written
from input_pipelines.errors import DataError
from input_pipelines.reading.selection import RowCounts


def selected_rows(
    source: TrainingInput, plan: Plan, evaluated: Optional[RowCounts]
) -> dict[str, dict[str, int]]:
    selected = {}
    if source.must_be_counted and plan.selected:
        selected["train"] = summary(plan.selected)
    if evaluated is not None:
        selected["eval"] = summary([evaluated])
    return selected


def fewer_than_counted(
    source: TrainingInput, plan: Plan, lost: int, step: int, changes: list[str]
) -> DataError:
    """The error for files that had fewer rows than at the start.

    Args:
      source, plan: the input and the plan of the training.
      lost: how many rows were missing.
      step: the global step at which training ended.
      changes: the result of `TrainingInput.changed_files`.
    """
    if source.function is not None:
        return DataError(
            f"{source.function.place}: gave {lost:,} rows fewer than when they were counted "
            f"({plan.rows or 0:,}). The model is trained to step {step} of {plan.max_steps}. Give "
            "the same rows in each call"
        )
    return DataError(
        f"the training files had {lost:,} rows fewer than at the start, when they had "
        f"{plan.rows or 0:,}: {'; '.join(changes) or 'no file changed its size or time'}. "
        f"The model is trained to step {step} of {plan.max_steps}. "
        "Start again, and do not change files while they are read."
    )


@dataclasses.dataclass(frozen=True)
class Steps:
    """The steps that a trainer runs.

    Attributes:
      model: the model_fn.
      estimator: the Estimator of that model, made by `Trainer.estimator`.
      make_input: makes the input_fn from the last checkpoint on.
      max_steps: the global step at which training ends.
      hooks: the hooks of each session, without the hook that saves checkpoints.
      saving_listeners: the listeners of the hook that saves checkpoints.
      eval_spec: the evaluation after each checkpoint; None without --eval_files.
    """

    model: ModelFn
    estimator: Any
    make_input: Callable[[], Any]
    max_steps: int
    hooks: Sequence[Any]
    saving_listeners: Sequence[Any]
    eval_spec: Optional[Any]


class Trainer(abc.ABC):
    """Runs the steps of one training.

    Override `train` and `rows`, and any other method that differs from training in one process.

    Args:
      command: the training.
      request: receives every request to stop.
      team: the processes that train together.
      task: the name of this task in its cluster.

    Attributes:
      shared: whether other processes also increase the global step.
    """

    shared = False

    def __init__(
        self,
        command: Train,
        request: StopRequest,
        *,
        team: Team = ALONE,
        task: Optional[str] = None,
    ):
        self._command = command
        self.request, self.team, self.task = request, team, task

    def announcing_the_end(self) -> AbstractContextManager[None]:
        """Tells other tasks how the block ended. The block is the training and its checks."""
        return contextlib.nullcontext()

    def begin(self) -> None:  # noqa: B027
        """Runs after all checks, before anything is written."""

    def settle(self, plan: Plan) -> Train:
        """Takes the settings that the plan decides. Returns the command with them."""
        self._command = plan.applied(self._command)
        return self._command

    def estimator(self, model: ModelFn) -> Any:
        """The Estimator that trains, or that evaluates and exports the trained model."""
        return make_estimator(self._command, model)

    @abc.abstractmethod
    def train(self, steps: Steps) -> None:
        """Runs the steps until the last one, or until a stop is requested."""

    @abc.abstractmethod
    def rows(
        self, source: TrainingInput, plan: Plan, *, read: int, step: int, exhausted: bool
    ) -> tuple[int, int]:
        """Returns how many rows were trained on, and how many rows of the epochs were lost.

        Args:
          source, plan: the input and the plan of the training.
          read: how many rows this process has trained on.
          step: the global step at the end.
          exhausted: whether training has read all its epochs.

        Raises:
          DataError: the files had fewer rows than when they were counted.
        """

    def leaves_evaluation(self) -> bool:
        """Whether another task evaluates the last checkpoint and writes the exports."""
        return False


class Alone(Trainer):
    """A process that runs all steps, and evaluates after each checkpoint."""

    @as_written  # Otherwise a strategy would convert the model with AutoGraph.
    def train(self, steps: Steps) -> None:
        trained, input_fn = steps.estimator, steps.make_input()
        evaluated = None if steps.eval_spec is None else self.request
        # OneSession comes first: a second session must not save a checkpoint.
        hooks = [OneSession(), SaverHook(trained.config, evaluated=evaluated), *steps.hooks]
        listeners = list(steps.saving_listeners)
        if steps.eval_spec is None:
            trained.train(
                input_fn, max_steps=steps.max_steps, hooks=hooks, saving_listeners=listeners
            )
            return
        train_spec = estimator.TrainSpec(
            input_fn, max_steps=steps.max_steps, hooks=hooks, saving_listeners=listeners
        )
        estimator.train_and_evaluate(trained, train_spec, steps.eval_spec)

    def rows(
        self, source: TrainingInput, plan: Plan, *, read: int, step: int, exhausted: bool
    ) -> tuple[int, int]:
        planned = plan.rows if exhausted else None
        if self._command.service.data_service is not None:
            return read, data_service.lost_rows(self._command.service, planned, read)
        lost = max(0, planned - read) if planned is not None else 0
        if lost:
            raise fewer_than_counted(source, plan, lost, step, source.changed_files())
        return read, 0
