"""Models that combine fields in layers: `xdeepfm` and `autoint`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import tensorflow as tf

from estimator_kit.model.model_fn import Logits
from estimator_kit.model.model_params import Group, OptionalGroup, Searched
from estimator_kit.models.dnn import DNNParams, HiddenUnits, PositiveInt, tower_logits
from estimator_kit.models.fm import FieldModel
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
    """The sum of a linear model over `wide`, interactions of `fields`, and a DNN over `deep`.

    Lian et al., xDeepFM: Combining Explicit and Implicit Feature Interactions for Recommender
    Systems, KDD 2018. Map h of layer k crosses all maps of the layer before it with all fields,
    separately for each dimension. X^0 are the fields:

        X^k_h = sum_{i,j} W^{k,h}_ij X^{k-1}_i * X^0_j

    The logits are linear in the sums of all maps over the dimension. As in the paper, the network
    has no activation, because one made it worse.
    """

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


def attention_layer(fields: tf.Tensor, name: str, *, heads: int, dimension: int) -> tf.Tensor:
    """float32 [rows, fields, heads * dimension] from [rows, fields, any dimension]."""
    units, count = heads * dimension, fields.shape[1]
    with tf.compat.v1.variable_scope(name):
        query, key, value, rest = (
            dense_layer(fields, units, part, use_bias=False)
            for part in ("query", "key", "value", "residual")
        )
        query, key, value = (
            tf.reshape(part, [-1, count, heads, dimension]) for part in (query, key, value)
        )
        weights = tf.nn.softmax(tf.einsum("nmhd,nkhd->nhmk", query, key))
        attention = tf.reshape(tf.einsum("nhmk,nkhd->nmhd", weights, value), [-1, count, units])
        return tf.nn.relu(attention + rest)


class AutoIntModel(FieldModel):
    """Attention layers over `fields`, and a DNN over the deep group if there is one.

    Song et al., AutoInt: Automatic Feature Interaction Learning via Self-Attentive Neural Networks,
    CIKM 2019. In each layer, every field e_m attends to all fields, in several heads h:

        a^h_mk = softmax_k <Q^h e_m, K^h e_k>
        e'_m   = relu(concat_h sum_k a^h_mk V^h e_k + R e_m)

    As in the paper, the softmax has no scale. The logits are linear in all fields of the last
    layer. With a deep group (AutoInt+ in the paper), the model adds the logits of a DNN.
    """

    class Params(DNNParams):
        """Attributes:
        fields_group: the group of embeddings with equal dimensions.
        deep_group: the group that an additional DNN reads. None makes no DNN. A column that is also
          in `fields` has one table.
        attention_layers: the number of attention layers. The paper uses 3.
        heads: the number of heads of each attention layer. The paper uses 2.
        attention_dimension: the dimension of each head. The paper uses 32.
        """

        fields_group: Group = "fields"
        deep_group: OptionalGroup = None
        attention_layers: Annotated[PositiveInt, Searched({"choice": [1, 2, 3]})] = 3
        heads: PositiveInt = 2
        attention_dimension: PositiveInt = 32

    def logits(self, features: Features, mode: str) -> Logits:
        p = self.params
        with tf.compat.v1.variable_scope("dnn"):
            fields, deep = self.inputs(features)
            deep_logits = 0.0
            if deep is not None:
                deep_logits = tower_logits(deep, p, mode, self.logits_dimension)
        with tf.compat.v1.variable_scope("autoint"):
            for i in range(p.attention_layers):
                fields = attention_layer(
                    fields, f"attention_{i}", heads=p.heads, dimension=p.attention_dimension
                )
            flat = tf.reshape(fields, [-1, fields.shape[1] * fields.shape[2]])
            return dense_layer(flat, self.logits_dimension, "logits") + deep_logits
