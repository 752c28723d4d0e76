"""Models that score a target item against a history of steps: `din` and `dien`."""

from __future__ import annotations

import abc
from typing import Annotated

import pydantic
import tensorflow as tf

from estimator_kit.errors import ConfigError
from estimator_kit.model import group_checks, input_layer
from estimator_kit.model.model_fn import Logits, ModelFn
from estimator_kit.model.model_params import TRAINING, Group, OptionalGroup
from estimator_kit.models.dnn import DNNParams, HiddenUnits, PositiveInt, tower_logits
from estimator_kit.models.layers import dense_layer, dnn_logits
from estimator_kit.models.normalization import Activation
from estimator_kit.models.sequence_model import gru_layer, pool_steps, step_mask
from estimator_kit.tf_estimator import ModeKeys
from input_pipelines.transform.transforms import Features


class TargetParams(DNNParams):
    """Attributes:
    steps_group: the group of sequence columns with the history.
    target_group: the group with the target: one column for each column of the history, in the same
      order.
    deep_group: the group of other columns that the DNN reads. None reads no others. A column that
      is also in the target group has one table.
    """

    steps_group: Group = "steps"
    target_group: Group = "target"
    deep_group: OptionalGroup = "deep"


class TargetModel(ModelFn):
    """A model of a target and a history. Override `history`.

    A subclass turns the history into one vector in `history`. A DNN then reads the deep group, the
    target and this vector.

    The model pairs the columns of the target group with the columns of the steps group, in the
    order of the spec. The two columns of a pair must have the same width. Usually they are
    embeddings that share a table.
    """

    Params = TargetParams

    @abc.abstractmethod
    def history(
        self, steps: tf.Tensor, lengths: tf.Tensor, target: tf.Tensor, mode: str
    ) -> tf.Tensor:
        """float32 [rows, n] from steps [rows, 1 or more, width], their number [rows], and target
        [rows, width]."""

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
                f"has {len(steps)}. This model pairs them in order. List equally many in both."
            )
        for step, item in zip(steps, target):
            widths = [input_layer.width_of(spec, name) for name in (step, item)]
            if widths[0] != widths[1]:
                raise ConfigError(
                    f"group {p.target_group!r}: column {item!r} has the width {widths[1]}, but "
                    f"this model pairs it with {step!r} of group {p.steps_group!r}, which has the "
                    f"width {widths[0]}. Make the widths equal, or list both groups in the same "
                    "order."
                )

    def groups(self) -> tuple[str, ...]:
        p = self.params
        named = (p.steps_group, p.target_group, p.deep_group)
        return tuple(group for group in named if group is not None)

    def logits(self, features: Features, mode: str) -> Logits:
        p, groups = self.params, self.spec.groups
        with tf.compat.v1.variable_scope("steps"):
            columns, lengths = input_layer.sequence_columns(self.spec, p.steps_group, features)
            steps = tf.concat([columns[name] for name in groups[p.steps_group]], axis=2)
            steps = input_layer.at_least_one_step(steps)
        with tf.compat.v1.variable_scope("dnn"):
            names = [*groups[p.target_group], *(groups[p.deep_group] if p.deep_group else ())]
            dense = input_layer.dense_columns(self.spec, names, features)
            target = tf.concat([dense[name] for name in groups[p.target_group]], axis=1)
            parts = [target, self.history(steps, lengths, target, mode)]
            if p.deep_group is not None:
                parts.insert(0, input_layer.side_by_side(self.spec, p.deep_group, dense))
            return tower_logits(tf.concat(parts, 1), p, mode, self.logits_dimension)


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
        is_step = step_mask(steps, lengths)
        scores = tf.nn.softmax(tf.where(is_step, scores, -1e9 * tf.ones_like(scores)), axis=1)
    return pool_steps(scores * steps, lengths, "sum")


class DINModel(TargetModel):
    """Attention of a target to a history of steps, followed by a DNN.

    Zhou et al., Deep Interest Network for Click-Through Rate Prediction, KDD 2018. e_s are the
    steps of a history, and t is the target item. The vector of the history is

        sum_s a(e_s, t) e_s,   where a is a small DNN over (e_s, t, e_s - t, e_s * t)

    As in the paper, the weights have no softmax, so that a long history counts more than a short
    one. The DNN then reads the deep group, the target and the history. `TargetModel` says how the
    columns of the target group and of the steps group are paired.
    """

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


def next_step_loss(states: tf.Tensor, steps: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
    """How well each state tells the step after it from one of the row before: a scalar.

    Args:
      states: float32 [rows, steps, units]; lengths: int64 [rows].
      steps: float32 [rows, steps, units].
    """
    has_next = tf.sequence_mask(lengths - 1, tf.shape(steps)[1] - 1, tf.float32)
    states, after = states[:, :-1], steps[:, 1:]
    right = tf.nn.softplus(-tf.reduce_sum(states * after, axis=2))
    wrong = tf.nn.softplus(tf.reduce_sum(states * tf.roll(after, 1, axis=0), axis=2))
    total = tf.reduce_sum(has_next * (right + wrong * tf.roll(has_next, 1, axis=0)))
    return tf.math.divide_no_nan(total, tf.reduce_sum(has_next))


class DIENModel(TargetModel):
    """Two recurrent layers over the history, the second with attention to the target, and a DNN.

    Zhou et al., Deep Interest Evolution Network for Click-Through Rate Prediction, AAAI 2019. e_s
    are the steps of a history, and t is the target item:

        h_s = GRU(h_(s-1), e_s)                    the interests after each step
        a_s = softmax_s <h_s, V t>                 their weights
        g_s = AUGRU(g_(s-1), h_s, a_s)             how the interests in the target evolve

    The DNN reads the deep group, the target and the last g. `TargetModel` says how columns of the
    target group and of the steps group are paired. `gru_layer` has the AUGRU.

    The label of a row says little about single steps. So training also learns to tell the step that
    follows from another one. W e' is a step at the same place of another row of the batch:

        auxiliary = -mean_s [log sigmoid <h_s, W e_(s+1)> + log sigmoid(-<h_s, W e'_(s+1)>)]

    It is a regularization loss of the graph: `loss` of an evaluation does not contain it.
    Differences from the paper: the other step is one of the batch instead of one drawn from all
    items, so that no catalogue is needed, and the products have the matrices V and W, so that the
    states may have any width.
    """

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
        is_step = step_mask(states, lengths)
        weights = tf.nn.softmax(tf.where(is_step, scores, -1e9 * tf.ones_like(scores)), axis=1)
        evolved = gru_layer(states, lengths, units, "evolution", attention=weights)
        return pool_steps(evolved, lengths, "last")
