"""The built-in model `autoint`: self-attention over the fields of a record.

Song et al., AutoInt: Automatic Feature Interaction Learning via Self-Attentive Neural Networks,
CIKM 2019. In each layer, every field e_m attends to all fields, in several heads h:

    a^h_mk = softmax_k <Q^h e_m, K^h e_k>
    e'_m   = relu(concat_h sum_k a^h_mk V^h e_k + R e_m)

As in the paper, the softmax has no scale. The logits are linear in all fields of the last layer.
With a deep group (AutoInt+ in the paper), the model adds the logits of a DNN.
"""

from __future__ import annotations

import tensorflow as tf

from estimator_kit.model.model_fn import Logits
from estimator_kit.model.model_params import Group, OptionalGroup
from estimator_kit.models.dnn_params import DNNParams, PositiveInt, tower_logits
from estimator_kit.models.field_model import FieldModel
from estimator_kit.models.layers import dense_layer
from input_pipelines.transform.transforms import Features


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
        found = tf.reshape(tf.einsum("nhmk,nkhd->nmhd", weights, value), [-1, count, units])
        return tf.nn.relu(found + rest)


class AutoIntModel(FieldModel):
    """Attention layers over `fields`, and a DNN over the deep group if there is one."""

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
        attention_layers: PositiveInt = 3
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
