"""The collections of TensorFlow 1 that a model must not fill, and the two of trained variables.

Most collections have the effect that they have with `tf.estimator`: a session runs UPDATE_OPS with
each step of training, TABLE_INITIALIZERS at its start, also in an export, and writes SUMMARIES. An
op in one of the collections here replaces what a session does for all variables, but the variables
of optimizers and metrics are made after it. With `tf.estimator`, too, a model then fails late.

An optimizer of TensorFlow trains the variables of two collections. `join_trainable` makes them one,
so that no other module of the kit has to know the second. Otherwise, this module changes nothing.
"""

from __future__ import annotations

import tensorflow as tf

from estimator_kit.errors import ConfigError

_START = "For one more op at the start of each session, use TABLE_INITIALIZERS."
_READY = "Return it in the Scaffold of the method `scaffold`."
_REFUSED = {
    "INIT_OP": _START,
    "LOCAL_INIT_OP": _START,
    "READY_FOR_LOCAL_INIT_OP": _READY,
    "READY_OP": _READY,
    "SAVERS": "The kit makes the saver. Remove yours.",
    "SUMMARY_OP": "Use SUMMARIES, as tf.compat.v1.summary does.",
}


def check(model: str) -> None:
    """Raises ConfigError if `logits` filled a collection of `_REFUSED`. Call it after `logits`."""
    for name, remedy in _REFUSED.items():
        filled = tf.compat.v1.get_collection(getattr(tf.compat.v1.GraphKeys, name))
        if filled:
            raise ConfigError(
                f"{model}.logits: the collection tf.compat.v1.GraphKeys.{name} replaces what "
                f"TensorFlow does for all variables, got {filled[0]!r}. {remedy}"
            )


def join_trainable(model: str) -> None:
    """Moves the variables of TRAINABLE_RESOURCE_VARIABLES to TRAINABLE_VARIABLES.

    Call it after the code of the model that makes variables.

    Raises:
      ConfigError: a variable is in both, so that an optimizer of TensorFlow would add its gradient
        twice in each step.
    """
    keys = tf.compat.v1.GraphKeys
    moved = tf.compat.v1.get_collection_ref(keys.TRAINABLE_RESOURCE_VARIABLES)
    trainable = tf.compat.v1.get_collection_ref(keys.TRAINABLE_VARIABLES)
    for variable in moved:
        if any(each is variable for each in trainable):
            raise ConfigError(
                f"{model}: expected each variable in one collection of trained variables, got "
                f"{variable.op.name} in TRAINABLE_RESOURCE_VARIABLES and another time. Optimizers "
                "would train it twice in each step. Add it once."
            )
        trainable.append(variable)
    moved.clear()
