"""The built-in model `din`: a history of steps, weighted by attention to a target.

Zhou et al., Deep Interest Network for Click-Through Rate Prediction, KDD 2018. e_s are the steps of
a history, and t is the target item. The vector of the history is

    sum_s a(e_s, t) e_s,   where a is a small DNN over (e_s, t, e_s - t, e_s * t)

As in the paper, the weights have no softmax, so that a long history counts more than a short one.
The DNN then reads the deep group, the target and the history.

The model pairs the columns of the target group with the columns of the steps group, in the order of
the spec. The two columns of a pair must have the same width. Usually they are embeddings that share
a table.
"""

from __future__ import annotations

from typing import Optional

import tensorflow as tf

from estimator_kit.errors import ConfigError
from estimator_kit.model import group_checks, input_layer
from estimator_kit.model.model_fn import Logits, ModelFn
from estimator_kit.models.activations import Activation
from estimator_kit.models.dnn_params import DNNParams, HiddenUnits, tower_logits
from estimator_kit.models.layers import dnn_logits
from estimator_kit.models.steps import at_least_one_step, pool_steps, step_mask
from input_pipelines.transform.transforms import Features


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


class DINModel(ModelFn):
    """Attention of a target to a history of steps, followed by a DNN."""

    class Params(DNNParams):
        """Attributes:
        steps_group: the group of sequence columns with the history.
        target_group: the group with the target: one column for each column of the history, in the
          same order.
        deep_group: the group of other columns that the DNN reads. None reads no others. A column
          that is also in the target group has one table.
        attention_units: the number of units of each hidden layer of the DNN that computes the
          weights.
        attention_activation: the activation of the DNN that computes the weights.
        softmax: whether to scale the weights of a row to the sum 1. The paper does not.
        """

        steps_group: str = "steps"
        target_group: str = "target"
        deep_group: Optional[str] = "deep"
        attention_units: HiddenUnits = (36,)
        attention_activation: Activation = "sigmoid"
        softmax: bool = False

    def check_spec(self) -> None:
        p, spec = self.params, self.spec
        group_checks.check_sequence_group(spec, p.steps_group)
        group_checks.check_dense_group(spec, p.target_group)
        if p.deep_group is not None:
            group_checks.check_dense_group(spec, p.deep_group)
            group_checks.check_same_scope(spec, (p.target_group, p.deep_group))
        steps, target = spec.groups[p.steps_group], spec.groups[p.target_group]
        if len(steps) != len(target):
            raise ConfigError(
                f"group {p.target_group!r} has {len(target)} columns, but group {p.steps_group!r} "
                f"has {len(steps)}. din pairs them in order. List equally many in both."
            )
        for step, item in zip(steps, target):
            widths = [input_layer.width_of(spec, name) for name in (step, item)]
            if widths[0] != widths[1]:
                raise ConfigError(
                    f"group {p.target_group!r}: column {item!r} has the width {widths[1]}, but "
                    f"din pairs it with {step!r} of group {p.steps_group!r}, which has the width "
                    f"{widths[0]}. Make the widths equal, or list both groups in the same order."
                )

    def groups(self) -> tuple[str, ...]:
        p = self.params
        found = (p.steps_group, p.target_group, p.deep_group)
        return tuple(group for group in found if group is not None)

    def logits(self, features: Features, mode: str) -> Logits:
        p, groups = self.params, self.spec.groups
        with tf.compat.v1.variable_scope("steps"):
            columns, lengths = input_layer.sequence_columns(self.spec, p.steps_group, features)
            steps = tf.concat([columns[name] for name in groups[p.steps_group]], axis=2)
            steps = at_least_one_step(steps)
        with tf.compat.v1.variable_scope("dnn"):
            names = [*groups[p.target_group], *(groups[p.deep_group] if p.deep_group else ())]
            dense = input_layer.dense_columns(self.spec, names, features)
            target = tf.concat([dense[name] for name in groups[p.target_group]], axis=1)
            history = interest(
                steps,
                lengths,
                target,
                hidden_units=p.attention_units,
                activation=p.attention_activation,
                softmax=p.softmax,
            )
            parts = [target, history]
            if p.deep_group is not None:
                parts.insert(0, input_layer.side_by_side(self.spec, p.deep_group, dense))
            return tower_logits(tf.concat(parts, 1), p, mode, self.logits_dimension)
