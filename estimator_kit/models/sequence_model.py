"""The base of models that read the steps of a sequence: steps become a vector, a DNN does the rest.

A subclass says how in `encode`; its result stands beside the columns of the deep group in the input
of the DNN.
"""

from __future__ import annotations

import abc
from typing import Optional

import tensorflow as tf

from estimator_kit.compat.tf_estimator import ModeKeys
from estimator_kit.model import group_checks
from estimator_kit.model.model_fn import Logits, ModelFn
from estimator_kit.models.dnn_params import DNNParams, Dropout, tower_logits
from estimator_kit.models.steps import Pooling, at_least_one_step
from input_pipelines.transform.transforms import Features


class SequenceParams(DNNParams):
    """Attributes:
    steps_group: sequence columns.
    deep_group: columns of the record that the DNN reads beside the steps; None for none.
    steps_dropout: share of what enters each layer over steps that is dropped in training;
      `dropout` is that of the DNN.
    pooling: how the steps that the layers give become one vector: `last`, `max`, `mean`, `sum`.
    """

    steps_group: str = "steps"
    deep_group: Optional[str] = "deep"
    steps_dropout: Dropout = 0.0
    pooling: Pooling = "mean"


class SequenceModel(ModelFn):
    """Override `encode`."""

    Params = SequenceParams

    @abc.abstractmethod
    def encode(self, steps: tf.Tensor, lengths: tf.Tensor, mode: str) -> tf.Tensor:
        """float32 [rows, n] from steps [rows, at least 1, width] and their number, [rows]."""

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
            parts = [self.encode(at_least_one_step(steps), lengths, mode)]
        with tf.compat.v1.variable_scope("dnn"):
            if self.params.deep_group is not None:
                parts.insert(0, self.dense_input(features, self.params.deep_group))
            return tower_logits(tf.concat(parts, 1), self.params, mode, self.logits_dimension)

    def drop(self, steps: tf.Tensor, mode: str) -> tf.Tensor:
        """`steps_dropout`, in training."""
        rate = self.params.steps_dropout
        return tf.nn.dropout(steps, rate=rate) if rate and mode == ModeKeys.TRAIN else steps
