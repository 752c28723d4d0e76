"""The built-in model `din`: a history of steps, weighted by attention to a target.

Zhou et al., Deep Interest Network for Click-Through Rate Prediction, KDD 2018. e_s are the steps of
a history, and t is the target item. The vector of the history is

    sum_s a(e_s, t) e_s,   where a is a small DNN over (e_s, t, e_s - t, e_s * t)

As in the paper, the weights have no softmax, so that a long history counts more than a short one.
The DNN then reads the deep group, the target and the history. `target_model` says how the columns
of the target group and of the steps group are paired.
"""

from __future__ import annotations

import tensorflow as tf

from estimator_kit.models.activations import Activation
from estimator_kit.models.dnn_params import HiddenUnits
from estimator_kit.models.layers import dnn_logits
from estimator_kit.models.steps import pool_steps, step_mask
from estimator_kit.models.target_model import TargetModel, TargetParams


def interest(
    steps: tf.Tensor,
    lengths: tf.Tensor,
    target: tf.Tensor,
    *,
    hidden_units: tuple[int, ...],
    activation: str = "sigmoid",
    softmax: bool = False,
) -> tf.Tensor:
    """The weighted sum of the steps: float32 [rows, width]. See the module docstring.

    Args:
      steps: float32 [rows, steps, width]; lengths: int64 [rows].
      target: float32 [rows, width].
      hidden_units, activation: the hidden layers of the DNN that computes the weights.
      softmax: whether to scale the weights of a row to the sum 1.
    """
    width = steps.shape[2]
    repeated = tf.zeros_like(steps) + target[:, tf.newaxis]
    pairs = tf.concat([steps, repeated, steps - repeated, steps * repeated], axis=2)
    flat = tf.reshape(pairs, [-1, 4 * width])
    with tf.compat.v1.variable_scope("attention"):
        scores = dnn_logits(flat, hidden_units, 1, activation=activation)
    scores = tf.reshape(scores, [tf.shape(steps)[0], tf.shape(steps)[1], 1])
    if softmax:
        there = step_mask(steps, lengths)
        scores = tf.nn.softmax(tf.where(there, scores, -1e9 * tf.ones_like(scores)), axis=1)
    return pool_steps(scores * steps, lengths, "sum")


class DINModel(TargetModel):
    """Attention of a target to a history of steps, followed by a DNN."""

    class Params(TargetParams):
        """Attributes:
        attention_units: the number of units of each hidden layer of the DNN that computes the
          weights.
        attention_activation: the activation of the DNN that computes the weights.
        softmax: whether to scale the weights of a row to the sum 1. The paper does not.
        """

        attention_units: HiddenUnits = (36,)
        attention_activation: Activation = "sigmoid"
        softmax: bool = False

    def history(
        self, steps: tf.Tensor, lengths: tf.Tensor, target: tf.Tensor, mode: str
    ) -> tf.Tensor:
        p = self.params
        return interest(
            steps,
            lengths,
            target,
            hidden_units=p.attention_units,
            activation=p.attention_activation,
            softmax=p.softmax,
        )
