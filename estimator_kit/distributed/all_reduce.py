"""Training on several devices that all have all variables: mirrored, multi_worker_mirrored.

TensorFlow's strategies average the gradients of the devices; each device takes a batch of
--batch_size rows. Gradients of CPU devices are added up on one of them, as TensorFlow's default
hangs there.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from estimator_kit.config.mode_configs import ModelDirConfig
from estimator_kit.errors import ConfigError
from estimator_kit.model.model_fn import ModelFn
from estimator_kit.training.hooks.stop import StopRequest
from estimator_kit.training.run_config import make_estimator
from estimator_kit.training.team import Team
from estimator_kit.training.trainer import Alone

# Optimizers whose step on a whole table is another one than that on the rows of a batch. (FTRL's
# puts rows that are not zero at first to zero.)
_ROW_BY_ROW = {"adadelta", "ftrl", "lazy_adam", "momentum", "rmsprop"}


def devices(config: ModelDirConfig) -> list[str]:
    """The devices of this machine that train: its GPUs, or else CPUs, one if not said otherwise.

    Raises:
      ConfigError: --mirrored_devices asks for more GPUs than there are.
    """
    gpus = len(tf.config.list_physical_devices("GPU"))
    count = config.mirrored_devices or max(1, gpus)
    if 0 < gpus < count:
        raise ConfigError(f"--mirrored_devices: got {count}, and this machine has {gpus} GPUs")
    return [f"/{'gpu' if gpus else 'cpu'}:{i}" for i in range(count)]


class Mirrored(Alone):
    """A process that is alone, and trains on several devices.

    Raises:
      ConfigError: --mirrored_devices asks for more GPUs than there are.
    """

    def __init__(self, config: ModelDirConfig, request: StopRequest):
        self._devices = devices(config)
        team = Team(batches_a_step=len(self._devices), ends_together=True)
        super().__init__(config, request, team=team)

    def estimator(self, model: ModelFn) -> Any:
        on_cpu = self._devices[0].startswith("/cpu")
        reduction = tf.distribute.ReductionToOneDevice() if on_cpu else None
        with tf.Graph().as_default():  # Eagerly it would use the devices at once.
            strategy = tf.distribute.MirroredStrategy(self._devices, cross_device_ops=reduction)
        return make_estimator(self._config, model, train_distribute=strategy)


def check_model(config: ModelDirConfig, model: ModelFn) -> None:
    """Raises ConfigError for parameters whose result would be another one on several devices."""
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
                f"the model parameter {name} does not go with --strategy={config.strategy}, where "
                "it would be of each device's gradients by themselves; drop it"
            )
    named = {_name(choice) for choice in (p.optimizer, *(p.optimizers or {}).values())}
    other = sorted(named & _ROW_BY_ROW) if config.strategy == "multi_worker_mirrored" else []
    if other:
        raise ConfigError(
            f"the optimizer {other[0]} does not go with --strategy=multi_worker_mirrored, where "
            "gradients of tables are dense: it would change rows that no batch has; take adagrad, "
            "adam or sgd"
        )


def _name(choice: Any) -> str:
    return choice if isinstance(choice, str) else next(iter(choice))
