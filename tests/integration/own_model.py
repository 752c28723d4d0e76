"""A user's model with a metric, a hook and losses of rows, for tests of whole runs."""

import logging

import tensorflow as tf

import estimator_kit as ek


class CountSteps(tf.compat.v1.train.SessionRunHook):
    """Logs at the end how many steps a training or an evaluation made."""

    def __init__(self, mode):
        self.mode, self.steps = mode, 0

    def after_run(self, run_context, run_values):
        self.steps += 1

    def end(self, session):
        logging.getLogger("estimator_kit").info("own hook: %d steps of %s", self.steps, self.mode)


class MissedClicks(ek.ModelFn):
    """A click that is predicted to be no click costs more than the other way round."""

    class Params(ek.ModelParams):
        penalty: float = ek.parameter(3.0, changes="training scores")

    def logits(self, features, mode):
        hidden = ek.dense_layer(self.dense_input(features, "deep"), 8, "hidden", tf.nn.relu)
        return ek.dense_layer(hidden, self.logits_dimension, "logits")

    def example_losses(self, labels, predictions, weights, features):
        clicks = tf.cast(labels["click"], tf.float32)
        logits = predictions["click/logits"][:, 0]
        losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=clicks, logits=logits)
        return {"click": losses * (1 + clicks * (self.params.penalty - 1))}

    def metrics(self, labels, predictions, weights, features):
        missed = tf.cast(labels["click"], tf.float32) * (1 - predictions["click/logistic"][:, 0])
        return {"missed": tf.compat.v1.metrics.mean(missed, weights["click"])}

    def hooks(self, mode):
        return [CountSteps(mode)]
