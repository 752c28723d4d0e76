"""The built-in model `esmm`: the probability of a later step as a product over the steps.

Ma et al., Entire Space Multi-Task Model, SIGIR 2018. One DNN a task over the same embeddings; that
of the first gives P(click), that of the second P(purchase | click), which is never learned from
clicked rows alone but through the product, over all rows:

    P(click and purchase) = P(click) P(purchase | click) = sigmoid(a) sigmoid(b)

A third task multiplies by its own factor, and so on. The head of the objective `purchase` has the
logit of the product, so its loss, metrics and predictions are of click and purchase together; the
other factor is the prediction `purchase_given_click`.
"""

from __future__ import annotations

import tensorflow as tf

from estimator_kit.model.model_fn import Logits
from estimator_kit.models.dnn_params import tower_logits
from estimator_kit.models.task_sequence import TaskSequenceModel
from input_pipelines.transform.transforms import Features


def joint_logit(first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
    """The logit of sigmoid(first) sigmoid(second), float32 of their shape.

    The odds against the product are (1 + e^-a)(1 + e^-b) - 1 = e^-a + e^-b + e^-(a + b), so that

        logit = -log(e^-a + e^-b + e^-(a + b))

    without a rounding to 0 or 1 anywhere, and with gradients from 0 to 1. Two logits of 0 make
    probabilities 1/2 and 1/4, and the logit -log 3 = -1.0986.
    """
    return -tf.reduce_logsumexp(tf.stack([-first, -second, -(first + second)]), axis=0)


class ESMMModel(TaskSequenceModel):
    """A DNN for each task; the logits of a later task are those of the product."""

    def logits(self, features: Features, mode: str) -> Logits:
        with tf.compat.v1.variable_scope("dnn"):
            inputs = self.dense_input(features, self.params.group)
        logits: dict[str, tf.Tensor] = {}
        before = None
        for name in self.tasks:
            with tf.compat.v1.variable_scope(f"tower_{name}"):
                own = tower_logits(inputs, self.params, mode, 1)
            if before is None:
                logits[name] = own
            else:
                self.add_output(f"{name}_given_{before}", tf.sigmoid(own))
                logits[name] = joint_logit(logits[before], own)
            before = name
        return logits
