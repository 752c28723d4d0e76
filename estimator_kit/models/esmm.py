"""The built-in model `esmm`: the probability of a later task is a product over the tasks.

Ma et al., Entire Space Multi-Task Model, SIGIR 2018. Each task has a DNN over the same embeddings.
The first DNN predicts P(click), and the second DNN predicts P(purchase | click). The second learns
through the product, from all rows instead of only from clicked rows:

    P(click and purchase) = P(click) P(purchase | click) = sigmoid(a) sigmoid(b)

A third task multiplies by another factor, and so on. The head of the objective `purchase` gets the
logit of the product. Its loss, metrics and predictions are therefore about rows that are clicked
and purchased. The prediction `purchase_given_click` is P(purchase | click).
"""

from __future__ import annotations

import tensorflow as tf

from estimator_kit.model.model_fn import Logits
from estimator_kit.models.dnn_params import tower_logits
from estimator_kit.models.task_sequence import TaskSequenceModel
from input_pipelines.transform.transforms import Features


def joint_logit(first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
    """The logit of sigmoid(first) sigmoid(second): float32 in the shape of the arguments.

    The odds against the product are (1 + e^-a)(1 + e^-b) - 1 = e^-a + e^-b + e^-(a + b). Therefore

        logit = -log(e^-a + e^-b + e^-(a + b))

    No step rounds a probability to 0 or 1, and the gradients are from 0 to 1. Two logits of 0 have
    the probabilities 1/2 and 1/4, and the logit -log 3 = -1.0986.
    """
    return -tf.reduce_logsumexp(tf.stack([-first, -second, -(first + second)]), axis=0)


class ESMMModel(TaskSequenceModel):
    """One DNN per task. The logit of a later task is the logit of the product."""

    def logits(self, features: Features, mode: str) -> Logits:
        with tf.compat.v1.variable_scope("dnn"):
            inputs = self.dense_input(features, self.params.group)
        logits: dict[str, tf.Tensor] = {}
        before = None
        for name in self.tasks:
            with self.tower_of(name):
                own = tower_logits(inputs, self.params, mode, 1)
            if before is None:
                logits[name] = own
            else:
                self.add_output(f"{name}_given_{before}", tf.sigmoid(own))
                logits[name] = joint_logit(logits[before], own)
            before = name
        return logits
