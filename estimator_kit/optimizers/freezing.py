"""Which variables the parameter `freeze` leaves as they are: weights, and averages of their layers.

    trained = not_frozen(tf.compat.v1.trainable_variables(), ["dnn/"])
    updates = not_frozen_updates(tf.compat.v1.get_collection("update_ops"), ["dnn/"], weights)
    with in_layers(["dnn/"]):
        ...                # layers that are made here ask `keeps_averages`

Batch normalization in a frozen layer computes the same in training as in a prediction, as a Keras
layer with `trainable = False` does: it uses its moving averages, and nothing updates them.
"""

from __future__ import annotations

import contextlib
import contextvars
import re
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf

from estimator_kit.errors import ConfigError

# The averages of batch normalization, in the scope of the weights `gamma` and `beta`.
_AVERAGES = ("moving_mean", "moving_variance")

# How often items occur in the data, which is not part of a layer.
_FREQUENCIES = re.compile(r"(^|/)item_frequency/")

# Types of ops: those that write the variable of their first input, begin so; those that call a
# function, which may write each variable that it gets; and those that only wait for other ops.
_WRITING = ("Assign", "Scatter", "ResourceScatter")
_CALLING = ("If", "PartitionedCall", "StatefulPartitionedCall", "While")
_WAITING = ("Identity", "IdentityN", "NoOp", "ReadVariableOp")
_VARIABLES = ("VarHandleOp", "VariableV2")

_NOW: contextvars.ContextVar[Sequence[str]] = contextvars.ContextVar("freeze", default=())


@contextlib.contextmanager
def in_layers(freeze: Sequence[str]) -> Iterator[None]:
    """Applies the prefixes to the layers that are made in the block."""
    token = _NOW.set(freeze)
    try:
        yield
    finally:
        _NOW.reset(token)


def keeps_averages(averages: Sequence[str], weights: Sequence[str]) -> bool:
    """Whether batch normalization is frozen in the current block.

    Args:
      averages: the names of its moving averages.
      weights: the names of its trainable variables.
    """
    return any(_fits(name, _NOW.get()) for name in averages) or _all_fit(weights, _NOW.get())


def not_frozen(variables: Sequence[Any], freeze: Sequence[str]) -> list[Any]:
    """The variables that none of the prefixes fits.

    Raises:
      ConfigError: a prefix fits no variable, or no variable is left to train.
    """
    names = [v.op.name for v in variables]
    for prefix in freeze:
        if not any(re.match(prefix, name) for name in names):
            raise ConfigError(
                f"freeze: {prefix!r} fits no variable. Use one of: {', '.join(names)}."
            )
    left = [v for v in variables if not _fits(v.op.name, freeze)]
    if freeze and not left:
        raise ConfigError(
            f"freeze: {', '.join(map(repr, freeze))} leave no variable to train. Freeze less."
        )
    return left


def not_frozen_updates(
    updates: Sequence[Any], freeze: Sequence[str], weights: Sequence[Any]
) -> list[Any]:
    """The updates that write no variable of a frozen layer.

    Args:
      updates: the ops or tensors in the collection UPDATE_OPS.
      freeze: the prefixes.
      weights: the trainable variables.

    Raises:
      ConfigError: an op writes a variable that is frozen and another one that is not.
    """
    if not freeze:
        return list(updates)
    names = [v.op.name for v in weights]
    left = []
    for update in updates:
        for op in _parts(update if isinstance(update, tf.Operation) else update.op):
            written = list(dict.fromkeys(_written(op)))
            frozen = [name for name in written if _is_frozen(name, freeze, names)]
            if frozen and len(frozen) < len(written):
                other = next(name for name in written if name not in frozen)
                raise ConfigError(
                    f"freeze: the update {op.name} writes {frozen[0]}, which is frozen, and "
                    f"{other}, which is not. Add one op for each variable to UPDATE_OPS."
                )
            if not frozen:
                left.append(op)
    return left


def _parts(op: Any) -> Iterator[Any]:
    """The ops of a group, and of groups in it."""
    if op.type == "NoOp" and op.control_inputs:
        for part in op.control_inputs:
            yield from _parts(part)
    else:
        yield op


def _written(op: Any) -> list[str]:
    """The names of the variables that an op writes, or may write, or waits for."""
    if op.type in _WAITING:
        before = [*op.control_inputs, *(tensor.op for tensor in op.inputs)]
        return [name for each in before for name in _written(each)]
    inputs = op.inputs if op.type in _CALLING else ()
    inputs = op.inputs[:1] if op.type.startswith(_WRITING) else inputs
    return [tensor.op.name for tensor in inputs if tensor.op.type in _VARIABLES]


def _is_frozen(name: str, freeze: Sequence[str], weights: Sequence[str]) -> bool:
    if _FREQUENCIES.search(name):
        return False
    scope, _, last = name.rpartition("/")
    siblings = [weight for weight in weights if weight.rpartition("/")[0] == scope]
    return _fits(name, freeze) or (last in _AVERAGES and _all_fit(siblings, freeze))


def _all_fit(names: Sequence[str], freeze: Sequence[str]) -> bool:
    return bool(names) and all(_fits(name, freeze) for name in names)


def _fits(name: str, freeze: Sequence[str]) -> bool:
    return any(re.match(prefix, name) for prefix in freeze)
