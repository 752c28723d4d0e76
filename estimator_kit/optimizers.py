"""Optimizers by name, and the one training op that a model makes from them.

The optimizers are TensorFlow's v1 classes: they keep no learning rate in the checkpoint, so that a
new rate takes effect when training goes on, and they work in graphs on every TensorFlow that has
Estimators. Different parts of a model may have different ones, chosen by the variable's name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Optional

import tensorflow as tf

from estimator_kit.adagrad import AdagradOptimizer
from estimator_kit.errors import ConfigError
from feature_specs.errors import did_you_mean

_train = tf.compat.v1.train

OPTIMIZERS: dict[str, Callable[[float], Any]] = {
    "adagrad": AdagradOptimizer,
    "adam": _train.AdamOptimizer,
    "ftrl": _train.FtrlOptimizer,
    "momentum": lambda rate: _train.MomentumOptimizer(rate, momentum=0.9),
    "rmsprop": _train.RMSPropOptimizer,
    "sgd": _train.GradientDescentOptimizer,
}

# Begins the messages of the check on loss and gradients, so that the error can be told apart.
NOT_FINITE = "estimator_kit training check: "


def make_optimizer(name: str, learning_rate: float) -> Any:
    """A `tf.compat.v1.train.Optimizer`.

    Raises:
      ConfigError: there is no optimizer of that name, or the rate is not above 0.
    """
    if name not in OPTIMIZERS:
        raise ConfigError(f"no optimizer {name!r}{did_you_mean(name, OPTIMIZERS)}")
    if not learning_rate > 0:
        raise ConfigError(f"learning rate: got {learning_rate}, expected a number above 0")
    return OPTIMIZERS[name](learning_rate)


def minimize(
    loss: tf.Tensor,
    optimizers: Sequence[tuple[str, Any]],
    *,
    clip_norm: Optional[float] = None,
) -> tf.Operation:
    """The op of one training step, which also runs the graph's update ops and counts the step.

    Args:
      loss: scalar.
      optimizers: (prefix of variable names, optimizer); each trainable variable goes to the first
        whose prefix it has. `""` takes all that is left.
      clip_norm: limit on the norm of all gradients together, or None for no limit.

    Raises:
      ConfigError: a variable goes to no optimizer.
      tf.errors.InvalidArgumentError (in the graph): the loss or a gradient is NaN or infinite;
        the step is then not applied, so no checkpoint ever holds it.
    """
    if not optimizers or not all(isinstance(pair, tuple) and len(pair) == 2 for pair in optimizers):
        raise ConfigError(f"optimizers: got {optimizers}, expected (prefix, optimizer) pairs")
    variables = tf.compat.v1.trainable_variables()
    owner = {v.ref(): _owner(v.op.name, optimizers) for v in variables}
    for i, (prefix, _) in enumerate(optimizers):
        if i not in owner.values():
            raise ConfigError(
                f"the optimizer for {prefix!r} gets no variable; there are "
                f"{', '.join(v.op.name for v in variables)}"
            )
    # Gradients do not depend on who applies them; any optimizer computes them.
    pairs = optimizers[0][1].compute_gradients(loss, variables)
    pairs = [(gradient, variable) for gradient, variable in pairs if gradient is not None]
    gradients = [gradient for gradient, _ in pairs]
    norm = tf.linalg.global_norm(gradients)
    if clip_norm is not None:
        gradients, _ = tf.clip_by_global_norm(gradients, clip_norm, use_norm=norm)
    checks = [
        tf.debugging.check_numerics(loss, f"{NOT_FINITE}the loss"),
        tf.debugging.check_numerics(norm, f"{NOT_FINITE}a gradient"),
        *tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.UPDATE_OPS),
    ]
    with tf.control_dependencies(checks):
        steps = [
            optimizer.apply_gradients(
                [(g, v) for g, (_, v) in zip(gradients, pairs) if owner[v.ref()] == i]
            )
            for i, (_, optimizer) in enumerate(optimizers)
        ]
    with tf.control_dependencies(steps):
        return tf.compat.v1.assign_add(tf.compat.v1.train.get_or_create_global_step(), 1).op


def _owner(name: str, optimizers: Sequence[tuple[str, Any]]) -> int:
    for i, (prefix, _) in enumerate(optimizers):
        if name.startswith(prefix):
            return i
    prefixes = ", ".join(repr(prefix) for prefix, _ in optimizers)
    raise ConfigError(f"no optimizer for the variable {name!r}; there are ones for {prefixes}")
