"""The built-in model `xdeepfm`: a linear model, a compressed interaction network and a DNN.

Lian et al., xDeepFM: Combining Explicit and Implicit Feature Interactions for Recommender Systems,
KDD 2018. Map h of layer k crosses all maps of the layer before it with all fields, separately for
each dimension. X^0 are the fields:

    X^k_h = sum_{i,j} W^{k,h}_ij X^{k-1}_i * X^0_j

The logits are linear in the sums of all maps over the dimension. As in the paper, the network has
no activation, because one made it worse.
"""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from estimator_kit.model.model_fn import Logits
from estimator_kit.model.model_params import Group
from estimator_kit.models.dnn_params import DNNParams, HiddenUnits, tower_logits
from estimator_kit.models.field_model import FieldModel
from estimator_kit.models.layers import dense_layer
from input_pipelines.transform.transforms import Features


def interactions(fields: tf.Tensor, maps: Sequence[int]) -> tf.Tensor:
    """The sums of all maps of all layers: float32 [rows, sum(maps)].

    Args:
      fields: float32 [rows, fields, dimension].
      maps: the number of maps of each layer. A layer costs rows * dimension * fields * maps of the
        layer before * maps.
    """
    first = current = tf.transpose(fields, [0, 2, 1])
    dimension, count = first.shape[1], first.shape[2]
    sums = []
    for k, size in enumerate(maps):
        pairs = current[:, :, :, tf.newaxis] * first[:, :, tf.newaxis, :]
        pairs = tf.reshape(pairs, [-1, dimension, current.shape[2] * count])
        current = dense_layer(pairs, size, f"cin_{k}", use_bias=False)
        current.set_shape([None, dimension, size])
        sums.append(tf.reduce_sum(current, axis=1))
    return tf.concat(sums, axis=1)


class XDeepFMModel(FieldModel):
    """The sum of a linear model over `wide`, interactions of `fields`, and a DNN over `deep`."""

    class Params(DNNParams):
        """Attributes:
        wide_group: the group of ids and numbers for the linear part.
        fields_group: the group of embeddings with equal dimensions for the interactions.
        deep_group: the group that the DNN reads. A column that is also in `fields` has one table.
        maps: the number of maps of each interaction layer. The paper uses up to 200, which is slow.
        """

        wide_group: Group = "wide"
        fields_group: Group = "fields"
        deep_group: Group = "deep"
        maps: HiddenUnits = (32, 32)

    def logits(self, features: Features, mode: str) -> Logits:
        wide = self.wide_logits(features)
        with tf.compat.v1.variable_scope("dnn"):
            fields, deep = self.inputs(features)
            deep_logits = tower_logits(deep, self.params, mode, self.logits_dimension)
        with tf.compat.v1.variable_scope("cin"):
            crossed = interactions(fields, self.params.maps)
            return (
                wide
                + deep_logits
                + dense_layer(crossed, self.logits_dimension, "logits", use_bias=False)
            )
