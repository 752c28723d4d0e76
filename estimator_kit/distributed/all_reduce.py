"""Training on several devices that each have all variables: mirrored, multi_worker_mirrored.

TensorFlow's strategies average the gradients of the devices. Each device takes a batch of
--batch_size rows. The gradients of CPU devices are summed on one of them, because TensorFlow's
default hangs on CPUs.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from estimator_kit.config.mode_configs import ModelDirConfig
from estimator_kit.errors import ConfigError
from estimator_kit.model.model_fn import ModelFn
from estimator_kit.optimizers.combining import Uncertainty, Weights
from estimator_kit.training.hooks.stop import StopRequest
from estimator_kit.training.run_config import make_estimator
from estimator_kit.training.team import Team
from estimator_kit.training.trainer import Alone

# Optimizers that also change rows outside the batch if the gradient is dense. (FTRL sets rows to
# zero that have another initial value.)
_ROW_BY_ROW = {"adadelta", "adamw", "ftrl", "lazy_adam", "momentum", "rmsprop"}


def devices(config: ModelDirConfig) -> list[str]:
    """The devices of this machine that train: its GPUs, or else CPUs (one by default).

    Raises:
      ConfigError: this machine has fewer GPUs than --mirrored_devices.
    """
    gpus = len(tf.config.list_physical_devices("GPU"))
    count = config.mirrored_devices or max(1, gpus)
    if 0 < gpus < count:
        raise ConfigError(
            f"--mirrored_devices: expected at most {gpus}, the GPUs of this machine, got {count}"
        )
    return [f"/{'gpu' if gpus else 'cpu'}:{i}" for i in range(count)]


class Mirrored(Alone):
    """One process that trains on several devices.

    Raises:
      ConfigError: this machine has fewer GPUs than --mirrored_devices.
    """

    def __init__(self, config: ModelDirConfig, request: StopRequest):
        self._devices = devices(config)
        team = Team(batches_a_step=len(self._devices), ends_together=True)
        super().__init__(config, request, team=team)

    def estimator(self, model: ModelFn) -> Any:
        on_cpu = self._devices[0].startswith("/cpu")
        reduction = tf.distribute.ReductionToOneDevice() if on_cpu else None
        with tf.Graph().as_default():  # In eager mode the strategy would use the devices at once.
            strategy = tf.distribute.MirroredStrategy(self._devices, cross_device_ops=reduction)
        return make_estimator(self._config, model, train_distribute=strategy)


def check_model(config: ModelDirConfig, model: ModelFn) -> None:
    """Raises ConfigError for parameters that would give another result on several devices."""
    p = model.params
    wrong = {
        "accumulate": p.accumulate > 1,
        "moving_average": p.moving_average is not None,
        "clip_norm": p.clip_norm is not None,
        "clip_value": p.clip_value is not None,
    }
    for name, given in wrong.items():
        if given:
            raise ConfigError(
                f"the model parameter {name} does not work with --strategy={config.strategy}: it "
                "would apply to the gradients of each device separately. Remove it."
            )
    if not isinstance(model.combination, (Weights, Uncertainty)):
        raise ConfigError(
            f"the model parameter combine={p.combine} does not work with "
            f"--strategy={config.strategy}: each device would compare the gradients of its "
            "batch, and learn other weights. Use uncertainty, or remove it."
        )
    for name, entry in model.spec.objectives.items():
        if entry.reduction == "sum":
            raise ConfigError(
                f"objectives.{name}: reduction: sum does not work with "
                f"--strategy={config.strategy}: TensorFlow would divide this loss by the number of "
                "devices. Use another reduction, or train in one process."
            )
    named = {_name(choice) for choice in (p.optimizer, *(p.optimizers or {}).values())}
    # With FTRL, rows without gradients stay at 0. It is the default of a linear part.
    named |= {_name(getattr(p, "linear_optimizer", "ftrl"))} - {"ftrl"}
    other = sorted(named & _ROW_BY_ROW) if config.strategy == "multi_worker_mirrored" else []
    if other:
        raise ConfigError(
            f"the optimizer {other[0]} does not work with --strategy=multi_worker_mirrored: the "
            "gradients of tables are dense there, so it would change rows that are in no batch. "
            "Use one of: adagrad, adam, sgd."
        )


def _name(choice: Any) -> str:
    return choice if isinstance(choice, str) else next(iter(choice))
