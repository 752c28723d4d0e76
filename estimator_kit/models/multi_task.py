"""The base of models with a part shared by all objectives and a tower of its own for each.

A subclass says in `shared` what the tower of each objective reads. Labels of an objective move its
own tower and what is shared, never another's tower.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping

import tensorflow as tf

from estimator_kit.model.model_fn import Logits
from estimator_kit.models.dense_group import DenseGroupModel
from estimator_kit.models.dnn_params import DNNParams, PositiveInt, tower_logits
from estimator_kit.models.layers import dense_layer
from input_pipelines.transform.transforms import Features


class MultiTaskParams(DNNParams):
    """Attributes:
    group: the group of columns it reads.
    hidden_units: of the shared part: of the bottom, or of each expert.
    tower_units: hidden units of each objective's tower; none for a linear one.
    """

    group: str = "deep"
    hidden_units: tuple[PositiveInt, ...] = (128, 64)
    tower_units: tuple[PositiveInt, ...] = (32,)


class MultiTaskModel(DenseGroupModel):
    """Override `shared`."""

    Params = MultiTaskParams

    @abc.abstractmethod
    def shared(self, inputs: tf.Tensor, mode: str) -> Mapping[str, tf.Tensor]:
        """{objective: float32 [rows, n]} from the group's columns, float32 [rows, width]."""

    def logits(self, features: Features, mode: str) -> Logits:
        with tf.compat.v1.variable_scope("dnn"):
            inputs = self.dense_input(features, self.params.group)
            shared = self.shared(inputs, mode)
        logits = {}
        for name, objective in self.objectives.items():
            with tf.compat.v1.variable_scope(f"tower_{name}"):
                logits[name] = tower_logits(
                    shared[name],
                    self.params,
                    mode,
                    objective.logits_dimension,
                    self.params.tower_units,
                )
        return logits


def gated(experts: list[tf.Tensor], inputs: tf.Tensor, name: str) -> tf.Tensor:
    """sum_e softmax(inputs @ kernel)_e experts_e: float32 [rows, units].

    Args:
      experts: float32 [rows, units] each.
      inputs: of the gate, float32 [rows, n]; its kernel is in the scope `name`.
    """
    weights = tf.nn.softmax(dense_layer(inputs, len(experts), name, use_bias=False))
    return tf.einsum("ne,neu->nu", weights, tf.stack(experts, axis=1))
