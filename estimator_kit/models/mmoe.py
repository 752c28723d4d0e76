"""The built-in model `mmoe`: several expert DNNs, mixed by a gate per objective.

Ma et al., Modeling Task Relationships in Multi-task Learning with Multi-gate Mixture-of-Experts,
KDD 2018. f_e are the experts, and g_k is the gate of the objective k:

    y_k = tower_k(sum_e g_k(x)_e f_e(x)),    g_k(x) = softmax(G_k x)
"""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf

from estimator_kit.model.places.input_places import owned
from estimator_kit.models.dnn_params import HiddenUnits, PositiveInt, tower
from estimator_kit.models.multi_task import MultiTaskModel, MultiTaskParams, gated


class MMoEModel(MultiTaskModel):
    """Experts that all objectives share, and a gate and a tower per objective."""

    class Params(MultiTaskParams):
        """Attributes:
        hidden_units: the number of units of each hidden layer of an expert.
        experts: the number of experts. The paper uses 8.
        """

        hidden_units: HiddenUnits = (128, 64)
        experts: PositiveInt = 8

    def shared_prefix(self) -> str:
        return rf"dnn/expert_\d+/hiddenlayer_{len(self.params.hidden_units) - 1}/"

    def shared(self, inputs: tf.Tensor, mode: str) -> Mapping[str, tf.Tensor]:
        experts = []
        for i in range(self.params.experts):
            with tf.compat.v1.variable_scope(f"expert_{i}"):
                experts.append(tower(inputs, self.params, mode))
        mixed = {}
        for name in self.objectives:
            with owned(name):
                mixed[name] = gated(experts, inputs, f"gate_{name}")
        return mixed
