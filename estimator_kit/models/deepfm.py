"""The built-in model `deepfm`: a factorization machine and a DNN over the same embeddings.

Guo et al., DeepFM: A Factorization-Machine based Neural Network for CTR Prediction, IJCAI 2017:

    logits = linear(wide) + pairs(fields) + DNN(deep)
"""

from __future__ import annotations

import tensorflow as tf

from estimator_kit.model.model_fn import Logits
from estimator_kit.model.model_params import Group
from estimator_kit.models.dnn_params import DNNParams, tower_logits
from estimator_kit.models.field_model import FieldModel
from estimator_kit.models.fm import pairwise_logits
from input_pipelines.transform.transforms import Features


class DeepFMModel(FieldModel):
    """A factorization machine plus a DNN. In the paper, both read the same columns."""

    class Params(DNNParams):
        """Attributes:
        wide_group: the group of ids and numbers for the first-order part.
        fields_group: the group of embeddings with equal dimensions for the second-order part.
        deep_group: the group that the DNN reads. A column that is also in `fields` has one table.
        """

        wide_group: Group = "wide"
        fields_group: Group = "fields"
        deep_group: Group = "deep"

    def logits(self, features: Features, mode: str) -> Logits:
        wide = self.wide_logits(features)
        with tf.compat.v1.variable_scope("dnn"):
            fields, deep = self.inputs(features)
            deep_logits = tower_logits(deep, self.params, mode, self.logits_dimension)
        with tf.compat.v1.variable_scope("fm"):
            return wide + pairwise_logits(fields, self.logits_dimension) + deep_logits
