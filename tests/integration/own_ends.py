"""A user's model whose code ends a training or an evaluation early, for tests of whole runs."""

from typing import Any, Optional

import numpy as np
import tensorflow as tf

import estimator_kit as ek

ModeKeys = tf.estimator.ModeKeys
AT = 3


class Ends(tf.compat.v1.train.SessionRunHook):
    """Ends the loop before step `AT`, in one of several ways."""

    def __init__(self, how):
        self.how, self.steps, self.values = how, 0, iter(range(AT))

    def after_create_session(self, session, coord):
        self.coord = coord

    def before_run(self, run_context):
        if self.how == "next":
            next(self.values)  # ends

    def after_run(self, run_context, run_values):
        self.steps += 1
        if self.steps < AT:
            return
        if self.how == "request_stop":
            run_context.request_stop()
        elif self.how == "coordinator":
            self.coord.request_stop()
        elif self.how == "aborted":
            raise tf.errors.AbortedError(None, None, "the lock is taken")
        elif self.how == "own out of range":
            raise tf.errors.OutOfRangeError(None, None, "no more")


class Early(ek.ModelFn):
    """Ends in the modes `modes`, in the way `how`."""

    class Params(ek.ModelParams):
        how: str = "no"
        modes: tuple[str, ...] = ek.parameter((ModeKeys.TRAIN,), changes="training")

    def logits(self, features, mode):
        hidden = self.dense_input(features, "deep")
        if mode in self.params.modes:
            ended = _op(self.params.how)
            if ended is not None:
                hidden += 0 * ended
        return ek.dense_layer(hidden, self.logits_dimension, "logits")

    def hooks(self, mode):
        how = self.params.how
        if mode not in self.params.modes:
            return None
        if how == "StopAtStepHook":
            return [tf.compat.v1.train.StopAtStepHook(num_steps=AT)]
        return [Ends(how)]


def _op(how: str) -> Optional[Any]:
    if how == "data set":
        rows = tf.data.Dataset.range(AT).map(lambda x: tf.cast(x, tf.float32))
        return tf.compat.v1.data.make_one_shot_iterator(rows).get_next()  # ends
    if how == "numpy_function":
        values = iter(np.arange(AT, dtype=np.float32))
        ended = tf.numpy_function(lambda: next(values), [], tf.float32)  # ends
        return tf.reshape(ended, [])
    return None
