"""The built-in model `din`: what was done before, weighted by how it bears on a target.

Zhou et al., Deep Interest Network for Click-Through Rate Prediction, KDD 2018. With e_s the steps
of a history and t the target item, the vector of the history is

    sum_s a(e_s, t) e_s,   a a small DNN over (e_s, t, e_s - t, e_s * t)

without a softmax, so that a long interest weighs more than a short one, as in the paper. The DNN
then reads the deep group, the target and the history.

The columns of the target group belong, in the order of the spec, to those of the steps group, and
each pair has one width; usually they are embeddings that share a table.
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
    """The weighted sum of the steps, see the module: float32 [rows, width].

    Args:
      steps: float32 [rows, steps, width]; lengths: int64 [rows].
      target: float32 [rows, width].
      hidden_units, activation: of the DNN that gives the weights.
      softmax: whether the weights of a row add up to 1.
    """
    width = steps.shape[2]
    beside = tf.zeros_like(steps) + target[:, tf.newaxis]
    pairs = tf.concat([steps, beside, steps - beside, steps * beside], axis=2)
    flat = tf.reshape(pairs, [-1, 4 * width])
    with tf.compat.v1.variable_scope("attention"):
        scores = dnn_logits(flat, hidden_units, 1, activation=activation)
    scores = tf.reshape(scores, [tf.shape(steps)[0], tf.shape(steps)[1], 1])
    if softmax:
        there = step_mask(steps, lengths)
        scores = tf.nn.softmax(tf.where(there, scores, -1e9 * tf.ones_like(scores)), axis=1)
    return pool_steps(scores * steps, lengths, "sum")


class DINModel(ModelFn):
    """Attention of a target over a history of steps, and a DNN."""

    class Params(DNNParams):
        """Attributes:
        steps_group: the history, sequence columns.
        target_group: columns of the record, one for each of the history's, in their order.
        deep_group: further columns that the DNN reads; None for none. One that is in the target
          group too has one table.
        attention_units, attention_activation: of the DNN that gives the weights.
        softmax: whether the weights of a row add up to 1.
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
        steps, target = spec.groups[p.steps_group], spec.groups[p.target_group]
        if len(steps) != len(target):
            raise ConfigError(
                f"group {p.target_group!r} has {len(target)} columns and {p.steps_group!r} "
                f"{len(steps)}; din pairs them in their order, so list as many in both"
            )
        for step, item in zip(steps, target):
            widths = [input_layer.width_of(spec, name) for name in (step, item)]
            if widths[0] != widths[1]:
                raise ConfigError(
                    f"group {p.target_group!r}: column {item!r} has the width {widths[1]}, and "
                    f"{step!r} of {p.steps_group!r}, which din pairs it with, {widths[0]}; make "
                    "them equal, or the order of the two groups the same"
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
