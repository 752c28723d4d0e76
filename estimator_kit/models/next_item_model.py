"""Models for the head `next_item`: `gru4rec` and `sasrec`."""

from __future__ import annotations

import abc
import math
from typing import Any, Optional

import tensorflow as tf

from estimator_kit.errors import ConfigError
from estimator_kit.model.group_checks import check_sequence_group, columns_of
from estimator_kit.model.heads.steps import StepScores
from estimator_kit.model.model_fn import Logits, ModelFn
from estimator_kit.model.model_params import Group, ModelParams
from estimator_kit.models.dnn import Dropout, HiddenUnits, PositiveInt
from estimator_kit.models.layers import dense_layer
from estimator_kit.models.normalization import layer_norm
from estimator_kit.models.sequence_model import gru_layer
from estimator_kit.models.transformer import transformer_block
from estimator_kit.optimizers.choice import OptimizerChoice
from estimator_kit.tf_estimator import ModeKeys
from feature_specs.heads import NextItem
from input_pipelines.transform.transforms import Features


class NextItemParams(ModelParams):
    """Attributes:
    steps_group: the group of sequence columns. One of them is the embedding of the items.
    steps_dropout: the share of the inputs of each layer over steps that training sets to zero.
    tied: whether items are scored with the table of their input embedding. `false` learns a second
      table.
    item_bias: whether each item has a number that is added to its score. It learns how popular the
      item is, and ranks the items of rows without steps.
    optimizer: the optimizer. Adam, as in the paper of SASRec, changes the whole table in each step.
      For a large catalogue, use `lazy_adam`.
    """

    steps_group: Group = "steps"
    steps_dropout: Dropout = 0.0
    tied: bool = True
    item_bias: bool = False
    optimizer: OptimizerChoice = "adam"


class NextItemModel(ModelFn):
    """A model over steps for one objective with the head `next_item`. Override `encode`.

    score of item j after step t = <hidden_t, v_j> + b_j

    hidden comes from `encode`, which a subclass overrides. v is the table of the input embedding
    (Press & Wolf, Using the Output Embedding to Improve Language Models, EACL 2017), or a second
    table. The loss, the metrics and the sampling of items belong to the head.
    """

    Params = NextItemParams

    @abc.abstractmethod
    def encode(self, steps: tf.Tensor, lengths: tf.Tensor, mode: str) -> tf.Tensor:
        """float32 [rows, steps, n] from steps [rows, 1 or more, width] and their number [rows].

        A state must not depend on the steps after it, which contain its label.
        """

    def check_spec(self) -> None:
        check_sequence_group(self.spec, self.params.steps_group)
        heads = [entry.head for entry in self.spec.objectives.values()]
        if heads != ["next_item"]:
            raise ConfigError(
                f"{type(self).__name__} learns one next_item objective, got the heads "
                f"{', '.join(heads)}. Remove the other objectives, or use another model."
            )
        self.item_embedding()

    def groups(self) -> tuple[str, ...]:
        return (self.params.steps_group,)

    def item_embedding(self) -> str:
        """The name of the embedding column of the items, which the group must contain."""
        (objective,) = self.spec.objectives.values()
        assert isinstance(objective, NextItem)
        group = self.params.steps_group
        for name in columns_of(self.spec, group):
            embeds = self.spec.columns[name].dense == "embedding"
            if embeds and self.spec.category_of(name)[0] == objective.items:
                return name
        raise ConfigError(
            f"group {group!r} has no embedding of the items, the column {objective.items!r}. Add "
            "one, or set the model parameter steps_group."
        )

    def logits(self, features: Features, mode: str) -> Logits:
        name = self.item_embedding()
        with tf.compat.v1.variable_scope("steps"):
            steps, lengths = self.sequence_input(features, self.params.steps_group)
            hidden = self.encode(steps, lengths, mode)
        with tf.compat.v1.variable_scope("items"):
            width = self.spec.columns[name].width(self.spec)
            if hidden.shape[2] != width:
                hidden = dense_layer(hidden, width, "projection")
            hidden = self._without_padding(hidden, lengths)
            return StepScores(hidden, lengths, *self._table_and_bias(name, width))

    def _table_and_bias(self, name: str, width: int) -> tuple[Any, Any]:
        """The vectors that score items, and their bias or None.

        The scope has the name of the items' column, so that a warm start moves rows by their words.
        """
        v1, (items, _) = tf.compat.v1, self.spec.category_of(name)
        size = self.spec.size_of(items)
        table: Any = self.embedding_table(name)
        bias = None
        with v1.variable_scope(self.spec.canned_name(items)):
            if not self.params.tied:
                table = v1.get_variable("vectors", [size, width])
            if self.params.item_bias:
                bias = v1.get_variable("bias", [size], initializer=v1.zeros_initializer())
        return table, bias

    def drop(self, steps: tf.Tensor, mode: str) -> tf.Tensor:
        """Applies `steps_dropout` in training."""
        rate = self.params.steps_dropout
        return tf.nn.dropout(steps, rate=rate) if rate and mode == ModeKeys.TRAIN else steps

    @staticmethod
    def _without_padding(hidden: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
        is_step = tf.sequence_mask(lengths, tf.shape(hidden)[1])[:, :, tf.newaxis]
        return tf.where(is_step, hidden, tf.zeros_like(hidden))


class GRU4RecModel(NextItemModel):
    """GRU layers over the steps of a group.

    Hidasi et al., Session-based Recommendations with Recurrent Neural Networks, ICLR 2016, and
    Hidasi & Karatzoglou, Recurrent Neural Networks with Top-k Gains for Session-based
    Recommendations, CIKM 2018. h is the state of the last GRU layer, e are the
    embeddings of the items:

        h_t = GRU(e of step t, h_(t-1)),     score of item j after step t = <W h_t + c, e_j> + b_j

    W and c, which make the state as wide as an embedding, are left out if the widths are equal.

    Differences from the papers: a row is a whole session, and gradients go back through all of its
    steps. The papers use Adagrad, and the default here is Adam, as in `sasrec`. The default loss of
    the head is the softmax over all items. For the losses of the papers, set `loss: {bpr_max:
    {samples: 2048, negatives: in_batch}}` in the head.
    """

    class Params(NextItemParams):
        """Attributes:
        recurrent_units: the number of units of each GRU layer, starting at the steps.
        item_bias: whether each item has a number that is added to its score, as in the papers.
        """

        recurrent_units: HiddenUnits = (100,)
        item_bias: bool = True

    def encode(self, steps: tf.Tensor, lengths: tf.Tensor, mode: str) -> tf.Tensor:
        for i, units in enumerate(self.params.recurrent_units):
            steps = gru_layer(self.drop(steps, mode), lengths, units, f"layer_{i}")
        return self.drop(steps, mode)


class SASRecModel(NextItemModel):
    """Causal transformer blocks over the steps of a group.

    Kang & McAuley, Self-Attentive Sequential Recommendation, ICDM 2018. e are the embeddings of the
    steps, P the learned vectors of positions, and A is attention of a step to itself and to the
    steps before it:

        x = sqrt(width) e + P
        x = x + A(norm(x)),   x = x + W2 relu(W1 norm(x) + b1) + b2      for each block
        hidden = norm(x),     score of item j after step t = <hidden_t, e_j>

    Differences from the paper: the keys and values of A are normalized too, not only the queries,
    and A ends with a dense layer. The paper compares the next item with one sampled item; the
    default loss of the head is the softmax over all items, which ranks better (Klenitskiy &
    Vasilev, RecSys 2023).

    Positions count backwards from the last step, so that the most recent step is always 0. Steps
    before the last `max_steps` share one position. Time and memory grow with the square of the
    steps.
    """

    class Params(NextItemParams):
        """Attributes:
        blocks: the number of blocks.
        heads: the number of attention heads of each block. It divides `width`.
        width: the width of a step inside the blocks. None is the width of the steps.
        feed_forward: the number of units of the layer W1. None is the width.
        max_steps: the number of positions.
        steps_dropout: the share of the inputs of each layer over steps that training sets to zero.
          The paper uses 0.2 for MovieLens-1M and 0.5 for sparser data.
        """

        blocks: PositiveInt = 2
        heads: PositiveInt = 1
        width: Optional[PositiveInt] = None
        feed_forward: Optional[PositiveInt] = None
        max_steps: PositiveInt = 50
        steps_dropout: Dropout = 0.2

    def encode(self, steps: tf.Tensor, lengths: tf.Tensor, mode: str) -> tf.Tensor:
        p = self.params
        width = p.width or int(steps.shape[2])
        if width != steps.shape[2]:
            steps = dense_layer(steps, width, "input")
        positions = tf.compat.v1.get_variable(
            "positions",
            [p.max_steps, width],
            initializer=tf.compat.v1.truncated_normal_initializer(stddev=0.02),
        )
        back = lengths[:, tf.newaxis] - 1 - tf.range(tf.shape(steps, tf.int64)[1])
        back = tf.clip_by_value(back, 0, p.max_steps - 1)
        x = self.drop(steps * math.sqrt(width) + tf.gather(positions, back), mode)
        for i in range(p.blocks):
            x = transformer_block(
                x,
                lengths,
                f"block_{i}",
                heads=p.heads,
                feed_forward=p.feed_forward or width,
                drop=lambda inner: self.drop(inner, mode),
                causal=True,
            )
        return layer_norm(x, "norm")
