"""The base of models for the head `next_item`: they turn steps into a state after each step.

    score of item j after step t = <hidden_t, v_j> + b_j

hidden comes from `encode`, which a subclass overrides. v is the table of the input embedding
(Press & Wolf, Using the Output Embedding to Improve Language Models, EACL 2017), or a second table.
The loss, the metrics and the sampling of items belong to the head.
"""

from __future__ import annotations

import abc
from typing import Any

import pydantic
import tensorflow as tf

from estimator_kit.compat.tf_estimator import ModeKeys
from estimator_kit.errors import ConfigError
from estimator_kit.model.group_checks import check_sequence_group, columns_of
from estimator_kit.model.model_fn import Logits, ModelFn
from estimator_kit.model.model_params import Group, ModelParams
from estimator_kit.model.objectives.step_scores import StepScores
from estimator_kit.models.dnn_params import Dropout
from estimator_kit.models.layers import dense_layer
from estimator_kit.optimizers.choice import OptimizerChoice
from feature_specs.heads.next_item import NextItem
from feature_specs.reference.naming import canned_name
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
    learning_rate: the learning rate, 0.001 as in the paper of SASRec.
    """

    steps_group: Group = "steps"
    steps_dropout: Dropout = 0.0
    tied: bool = True
    item_bias: bool = False
    optimizer: OptimizerChoice = "adam"
    learning_rate: float = pydantic.Field(default=0.001, gt=0, allow_inf_nan=False)


class NextItemModel(ModelFn):
    """A model over steps for one objective with the head `next_item`. Override `encode`."""

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
        with v1.variable_scope(canned_name(self.spec, items)):
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
        there = tf.sequence_mask(lengths, tf.shape(hidden)[1])[:, :, tf.newaxis]
        return tf.where(there, hidden, tf.zeros_like(hidden))
