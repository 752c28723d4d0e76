"""Measures a training every few steps for the report page; see `observing.training_log`."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from estimator_kit.model.names import LOSS_TENSOR, LOSSES_SCOPE
from estimator_kit.observing.training_log import Measurement, TrainingLog
from estimator_kit.optimizers.choice import GRADIENT_NORM_TENSOR, LEARNING_RATE_TENSOR
from estimator_kit.training.hooks.progress import ProgressHook, Speed, of_devices

_EVERY = 100


class TrainingLogHook(tf.compat.v1.train.SessionRunHook):
    """Fetches losses, learning rate and gradient norm of every 100th step, from the first.

    Args:
      log: gets the entries.
      progress: knows the examples a second. Put it before this hook.
    """

    def __init__(self, log: TrainingLog, progress: ProgressHook):
        self._log = log
        self._progress = progress
        self._tensors: dict[str, list[tf.Tensor]] = {}
        self._steps = 0

    def begin(self) -> None:
        self._speed = Speed(self._progress)
        graph = tf.compat.v1.get_default_graph()
        names = {
            "loss": LOSS_TENSOR,
            "learning_rate": LEARNING_RATE_TENSOR,
            "gradient_norm": GRADIENT_NORM_TENSOR,
        }
        outputs = {operation.name for operation in graph.get_operations()}
        names.update({name: name for name in outputs if name.startswith(f"{LOSSES_SCOPE}/")})
        self._tensors = {
            key: of_devices(graph, name) for key, name in names.items() if name in outputs
        }

    def before_run(self, run_context: Any) -> Any:
        due = self._steps % _EVERY == 0
        self._steps += 1
        return tf.compat.v1.train.SessionRunArgs(self._tensors) if due else None

    def after_run(self, run_context: Any, run_values: Any) -> None:
        if run_values.results is None:
            return
        found = {
            name: sum(map(float, values)) / len(values)
            for name, values in run_values.results.items()
        }
        # Read after the step, as TensorBoard's events: fetched with it, it may be the one before.
        session = run_context.session
        step = int(session.run(tf.compat.v1.train.get_global_step(session.graph)))
        prefix = f"{LOSSES_SCOPE}/"
        losses = {
            name[len(prefix) :]: found.pop(name) for name in list(found) if name.startswith(prefix)
        }
        rate = self._speed()
        if rate is not None:
            found["examples_per_second"] = rate
        self._log.add(Measurement(step=step, losses=losses, **found))


class WriteAtSave(tf.compat.v1.train.CheckpointSaverListener):
    """Writes the entries together with each checkpoint, so that both are of the same steps."""

    def __init__(self, log: TrainingLog):
        self._log = log

    def after_save(self, session: Any, global_step_value: int) -> None:
        self._log.write()
