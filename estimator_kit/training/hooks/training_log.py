"""Measures a training every few steps for the report page; see `observing.training_log`."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from estimator_kit.model.names import LOSS_TENSOR, LOSSES_SCOPE
from estimator_kit.observing.training_log import TrainingLog
from estimator_kit.optimizers.choice import GRADIENT_NORM_TENSOR, LEARNING_RATE_TENSOR
from estimator_kit.training.hooks.progress import ProgressHook, Speed


class TrainingLogHook(tf.compat.v1.train.SessionRunHook):
    """Fetches losses, learning rate and gradient norm of every n-th step; other steps cost nothing.

    Args:
      log: gets the entries.
      progress: knows the examples a second. Put it before this hook.
      every_steps: n; the first step is measured, too.
    """

    def __init__(self, log: TrainingLog, progress: ProgressHook, *, every_steps: int = 100):
        self._log = log
        self._progress = progress
        self._every = every_steps
        self._tensors: dict[str, tf.Tensor] = {}
        self._steps = 0

    def begin(self) -> None:
        self._speed = Speed(self._progress)
        graph = tf.compat.v1.get_default_graph()
        self._tensors = {"step": tf.compat.v1.train.get_global_step(graph)}
        names = {
            "loss": LOSS_TENSOR,
            "learning_rate": LEARNING_RATE_TENSOR,
            "gradient_norm": GRADIENT_NORM_TENSOR,
        }
        outputs = {operation.name: operation for operation in graph.get_operations()}
        self._tensors.update(
            {key: outputs[name].outputs[0] for key, name in names.items() if name in outputs}
        )
        for name, operation in outputs.items():
            if name.startswith(f"{LOSSES_SCOPE}/"):
                self._tensors[name] = operation.outputs[0]

    def before_run(self, run_context: Any) -> Any:
        due = self._steps % self._every == 0
        self._steps += 1
        return tf.compat.v1.train.SessionRunArgs(self._tensors) if due else None

    def after_run(self, run_context: Any, run_values: Any) -> None:
        if run_values.results is None:
            return
        found = {name: float(value) for name, value in run_values.results.items()}
        entry: dict[str, Any] = {"step": int(found.pop("step"))}
        prefix = f"{LOSSES_SCOPE}/"
        entry["losses"] = {
            name[len(prefix) :]: found.pop(name) for name in list(found) if name.startswith(prefix)
        }
        rate = self._speed()
        if rate is not None:
            entry["examples_per_second"] = rate
        self._log.add({**entry, **found})


class WriteAtSave(tf.compat.v1.train.CheckpointSaverListener):
    """Writes the entries together with each checkpoint, so that both are of the same steps."""

    def __init__(self, log: TrainingLog):
        self._log = log

    def after_save(self, session: Any, global_step_value: int) -> None:
        self._log.write()
