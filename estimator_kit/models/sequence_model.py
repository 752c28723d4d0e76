"""The base of sequence models: they turn the steps of a row into a vector for a DNN.

A subclass makes the vector in `encode`. The DNN reads this vector and the columns of the deep
group.
"""

from __future__ import annotations

import abc

import tensorflow as tf

from estimator_kit.compat.tf_estimator import ModeKeys
from estimator_kit.model import group_checks
from estimator_kit.model.model_fn import Logits, ModelFn
from estimator_kit.model.model_params import Group, OptionalGroup
from estimator_kit.models.dnn_params import DNNParams, Dropout, tower_logits
from estimator_kit.models.steps import Pooling
from input_pipelines.transform.transforms import Features


class SequenceParams(DNNParams):
    """Attributes:
    steps_group: the group of sequence columns.
    deep_group: the group that the DNN reads in addition to the steps. None reads only the steps.
    steps_dropout: the share of the inputs of each layer over steps that training sets to zero.
      `dropout` applies to the DNN.
    pooling: how the outputs of all steps become one vector: `last`, `max`, `mean` or `sum`.
    """

    steps_group: Group = "steps"
    deep_group: OptionalGroup = "deep"
    steps_dropout: Dropout = 0.0
    pooling: Pooling = "mean"


class SequenceModel(ModelFn):
    """A model over steps. Override `encode`."""

    Params = SequenceParams

    @abc.abstractmethod
    def encode(self, steps: tf.Tensor, lengths: tf.Tensor, mode: str) -> tf.Tensor:
        """float32 [rows, n] from steps [rows, 1 or more, width] and their number [rows]."""

    def check_spec(self) -> None:
        group_checks.check_sequence_group(self.spec, self.params.steps_group)
        if self.params.deep_group is not None:
            group_checks.check_dense_group(self.spec, self.params.deep_group)

    def groups(self) -> tuple[str, ...]:
        found = (self.params.steps_group, self.params.deep_group)
        return tuple(group for group in found if group is not None)

    def logits(self, features: Features, mode: str) -> Logits:
        with tf.compat.v1.variable_scope("steps"):
            steps, lengths = self.sequence_input(features, self.params.steps_group)
            parts = [self.encode(steps, lengths, mode)]
        with tf.compat.v1.variable_scope("dnn"):
            if self.params.deep_group is not None:
                parts.insert(0, self.dense_input(features, self.params.deep_group))
            return tower_logits(tf.concat(parts, 1), self.params, mode, self.logits_dimension)

    def drop(self, steps: tf.Tensor, mode: str) -> tf.Tensor:
        """Applies `steps_dropout` in training."""
        rate = self.params.steps_dropout
        return tf.nn.dropout(steps, rate=rate) if rate and mode == ModeKeys.TRAIN else steps
