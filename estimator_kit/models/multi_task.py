"""The base of models with a part that all objectives share, and a separate tower for each.

A subclass returns the input of each tower in `shared`. The labels of an objective train its tower
and the shared part, but never the tower of another objective.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping

import tensorflow as tf

from estimator_kit.model.model_fn import Logits
from estimator_kit.model.model_params import Group
from estimator_kit.model.places.input_places import owned
from estimator_kit.models.dense_group import DenseGroupModel
from estimator_kit.models.dnn_params import DNNParams, PositiveInt, tower_logits
from estimator_kit.models.layers import dense_layer
from input_pipelines.transform.transforms import Features


class MultiTaskParams(DNNParams):
    """Attributes:
    group: the group that the model reads.
    hidden_units: the number of units of each hidden layer of the shared part: the bottom, or each
      expert.
    tower_units: the number of units of each hidden layer of a tower. `[]` makes linear towers.
    """

    group: Group = "deep"
    hidden_units: tuple[PositiveInt, ...] = (128, 64)
    tower_units: tuple[PositiveInt, ...] = (32,)


class MultiTaskModel(DenseGroupModel):
    """A model with shared layers and towers. Override `shared`."""

    Params = MultiTaskParams

    @abc.abstractmethod
    def shared(self, inputs: tf.Tensor, mode: str) -> Mapping[str, tf.Tensor]:
        """{objective: float32 [rows, n]} from the columns of the group, float32 [rows, width]."""

    def logits(self, features: Features, mode: str) -> Logits:
        with tf.compat.v1.variable_scope("dnn"):
            inputs = self.dense_input(features, self.params.group)
            shared = self.shared(inputs, mode)
        logits = {}
        for name, objective in self.objectives.items():
            with owned(name), tf.compat.v1.variable_scope(f"tower_{name}"):
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
      experts: the outputs of the experts, float32 [rows, units] each.
      inputs: the input of the gate, float32 [rows, n].
      name: the scope of the kernel of the gate.
    """
    weights = tf.nn.softmax(dense_layer(inputs, len(experts), name, use_bias=False))
    return tf.einsum("ne,neu->nu", weights, tf.stack(experts, axis=1))
