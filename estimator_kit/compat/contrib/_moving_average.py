"""The MovingAverageOptimizer of tf.contrib.opt."""

from __future__ import annotations

from typing import Any, Optional

import tensorflow.compat.v1 as tf


class MovingAverageOptimizer(tf.train.Optimizer):
    """Keeps a moving average of each variable that another optimizer changes.

    `swapping_saver` saves the averages under the names of the variables, so that whoever reads the
    checkpoint gets the averages.

    Args:
      opt: computes and applies the gradients.
      average_decay: as in `tf.train.ExponentialMovingAverage`.
      num_updates: as in `tf.train.ExponentialMovingAverage`.
      sequential_update: averages after the variables have changed; False: at the same time.
    """

    def __init__(
        self,
        opt: Any,
        average_decay: float = 0.9999,
        num_updates: Any = None,
        sequential_update: bool = True,
    ) -> None:
        self._optimizer = opt
        self._ema = tf.train.ExponentialMovingAverage(average_decay, num_updates=num_updates)
        self._sequential_update = sequential_update
        self._swapped: Optional[dict[str, str]] = None

    def compute_gradients(self, *args: Any, **kwargs: Any) -> Any:
        return self._optimizer.compute_gradients(*args, **kwargs)

    def apply_gradients(
        self, grads_and_vars: Any, global_step: Any = None, name: Optional[str] = None
    ) -> Any:
        grads_and_vars = list(grads_and_vars)
        train = self._optimizer.apply_gradients(grads_and_vars, global_step=global_step, name=name)
        variables = [variable for grad, variable in grads_and_vars if grad is not None]
        with tf.control_dependencies([train] if self._sequential_update else []):
            average = self._ema.apply(variables)
        pairs = [(v.op.name, self._ema.average(v).op.name) for v in variables]
        self._swapped = dict([*pairs, *((new, old) for old, new in pairs)])
        return tf.group(train, average, name="train_with_avg")

    def swapping_saver(
        self, var_list: Any = None, name: str = "swapping_saver", **kwargs: Any
    ) -> tf.train.Saver:
        """A saver that exchanges each variable and its average; use it for training only.

        Args:
          var_list: a list of variables, or a dictionary from names to variables; by default all
            global variables.
          **kwargs: for `tf.train.Saver`.

        Raises:
          RuntimeError: neither `minimize` nor `apply_gradients` was called before.
          ValueError: a variable is to be saved, and its average is not.
        """
        if self._swapped is None:
            raise RuntimeError(
                "swapping_saver: expected a call of minimize or apply_gradients before, got none"
            )
        if var_list is None:
            var_list = tf.global_variables()
        if not isinstance(var_list, dict):
            var_list = {variable.op.name: variable for variable in var_list}
        return tf.train.Saver(
            {key: self._other(key, var_list) for key in var_list}, name=name, **kwargs
        )

    def _other(self, key: str, variables: dict[str, Any]) -> Any:
        assert self._swapped is not None
        other = self._swapped.get(key, key)
        if other not in variables:
            raise ValueError(
                f"var_list: expected {other!r}, which is exchanged with {key!r}, among the "
                "variables. Add it, or leave var_list out."
            )
        return variables[other]
