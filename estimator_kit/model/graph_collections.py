"""The collections of TensorFlow 1 that a model must not fill.

Most collections have the effect that they have with `tf.estimator`: a session runs UPDATE_OPS with
each step of training, TABLE_INITIALIZERS at its start, also in an export, and writes SUMMARIES. An
op in one of the collections here replaces what a session does for all variables, but the variables
of optimizers and metrics are made after it. With `tf.estimator`, too, a model then fails late. This
module reads a graph and changes nothing.
"""

from __future__ import annotations

import tensorflow as tf

from estimator_kit.errors import ConfigError

_START = "For one more op at the start of each session, use TABLE_INITIALIZERS."
_REFUSED = {
    "INIT_OP": _START,
    "LOCAL_INIT_OP": _START,
    "READY_FOR_LOCAL_INIT_OP": "Remove it.",
    "READY_OP": "Remove it.",
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
