"""The built-in model `dnn`: one tower of dense layers shared by all objectives."""

from __future__ import annotations

import tensorflow as tf

from estimator_kit.input_layer import check_dense_group
from estimator_kit.model_fn import Logits, ModelFn
from estimator_kit.models.dnn_params import DNNParams, tower_logits
from input_pipelines.transforms import Features


class DNNModel(ModelFn):
    """A DNN over one group, with the variables of `tf.estimator.DNNClassifier`."""

    class Params(DNNParams):
        """Attributes:
        group: the group of columns it reads.
        """

        group: str = "deep"

    def check_spec(self) -> None:
        check_dense_group(self.spec, self.params.group)

    def groups(self) -> tuple[str, ...]:
        return (self.params.group,)

    def logits(self, features: Features, mode: str) -> Logits:
        with tf.compat.v1.variable_scope("dnn"):
            inputs = self.dense_input(features, self.params.group)
            return tower_logits(inputs, self.params, mode, self.logits_dimension)
