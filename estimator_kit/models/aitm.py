"""The built-in model `aitm`, a sequence of tasks."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated

import pydantic
import tensorflow as tf

from estimator_kit.model.model_fn import Logits
from estimator_kit.model.model_params import TRAINING_AND_SCORES
from estimator_kit.model.own_losses import ExampleLosses
from estimator_kit.models.dnn import tower
from estimator_kit.models.layers import dense_layer
from estimator_kit.models.task_sequence import TaskSequenceModel, TaskSequenceParams
from input_pipelines.transform.transforms import Features


def transfer(passed: tf.Tensor, own: tf.Tensor) -> tf.Tensor:
    """z_t, with the kernels Q, K and V in the current scope: float32 [rows, k].

    Args:
      passed, own: p_t and q_t, float32 [rows, k] each.
    """
    width = own.shape[1]
    both = tf.stack([passed, own], axis=1)
    query, key, value = (
        dense_layer(both, width, name, use_bias=False) for name in ("query", "key", "value")
    )
    scores = tf.reduce_sum(query * key, axis=2) / math.sqrt(width)
    return tf.einsum("nt,ntk->nk", tf.nn.softmax(scores), value)


def calibrator(before: tf.Tensor, after: tf.Tensor) -> tf.Tensor:
    """max(later probability - earlier probability, 0) of each row, from logits.

    The earlier probabilities 0.5 and 0.2 and the later 0.6 and 0.1 cost 0.1 and 0.
    """
    return tf.nn.relu(tf.sigmoid(after) - tf.sigmoid(before))


class AITMModel(TaskSequenceModel):
    """One DNN per task, with information transfer from each task to the next.

    Xi et al., Modeling the Sequential Dependence among Audience Multi-step Conversions with
    Multi-task Learning in Targeted Display Advertising, KDD 2021. q_t is the output of the DNN of
    task t, with the width k, and z_1 = q_1:

        p_t = relu(G_t z_{t-1} + b_t)                                passed information
        z_t = w_p V_t p_t + w_q V_t q_t                              adaptive information transfer
        (w_p, w_q) = softmax(<Q_t p_t, K_t p_t>, <Q_t q_t, K_t q_t>, each over sqrt(k))
        logit_t = linear(z_t)

    A later task cannot be more probable than the task before it. The behavioral expectation
    calibrator is therefore added to the loss of each row of a later task. y_t is the predicted
    probability:

        calibrator * max(y_t - y_{t-1}, 0)

    The weights of rows and the `loss_weight` of the task also multiply this term. The metric `loss`
    contains it, and `loss/<objective>` does not. The prediction `purchase_given_click` is y_t /
    y_{t-1}, limited to 1.
    """

    class Params(TaskSequenceParams):
        """Attributes:
        calibrator: the factor of the calibrator loss. The paper uses 0.6. 0 turns it off.
        """

        calibrator: Annotated[
            float, pydantic.Field(ge=0, allow_inf_nan=False), TRAINING_AND_SCORES
        ] = 0.6

    def logits(self, features: Features, mode: str) -> Logits:
        p = self.params
        with tf.compat.v1.variable_scope("dnn"):
            inputs = self.dense_input(features, p.group)
        logits: dict[str, tf.Tensor] = {}
        before = hidden = None
        for name in self.tasks:
            with self.tower_of(name):
                own = tower(inputs, p, mode)
                if hidden is not None:
                    passed = dense_layer(hidden, p.hidden_units[-1], "passed_on", tf.nn.relu)
                    own = transfer(passed, own)
                hidden = own
                logits[name] = dense_layer(hidden, 1, "logits")
            if before is not None:
                share = tf.math.log_sigmoid(logits[name]) - tf.math.log_sigmoid(logits[before])
                self.add_output(f"{name}_given_{before}", tf.exp(tf.minimum(share, 0)))
            before = name
        return logits

    def example_losses(
        self,
        labels: Mapping[str, tf.Tensor],
        predictions: Mapping[str, tf.Tensor],
        weights: Mapping[str, tf.Tensor],
        features: Features,
    ) -> ExampleLosses:
        losses = {}
        for earlier, name in zip(self.tasks, self.tasks[1:]):
            head = self.heads[name]
            before, after = predictions[f"{earlier}/logits"], predictions[f"{name}/logits"]
            rows = head.row_losses(after, labels[head.label_name])
            losses[name] = rows + self.params.calibrator * calibrator(before, after)[:, 0]
        return losses
