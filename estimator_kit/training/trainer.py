"""`Trainer`: who makes the steps of a training. `Alone`: this process, by itself.

A training (`run`) goes the same way everywhere and leaves to its trainer what does not: who starts
with it and is told of its end, which Estimator makes the steps, and how rows are accounted for. The
trainers of devices and clusters are in `distributed`; `distributed.tasks` chooses one.
"""

from __future__ import annotations

import abc
import contextlib
import dataclasses
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Optional

from estimator_kit.compat.tf_estimator import estimator
from estimator_kit.config.mode_configs import ModelDirConfig
from estimator_kit.model.model_fn import ModelFn
from estimator_kit.training import data_service
from estimator_kit.training.hooks.saving import SaverHook
from estimator_kit.training.hooks.stop import StopRequest
from estimator_kit.training.plan import Plan
from estimator_kit.training.rows import fewer_than_counted
from estimator_kit.training.run_config import make_estimator
from estimator_kit.training.source import TrainingInput
from estimator_kit.training.team import ALONE, Team
from input_pipelines.autograph import as_written


@dataclasses.dataclass(frozen=True)
class Steps:
    """The steps that a trainer is to make.

    Attributes:
      model: the model_fn.
      estimator: of that model, as `Trainer.estimator` has made it.
      make_input: makes the input_fn from the last checkpoint on.
      max_steps: the global step to end at.
      hooks: of each session, beside the one that saves.
      saving_listeners: of the one that saves.
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
    """Makes the steps of one training.

    Override `train` and `rows`, and what else differs from a process that is alone.

    Args:
      config: the experiment.
      request: where a stop is noted, whoever asks for it.
      team: those that train together.
      task: the name of this one in its cluster.

    Attributes:
      shared: whether other processes count the global step, too.
    """

    shared = False

    def __init__(
        self,
        config: ModelDirConfig,
        request: StopRequest,
        *,
        team: Team = ALONE,
        task: Optional[str] = None,
    ):
        self._config = config
        self.request, self.team, self.task = request, team, task

    def announcing_the_end(self) -> AbstractContextManager[None]:
        """The block is the training, from its checks on; others are told how it ended."""
        return contextlib.nullcontext()

    def begin(self) -> None:  # noqa: B027
        """Called when all checks are through, before anything is written."""

    def estimator(self, model: ModelFn) -> Any:
        """The Estimator that trains here, or scores and exports what was trained."""
        return make_estimator(self._config, model)

    @abc.abstractmethod
    def train(self, steps: Steps) -> None:
        """Makes the steps, or as many as come before a stop that is asked for."""

    @abc.abstractmethod
    def rows(
        self, source: TrainingInput, plan: Plan, *, read: int, step: int, exhausted: bool
    ) -> tuple[int, int]:
        """Rows that were trained on, and those of the epochs that were lost.

        Args:
          source, plan: of the training.
          read: rows that this process has trained on.
          step: the global step at the end.
          exhausted: whether the epochs are through.

        Raises:
          DataError: fewer rows came than the files had when they were counted.
        """

    def leaves_evaluation(self) -> bool:
        """Whether another task scores the last checkpoint and writes the exports."""
        return False


class Alone(Trainer):
    """A process that makes all steps, and evaluates after its checkpoints."""

    @as_written  # A strategy would have AutoGraph read the model.
    def train(self, steps: Steps) -> None:
        trained, input_fn = steps.estimator, steps.make_input()
        hooks = [SaverHook(trained.config), *steps.hooks]
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
        if self._config.data_service is not None:
            return read, data_service.lost_rows(self._config, planned, read)
        lost = max(0, planned - read) if planned is not None else 0
        if lost:
            raise fewer_than_counted(source, plan, lost, step, source.changed_files())
        return read, 0
