"""The training step of a model that overrides `train_op` or `optimizers`.

A parameter that the model's own code does not read would do nothing, and a search over it would
compare equal models. So a parameter that was set to another value than its default must be read
by the method that replaces the kit's code.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import tensorflow as tf

from estimator_kit.errors import ConfigError
from estimator_kit.model import user_code
from estimator_kit.model.model_params import ModelParams, changes_of, noted_reads
from estimator_kit.model.modes.prediction import Model
from estimator_kit.optimizers import freezing, moving_average
from estimator_kit.optimizers.choice import GRADIENT_NORM_TENSOR, check_optimizers

# The parameters that the kit's `train_op` and `optimizers` apply. `combine` is applied outside of
# them; see `check_combination`.
OF_STEP = tuple(
    name
    for name in ModelParams.model_fields
    if "training" in changes_of(ModelParams, name) and name != "combine"
)
OF_OPTIMIZERS = ("optimizer", "learning_rate")

# The ops that take a variable without changing it.
_READING_OPS = ("ReadVariableOp", "VarIsInitializedOp", "VariableShape")

# A read of one of these may be a read of each parameter.
_ALL = frozenset({"__dict__", "model_copy", "model_dump", "model_dump_json"})


def train_op(model: Model, loss: tf.Tensor) -> tf.Operation:
    """The op of `ModelFn.train_op`, which the model overrides, with the graph's UPDATE_OPS.

    Raises:
      ConfigError: the method does not read a parameter that is set, or does not keep the moving
        averages that the parameter asks for.
    """
    graph = tf.compat.v1.get_default_graph()
    before = len(graph.get_operations())
    with noted_reads() as read, user_code.explained(model, "train_op"):
        step_op = model.train_op(loss)
    with user_code.explained(model, "train_op"):
        _check_read(model, "train_op", OF_STEP, read)
        if not isinstance(step_op, (tf.Operation, tf.Tensor)):
            raise ConfigError(
                f"expected an op, got {step_op!r}. Return the result of minimize, or a tf.group."
            )
        _check_averages(model)
        _check_counts(step_op)
    added = graph.get_operations()[before:]
    if any(op.name.endswith(GRADIENT_NORM_TENSOR) for op in added):
        return step_op  # `minimize` has run the updates of the layers that are not frozen.
    return _with_updates(model, step_op)


def optimizers(model: Model) -> Sequence[tuple[str, Any]]:
    """The result of `ModelFn.optimizers`, which the model overrides.

    Raises:
      ConfigError: the method does not read a parameter that is set, or what it returns is not a
        list of prefixes and optimizers.
    """
    with noted_reads() as read, user_code.explained(model, "optimizers"):
        pairs = model.optimizers()
    with user_code.explained(model, "optimizers"):
        _check_read(model, "optimizers", OF_OPTIMIZERS, read)
        check_optimizers(pairs, tf.compat.v1.trainable_variables())
    return pairs


def _check_read(model: Model, method: str, names: Collection[str], read: Collection[str]) -> None:
    if not _ALL.isdisjoint(read):
        return
    kind, given = type(model.params), model.params.model_fields_set
    # With the optimizer that is given, because each optimizer has its own default rate.
    usual = {**dict(kind(optimizer=model.params.optimizer)), "optimizer": kind().optimizer}
    # The parameter `optimizers` replaces these, whoever reads it.
    replaced = OF_OPTIMIZERS if "optimizers" in read and model.params.optimizers else ()
    for name in names:
        value = getattr(model.params, name)
        if name in read or name in replaced or name not in given:
            continue
        if value == usual[name]:
            continue
        raise ConfigError(
            f"{type(model).__name__}.{method} does not read the parameter {name}, so it would do "
            f"nothing, got {value!r}. Use self.params.{name} in the method, or remove the "
            "parameter."
        )


def _check_averages(model: Model) -> None:
    if model.params.moving_average is None:
        return
    kept = {v.op.name for v in tf.compat.v1.global_variables()}
    trained = freezing.not_frozen(tf.compat.v1.trainable_variables(), model.params.freeze)
    missing = [v.op.name for v in trained if moving_average.average_name(v.op.name) not in kept]
    if missing:
        raise ConfigError(
            f"{type(model).__name__}.train_op keeps no moving average of {missing[0]}, so the "
            f"parameter moving_average would do nothing, got {model.params.moving_average}. Pass "
            "average=self.params.moving_average to ek.minimize, or remove the parameter."
        )


def _check_counts(step_op: Any) -> None:
    """Refuses a step that does not add 1 to the global step."""
    step = tf.compat.v1.train.get_or_create_global_step()
    handle = getattr(step, "handle", None)
    if handle is None:  # A variable of TensorFlow 1 is read and changed in more ways.
        return
    changing = [op for op in handle.consumers() if op.type not in _READING_OPS]
    if not set(changing) - {step.initializer}:
        raise ConfigError(
            "no op increases the global step, so training would never end. Use ek.minimize, or "
            "pass global_step=tf.compat.v1.train.get_global_step() to the minimize of an optimizer."
        )
    before = _before(step_op)
    adding = [op for op in changing if op.type.startswith("Assign") and op in before]
    amounts = [tf.get_static_value(op.inputs[1]) for op in adding]
    if len(adding) > 1 or amounts not in ([], [None], [1]):  # None is known only in the session.
        changes = " and ".join(f"{op.name} that adds {n}" for op, n in zip(adding, amounts))
        raise ConfigError(
            "expected one op that adds 1 to the global step for each batch, because it tells which "
            f"rows have been read, got {changes}. Pass global_step to the minimize of one "
            "optimizer, and combine it with the other ops by tf.group."
        )


def _with_updates(model: Model, step_op: Any) -> tf.Operation:
    """The same step with the updates of layers, unless the model's own code runs some of them."""
    updates = freezing.not_frozen_updates(
        tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.UPDATE_OPS),
        model.params.freeze,
        tf.compat.v1.trainable_variables(),
    )
    if not updates or not set(updates).isdisjoint(_before(step_op)):
        return step_op
    return tf.group(step_op, *updates)


def _before(step_op: Any) -> set[tf.Operation]:
    """An op, or the op of a tensor, and all ops that it waits for."""
    left = [step_op if isinstance(step_op, tf.Operation) else step_op.op]
    seen = set(left)
    while left:
        op = left.pop()
        for each in (*op.control_inputs, *(tensor.op for tensor in op.inputs)):
            if each not in seen:
                seen.add(each)
                left.append(each)
    return seen
