"""Optimizers by name, and the one training op that a model makes from them.

    make_optimizer("adam", 1e-3), make_optimizer({"adam": {"beta1": 0.8}}, 1e-3)
    minimize(loss, [("linear/", ftrl), ("", adagrad)], clip_norm=1.0, freeze=["dnn/input.*"])

The optimizers are TensorFlow's v1 classes: they keep no learning rate in the checkpoint, so that a
new rate takes effect when training goes on, and they work in graphs on every TensorFlow that has
Estimators. Those of Keras, legacy ones included, keep the rate and their other hyperparameters as
variables that a restart reads back, over what the command line says; that alone is why there are
none. Different parts of a model may have different ones, chosen by the variable's name.
"""

from __future__ import annotations

import abc
import logging
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Optional, Union

import pydantic
import tensorflow as tf
from pydantic import Field

from estimator_kit.config.named_choice import parse_choice
from estimator_kit.embeddings import dynamic_tables
from estimator_kit.errors import ConfigError
from estimator_kit.optimizers import accumulation, dense_gradients, moving_average
from estimator_kit.optimizers.adagrad import AdagradOptimizer
from estimator_kit.optimizers.clipping import clipped
from estimator_kit.optimizers.combining.base import MakeGradients
from estimator_kit.optimizers.lazy_adam import LazyAdamOptimizer
from estimator_kit.optimizers.sync_replicas import Synchronous
from feature_specs.entry import NotNegativeFloat, PositiveFloat

_train = tf.compat.v1.train
_log = logging.getLogger("estimator_kit")

# A name, or a name with fields: `adam` or `{adam: {beta1: 0.8, learning_rate: 0.01}}`.
OptimizerChoice = Union[str, dict[str, Any]]

Decay = Annotated[float, Field(ge=0, lt=1)]


class _Kind(pydantic.BaseModel):
    """An optimizer's fields, the arguments of its class; `learning_rate` is in the model's place.

    Defaults are those of the class, but where a class has none.
    """

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid")

    learning_rate: Optional[PositiveFloat] = None

    @abc.abstractmethod
    def make(self, rate: Any) -> Any:
        """The optimizer, with a rate that is a number or a tensor."""

    def _fields(self) -> dict[str, Any]:
        return self.model_dump(exclude={"learning_rate"})


class Adadelta(_Kind):
    """Zeiler, ADADELTA, 2012; its steps have a size of their own, so the rate is mostly 1."""

    rho: Decay = 0.95
    epsilon: PositiveFloat = 1e-8

    def make(self, rate: Any) -> Any:
        return _train.AdadeltaOptimizer(rate, **self._fields())


class Adagrad(_Kind):
    initial_accumulator_value: PositiveFloat = 0.1

    def make(self, rate: Any) -> Any:
        return AdagradOptimizer(rate, **self._fields())


class Adam(_Kind):
    """Every step moves every row of a table, and takes the time for it; see lazy_adam."""

    beta1: Decay = 0.9
    beta2: Decay = 0.999
    epsilon: PositiveFloat = 1e-8

    def make(self, rate: Any) -> Any:
        return _train.AdamOptimizer(rate, **self._fields())


class LazyAdam(Adam):
    """Adam for the rows of a batch alone; see `lazy_adam`."""

    def make(self, rate: Any) -> Any:
        return LazyAdamOptimizer(rate, **self._fields())


class Ftrl(_Kind):
    """McMahan et al., Ad Click Prediction, KDD 2013; l1 makes weights exactly 0."""

    l1: NotNegativeFloat = 0.0
    l2: NotNegativeFloat = 0.0
    l2_shrinkage: NotNegativeFloat = 0.0
    learning_rate_power: Annotated[float, Field(le=0)] = -0.5
    initial_accumulator_value: NotNegativeFloat = 0.1

    def make(self, rate: Any) -> Any:
        return _train.FtrlOptimizer(
            rate,
            learning_rate_power=self.learning_rate_power,
            initial_accumulator_value=self.initial_accumulator_value,
            l1_regularization_strength=self.l1,
            l2_regularization_strength=self.l2,
            l2_shrinkage_regularization_strength=self.l2_shrinkage,
        )


class Momentum(_Kind):
    momentum: Decay = 0.9
    use_nesterov: bool = False

    def make(self, rate: Any) -> Any:
        return _train.MomentumOptimizer(rate, **self._fields())


class RMSProp(_Kind):
    decay: Decay = 0.9
    momentum: Decay = 0.0
    epsilon: PositiveFloat = 1e-10
    centered: bool = False

    def make(self, rate: Any) -> Any:
        return _train.RMSPropOptimizer(rate, **self._fields())


class SGD(_Kind):
    def make(self, rate: Any) -> Any:
        return _train.GradientDescentOptimizer(rate)


OPTIMIZERS: dict[str, type[_Kind]] = {
    "adadelta": Adadelta,
    "adagrad": Adagrad,
    "adam": Adam,
    "ftrl": Ftrl,
    "lazy_adam": LazyAdam,
    "momentum": Momentum,
    "rmsprop": RMSProp,
    "sgd": SGD,
}

# Begins the messages of the check on loss and gradients, so that the error can be told apart.
NOT_FINITE = "estimator_kit training check: "


def make_optimizer(
    name: Union[str, Mapping[str, Any]], learning_rate: float, *, factor: Any = None
) -> Any:
    """A `tf.compat.v1.train.Optimizer`.

    Args:
      name: one of `OPTIMIZERS`, or `{name: {field: value}}`; a field `learning_rate` goes before
        the argument.
      learning_rate: above 0.
      factor: a scalar tensor that multiplies the rate, as `schedules.factor_at` gives it;
        `ModelFn.make_optimizer` passes that of the model.

    Raises:
      ConfigError: there is no optimizer of that name, a field is wrong, or the rate is not above 0.
    """
    kind = parse_choice("optimizer", name, OPTIMIZERS)
    if not learning_rate > 0:
        raise ConfigError(f"learning rate: got {learning_rate}, expected a number above 0")
    rate = kind.learning_rate if kind.learning_rate is not None else learning_rate
    optimizer = kind.make(rate if factor is None else factor * rate)
    optimizer.follows_schedule = factor is not None
    return optimizer


def minimize(
    loss: tf.Tensor,
    optimizers: Sequence[tuple[str, Any]],
    *,
    clip_norm: Optional[float] = None,
    clip_value: Optional[float] = None,
    freeze: Sequence[str] = (),
    accumulate: int = 1,
    average: Optional[float] = None,
    gradients: Optional[MakeGradients] = None,
    together: Optional[Synchronous] = None,
) -> tf.Operation:
    """The op of one training step, which also runs the graph's update ops and counts the step.

    Args:
      loss: scalar.
      optimizers: (prefix of variable names, optimizer); each trainable variable goes to the first
        whose prefix it has. `""` takes all that is left. A prefix is a regular expression that
        the name must begin with.
      clip_norm: limit on the norm of all gradients together, or None for no limit.
      clip_value: limit on each number of the gradients, up and down, before that.
      freeze: prefixes of the variables that stay as they are; no gradient of them is computed.
      accumulate: batches whose gradients are averaged before a step is taken. The global step
        still counts batches. See `accumulation`.
      average: decay of a moving average of the weights, kept beside them; see `moving_average`.
      gradients: makes them in the place of those of the loss, which is then looked at alone:
        called with a function from a loss to its gradients, the variables, and the global step.
      together: in a cluster whose processes make each step together, who they are.

    Raises:
      ConfigError: a variable goes to no optimizer, a prefix fits no variable, or no variable has a
        gradient.
      tf.errors.InvalidArgumentError (in the graph): the loss or a gradient is NaN or infinite;
        the step is then not applied, so no checkpoint ever holds it.
    """
    _check_pairs(optimizers)
    trainable = tf.compat.v1.trainable_variables()
    variables = not_frozen(trainable, freeze)
    dynamic = [v for v in trainable if dynamic_tables.is_dynamic(v)]
    if dynamic:
        learning = {v.ref() for v in variables}
        for v in dynamic:
            if v.ref() not in learning:
                raise ConfigError(
                    f"freeze: {v.op.name} is a dynamic embedding, whose rows are made by training; "
                    "choose prefixes that do not fit it"
                )
        optimizers = [(p, dynamic_tables.optimizer(made, dynamic)) for p, made in optimizers]
    owner = {v.ref(): _owner(v.op.name, optimizers) for v in trainable}
    for i, (prefix, _) in enumerate(optimizers):
        if i not in owner.values():
            raise ConfigError(
                f"the optimizer for {prefix!r} gets no variable; there are "
                f"{', '.join(v.op.name for v in trainable)}"
            )

    def compute(loss: tf.Tensor) -> list[Any]:
        # Gradients do not depend on who applies them; any optimizer computes them.
        return [g for g, _ in optimizers[0][1].compute_gradients(loss, variables)]

    step = tf.compat.v1.train.get_or_create_global_step()
    found = compute(loss) if gradients is None else gradients(compute, variables, step)
    pairs = [
        (gradient, variable) for gradient, variable in zip(found, variables) if gradient is not None
    ]
    pairs = dense_gradients.for_collectives(pairs)
    _check_learning(variables, {variable.ref() for _, variable in pairs})
    norm = tf.linalg.global_norm([gradient for gradient, _ in pairs])
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

    checks = [
        tf.debugging.check_numerics(loss, f"{NOT_FINITE}the loss"),
        tf.debugging.check_numerics(norm, f"{NOT_FINITE}a gradient"),
        *tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.UPDATE_OPS),
    ]
    if together is not None:
        # Only what hands the gradients in waits for the checks. What the chief's own thread runs,
        # as its tokens, must not depend on a batch: it would read one of its own at each step.
        with tf.control_dependencies(checks):
            pairs = [(_after_checks(gradient), variable) for gradient, variable in pairs]
        return together.step(pairs, apply, step)
    with tf.control_dependencies(checks):
        if accumulate == 1:
            done = apply(pairs)
        else:
            done = accumulation.accumulated(pairs, accumulate, step, apply)
    with tf.control_dependencies([done]):
        counted = tf.compat.v1.assign_add(step, 1)
    if not dynamic:
        return counted.op
    made = [optimizer for _, optimizer in optimizers]
    after = tf.convert_to_tensor(counted)
    return tf.group(counted.op, *dynamic_tables.evictions(dynamic, made, after))


def _after_checks(gradient: Any) -> Any:
    if not isinstance(gradient, tf.IndexedSlices):
        return tf.identity(gradient)
    values = tf.identity(gradient.values)
    return tf.IndexedSlices(values, tf.identity(gradient.indices), gradient.dense_shape)


def not_frozen(variables: Sequence[Any], freeze: Sequence[str]) -> list[Any]:
    """The variables that none of some prefixes fits.

    Raises:
      ConfigError: a prefix fits no variable, or nothing is left to train.
    """
    names = [v.op.name for v in variables]
    for prefix in freeze:
        if not any(re.match(prefix, name) for name in names):
            raise ConfigError(f"freeze: {prefix!r} fits no variable; there are {', '.join(names)}")
    left = [v for v in variables if not any(re.match(p, v.op.name) for p in freeze)]
    if freeze and not left:
        raise ConfigError(f"freeze: {', '.join(map(repr, freeze))} leave no variable to train")
    return left


def _check_pairs(optimizers: Any) -> None:
    pairs = optimizers if isinstance(optimizers, (list, tuple)) else ()
    if not pairs or not all(isinstance(pair, tuple) and len(pair) == 2 for pair in pairs):
        raise ConfigError(
            f"optimizers: got {optimizers}, expected a list of (prefix, optimizer) pairs"
        )
    for prefix, optimizer in pairs:
        if not isinstance(optimizer, _train.Optimizer):
            raise ConfigError(
                f"the optimizer for {prefix!r} is {optimizer!r}, expected one of TensorFlow's v1 "
                "classes, as self.make_optimizer('adam', rate) makes them"
            )


def _check_learning(variables: Sequence[Any], learning: set[Any]) -> None:
    idle = [v.op.name for v in variables if v.ref() not in learning]
    if not learning:
        raise ConfigError(
            "no variable has a gradient of the loss, so nothing would be learned; there are "
            f"{', '.join(idle) or 'none'}. Is there a tf.stop_gradient, or an operation without a "
            "gradient, between them and the logits?"
        )
    if idle:
        _log.warning("without a gradient of the loss, and so never trained: %s", ", ".join(idle))


def _owner(name: str, optimizers: Sequence[tuple[str, Any]]) -> int:
    for i, (prefix, _) in enumerate(optimizers):
        if re.match(prefix, name):
            return i
    prefixes = ", ".join(repr(prefix) for prefix, _ in optimizers)
    raise ConfigError(
        f"no optimizer for the variable {name!r}; there are ones for {prefixes}; "
        "add one for '', which takes all that is left"
    )
