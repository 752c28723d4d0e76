"""The built-in model `dnn`: one tower of dense layers for all objectives."""

from __future__ import annotations

import tensorflow as tf

from estimator_kit.model.model_fn import Logits
from estimator_kit.model.model_params import Group
from estimator_kit.models.dense_group import DenseGroupModel
from estimator_kit.models.dnn_params import DNNParams, tower_logits
from input_pipelines.transform.transforms import Features


class DNNModel(DenseGroupModel):
    """A DNN over one group, with the variables of `tf.estimator.DNNClassifier`."""

    class Params(DNNParams):
        """Attributes:
        group: the group that the model reads.
        """

        group: Group = "deep"

    def shared_prefix(self) -> str:
        return f"dnn/hiddenlayer_{len(self.params.hidden_units) - 1}/"

    def logits(self, features: Features, mode: str) -> Logits:
        with tf.compat.v1.variable_scope("dnn"):
            inputs = self.dense_input(features, self.params.group)
            return tower_logits(inputs, self.params, mode, self.logits_dimension)
