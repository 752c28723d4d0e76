"""The built-in model `dien`: a history of steps, whose states are weighted by a target and evolve.

Zhou et al., Deep Interest Evolution Network for Click-Through Rate Prediction, AAAI 2019. e_s are
the steps of a history, and t is the target item:

    h_s = GRU(h_(s-1), e_s)                    the interests after each step
    a_s = softmax_s <h_s, V t>                 their weights
    g_s = AUGRU(g_(s-1), h_s, a_s)             how the interests in the target evolve

The DNN reads the deep group, the target and the last g. `target_model` says how columns of the
target group and of the steps group are paired, and `recurrent` has the AUGRU.

The label of a row says little about single steps. So training also learns to tell the step that
follows from another one. W e' is a step at the same place of another row of the batch:

    auxiliary = -mean_s [log sigmoid <h_s, W e_(s+1)> + log sigmoid(-<h_s, W e'_(s+1)>)]

It is a regularization loss of the graph: `loss` of an evaluation does not contain it. Differences
from the paper: the other step is one of the batch instead of one drawn from all items, so that no
catalogue is needed, and the products have the matrices V and W, so that the states may have any
width.
"""

from __future__ import annotations

from typing import Annotated

import pydantic
import tensorflow as tf

from estimator_kit.compat.tf_estimator import ModeKeys
from estimator_kit.model.model_params import TRAINING
from estimator_kit.models.dnn_params import PositiveInt
from estimator_kit.models.layers import dense_layer
from estimator_kit.models.recurrent import gru_layer
from estimator_kit.models.steps import pool_steps, step_mask
from estimator_kit.models.target_model import TargetModel, TargetParams


def next_step_loss(states: tf.Tensor, steps: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
    """How well each state tells the step after it from one of the row before: a scalar.

    Args:
      states: float32 [rows, steps, units]; lengths: int64 [rows].
      steps: float32 [rows, steps, units].
    """
    there = tf.sequence_mask(lengths - 1, tf.shape(steps)[1] - 1, tf.float32)
    states, after = states[:, :-1], steps[:, 1:]
    right = tf.nn.softplus(-tf.reduce_sum(states * after, axis=2))
    wrong = tf.nn.softplus(tf.reduce_sum(states * tf.roll(after, 1, axis=0), axis=2))
    total = tf.reduce_sum(there * (right + wrong * tf.roll(there, 1, axis=0)))
    return tf.math.divide_no_nan(total, tf.reduce_sum(there))


class DIENModel(TargetModel):
    """Two recurrent layers over the history, the second with attention to the target, and a DNN."""

    class Params(TargetParams):
        """Attributes:
        recurrent_units: the number of units of both recurrent layers.
        auxiliary_weight: the weight of the auxiliary loss. 0 switches it off.
        """

        recurrent_units: PositiveInt = 32
        auxiliary_weight: Annotated[float, pydantic.Field(ge=0, allow_inf_nan=False), TRAINING] = (
            1.0
        )

    def history(
        self, steps: tf.Tensor, lengths: tf.Tensor, target: tf.Tensor, mode: str
    ) -> tf.Tensor:
        units, weight = self.params.recurrent_units, self.params.auxiliary_weight
        states = gru_layer(steps, lengths, units, "interests")
        if weight:
            after = dense_layer(steps, units, "next", use_bias=False)
            if mode == ModeKeys.TRAIN:
                loss = weight * next_step_loss(states, after, lengths)
                keys = tf.compat.v1.GraphKeys
                tf.compat.v1.add_to_collection(keys.REGULARIZATION_LOSSES, loss)
        wanted = dense_layer(target, units, "attention", use_bias=False)
        scores = tf.einsum("nsu,nu->ns", states, wanted)[:, :, tf.newaxis]
        there = step_mask(states, lengths)
        weights = tf.nn.softmax(tf.where(there, scores, -1e9 * tf.ones_like(scores)), axis=1)
        evolved = gru_layer(states, lengths, units, "evolution", attention=weights)
        return pool_steps(evolved, lengths, "last")
