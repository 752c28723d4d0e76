"""The built-in model `shared_bottom`: one DNN for all objectives, then a tower for each.

Caruana, Multitask Learning, Machine Learning 28, 1997. This is the simplest multi-task model. All
objectives share the output of one DNN:

    logit_k = tower_k(bottom(x))
"""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf

from estimator_kit.model.input_layer import DNN_SCOPE
from estimator_kit.models.dnn_params import tower
from estimator_kit.models.multi_task import MultiTaskModel


class SharedBottomModel(MultiTaskModel):
    """One DNN with `hidden_units` for all objectives, and a tower with `tower_units` for each."""

    def shared_prefix(self) -> str:
        layers = len(self.params.hidden_units)
        return f"dnn/bottom/hiddenlayer_{layers - 1}/" if layers else f"dnn/{DNN_SCOPE}/"

    def shared(self, inputs: tf.Tensor, mode: str) -> Mapping[str, tf.Tensor]:
        with tf.compat.v1.variable_scope("bottom"):
            bottom = tower(inputs, self.params, mode)
        return dict.fromkeys(self.objectives, bottom)
