"""Optimizers by name, and the training op that a model makes from them.

    make_optimizer("adam", 1e-3), make_optimizer({"adam": {"beta1": 0.8}}, 1e-3)
    minimize(loss, [("linear/", ftrl), ("", adagrad)], clip_norm=1.0, freeze=["dnn/input.*"])

The optimizers are TensorFlow's v1 classes. They do not store the learning rate in the checkpoint,
so a new rate takes effect when training continues. They work in graphs on every TensorFlow that has
Estimators. Keras optimizers, including the legacy ones, store the rate and other hyperparameters as
variables. A restart would read them back and ignore the command line, so the kit has no Keras
optimizers. Different parts of a model may have different optimizers, chosen by names of
variables.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any, Optional, Union

import tensorflow as tf

from estimator_kit.config.choices import parse_choice
from estimator_kit.errors import ConfigError
from estimator_kit.optimizers import freezing, gradient_changes, moving_average
from estimator_kit.optimizers.combining.base import MakeGradients
from estimator_kit.optimizers.gradient_changes import clipped, global_norm
from estimator_kit.optimizers.kinds import OPTIMIZERS, Ftrl
from estimator_kit.optimizers.sparse import summed
from estimator_kit.optimizers.sync_replicas import Synchronous

_log = logging.getLogger("estimator_kit")

# A name, or a name with fields: `adam` or `{adam: {beta1: 0.8, learning_rate: 0.01}}`.
OptimizerChoice = Union[str, dict[str, Any]]

# Tensors that hooks fetch by name from the training graph. The rate is the last optimizer's rate.
GRADIENT_NORM_TENSOR = "estimator_kit/gradient_norm"
LEARNING_RATE_TENSOR = "estimator_kit/learning_rate"

# The prefix of the messages of the check on loss and gradients, which identifies these errors.
NOT_FINITE = "estimator_kit training check: "


class NothingLearned(ConfigError):
    """No variable has a gradient of the loss."""


def make_optimizer(
    name: Union[str, Mapping[str, Any]],
    learning_rate: Optional[float] = None,
    *,
    factor: Any = None,
) -> Any:
    """Makes a `tf.compat.v1.train.Optimizer`.

    Args:
      name: one of `OPTIMIZERS`, or `{name: {field: value}}`. A field `learning_rate` replaces the
        argument.
      learning_rate: the learning rate, above 0. By default it is `default_rate` of the optimizer.
      factor: a scalar tensor that multiplies the rate, such as the result of
        `schedules.factor_at`. `ModelFn.make_optimizer` passes the factor of the model.

    Raises:
      ConfigError: the name is unknown, a field is wrong, or the rate is not above 0. Or FTRL has a
        `factor`. It stores no weights, and computes each one as (the sum of its gradients) *
        (the rate of now), so half the rate would also halve every weight that it has learned.
    """
    kind = parse_choice("optimizer", name, OPTIMIZERS)
    if factor is not None and isinstance(kind, Ftrl):
        raise ConfigError(
            "the optimizer ftrl does not work with the model parameters schedule and "
            "warm_up_steps: it computes its weights from the rate of now, so another rate also "
            "scales the weights that it has learned. Use another optimizer, such as adagrad "
            "(linear_optimizer=adagrad for the linear part of wide_deep), or remove the parameters."
        )
    if learning_rate is None:
        learning_rate = kind.default_rate
    if not learning_rate > 0:
        raise ConfigError(f"learning rate: got {learning_rate}, expected a number above 0")
    rate = kind.learning_rate if kind.learning_rate is not None else learning_rate
    rate = rate if factor is None else factor * rate
    optimizer = kind.make(rate)
    optimizer.follows_schedule = factor is not None
    optimizer.rate_now = rate
    return optimizer


def default_rate(name: Any) -> Optional[float]:
    """The learning rate of an optimizer that has none, or None for an unknown optimizer.

    Args:
      name: as in `make_optimizer`.
    """
    if isinstance(name, Mapping):
        name = next(iter(name), None)
    kind = OPTIMIZERS.get(name) if isinstance(name, str) else None
    return None if kind is None else kind.default_rate


def minimize(
    loss: tf.Tensor,
    optimizers: Sequence[tuple[str, Any]],
    *,
    clip_norm: Optional[float] = None,
    clip_value: Optional[float] = None,
    freeze: Sequence[str] = (),
    accumulate: int = 1,
    last_step: Optional[int] = None,
    average: Optional[float] = None,
    gradients: Optional[MakeGradients] = None,
    together: Optional[Synchronous] = None,
) -> tf.Operation:
    """The op of one training step, which also runs the graph's update ops and counts the step.

    Args:
      loss: scalar.
      optimizers: pairs (prefix of variable names, optimizer). Each trainable variable gets the
        first optimizer whose prefix fits. `""` fits all variables. A prefix is a regular expression
        that the start of the name must match.
      clip_norm: the limit on the norm of all gradients together. None sets no limit.
      clip_value: the limit on the absolute value of each number of the gradients, applied before
        `clip_norm`.
      freeze: prefixes of the variables that are not trained. No gradients are computed for them,
        and update ops of their layers do not run. See `freezing`.
      accumulate: the number of batches whose gradients are averaged before a step. The global step
        still counts batches. See `accumulation`.
      last_step: the global step at which training ends, with a step of the batches that
        `accumulate` has left. None if it is not known. They then stay in the checkpoint.
      average: the decay of a moving average of the weights. See `moving_average`.
      gradients: a function that makes the gradients, which otherwise come from the loss. It gets a
        function from a loss to its gradients, the variables, and the global step. The loss is then
        only checked.
      together: in a cluster whose processes make each step together, the description of the
        cluster.

    Raises:
      ConfigError: a variable has no optimizer, a prefix fits no variable, or no variable has a
        gradient.
      tf.errors.InvalidArgumentError (in the graph): the loss or a gradient is NaN or infinite. The
        step is then not applied, so no checkpoint contains it.
    """
    trainable = tf.compat.v1.trainable_variables()
    check_optimizers(optimizers, trainable)
    variables = freezing.not_frozen(trainable, freeze)
    owner = {v.ref(): _owner(v.op.name, optimizers) for v in trainable}

    def compute(loss: tf.Tensor) -> list[Any]:
        # Gradients do not depend on the optimizer, so any optimizer can compute them.
        return [g for g, _ in optimizers[0][1].compute_gradients(loss, variables)]

    step = tf.compat.v1.train.get_or_create_global_step()
    loss_gradients = compute(loss) if gradients is None else gradients(compute, variables, step)
    pairs = [
        (gradient, variable)
        for gradient, variable in zip(loss_gradients, variables)
        if gradient is not None
    ]
    pairs = gradient_changes.for_collectives(pairs)
    pairs = [(summed(gradient), variable) for gradient, variable in pairs]
    _check_learning(variables, {variable.ref() for _, variable in pairs})
    with tf.name_scope("gradient_norm"):
        norm = global_norm([gradient for gradient, _ in pairs])
    tf.identity(norm, name=GRADIENT_NORM_TENSOR)
    rates = [optimizer.rate_now for _, optimizer in optimizers if hasattr(optimizer, "rate_now")]
    if rates:
        tf.identity(tf.cast(rates[-1], tf.float32), name=LEARNING_RATE_TENSOR)
    averages = moving_average.make(variables) if average is not None else {}

    def apply(pairs: Sequence[tuple[Any, Any]]) -> tf.Operation:
        limited = clipped([gradient for gradient, _ in pairs], clip_norm, clip_value)
        steps = []
        for i, (_, optimizer) in enumerate(optimizers):
            own = [(g, v) for g, (_, v) in zip(limited, pairs) if owner[v.ref()] == i]
            if own:
                steps.append(optimizer.apply_gradients(own))
        if average is None:
            return tf.group(*steps)
        with tf.control_dependencies(steps):
            return moving_average.update(averages, average, step)

    with tf.name_scope("checks"):
        finite = [
            tf.debugging.check_numerics(loss, f"{NOT_FINITE}the loss"),
            tf.debugging.check_numerics(norm, f"{NOT_FINITE}a gradient"),
        ]
    checks = [
        *finite,
        *freezing.not_frozen_updates(
            tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.UPDATE_OPS), freeze, trainable
        ),
    ]
    if together is not None:
        # Only the ops that submit the gradients wait for the checks. The ops that the chief's own
        # thread runs, such as its tokens, must not depend on a batch, because the thread would then
        # read another batch at each step.
        with tf.control_dependencies(checks):
            pairs = [(_after_checks(gradient), variable) for gradient, variable in pairs]
        return together.step(pairs, apply, step)
    with tf.control_dependencies(checks):
        if accumulate == 1:
            done = apply(pairs)
        else:
            done = gradient_changes.accumulated(pairs, accumulate, step, apply, last_step)
    with tf.control_dependencies([done]):
        counted = tf.compat.v1.assign_add(step, 1)
    return counted.op


def _after_checks(gradient: Any) -> Any:
    if not isinstance(gradient, tf.IndexedSlices):
        return tf.identity(gradient)
    values = tf.identity(gradient.values)
    return tf.IndexedSlices(values, tf.identity(gradient.indices), gradient.dense_shape)


def check_optimizers(optimizers: Any, trainable: Sequence[Any]) -> None:
    """Raises ConfigError if `optimizers` are not pairs that fit the trainable variables."""
    pairs = optimizers if isinstance(optimizers, (list, tuple)) else ()
    if not pairs or not all(isinstance(pair, tuple) and len(pair) == 2 for pair in pairs):
        raise ConfigError(
            f"expected a list of (prefix, optimizer) pairs, got {optimizers!r}. Return one for "
            "each part of the model, or one with the prefix ''."
        )
    for prefix, optimizer in pairs:
        if not isinstance(optimizer, tf.compat.v1.train.Optimizer):
            raise ConfigError(
                f"the optimizer for {prefix!r} is {optimizer!r}, expected a v1 optimizer of "
                "TensorFlow. Make it with self.make_optimizer('adam', rate)."
            )
        if isinstance(optimizer, tf.compat.v1.train.SyncReplicasOptimizer):
            raise ConfigError(
                f"the optimizer for {prefix!r} is a SyncReplicasOptimizer, expected one that does "
                "not count the steps. Use the optimizer in it, with --strategy=sync_replicas."
            )
    owners = {_owner(v.op.name, pairs) for v in trainable}
    for i, (prefix, _) in enumerate(pairs):
        if i not in owners:
            raise ConfigError(
                f"the optimizer for {prefix!r} has no variable. The variables are "
                f"{', '.join(v.op.name for v in trainable) or 'none'}."
            )


def _check_learning(variables: Sequence[Any], learning: set[Any]) -> None:
    idle = [v.op.name for v in variables if v.ref() not in learning]
    if not learning:
        raise NothingLearned(
            "no variable has a gradient of the loss, so the model would learn nothing. The "
            f"variables are: {', '.join(idle) or '(none)'}. Look for a tf.stop_gradient, or an "
            "operation without a gradient, between them and the logits."
        )
    if idle:
        _log.warning(
            "these variables have no gradient of the loss and are not trained: %s", ", ".join(idle)
        )


def _owner(name: str, optimizers: Sequence[tuple[str, Any]]) -> int:
    for i, (prefix, _) in enumerate(optimizers):
        if re.match(prefix, name):
            return i
    prefixes = ", ".join(repr(prefix) for prefix, _ in optimizers)
    raise ConfigError(
        f"the variable {name!r} has no optimizer. The optimizers are for the prefixes {prefixes}. "
        "Add one for '', which fits all variables."
    )
