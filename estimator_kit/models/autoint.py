"""The built-in model `autoint`: self-attention over the fields of a record.

Song et al., AutoInt: Automatic Feature Interaction Learning via Self-Attentive Neural Networks,
CIKM 2019. In each layer every field e_m gathers from all fields, in several heads h:

    a^h_mk = softmax_k <Q^h e_m, K^h e_k>
    e'_m   = relu(concat_h sum_k a^h_mk V^h e_k + R e_m)

without a scale in the softmax, as in the paper. The logits are linear in all fields of the last
layer; with a deep group (the paper's AutoInt+) those of a DNN are added.
"""

from __future__ import annotations

from typing import Optional

import tensorflow as tf

from estimator_kit.model.model_fn import Logits
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
    """Attention layers over `fields`, and a DNN over a deep group where one is named."""

    class Params(DNNParams):
        """Attributes:
        fields_group: embeddings of one dimension.
        deep_group: what a DNN beside the attention reads; None for no DNN. A column that is in
          `fields` too has one table.
        attention_layers, heads, attention_dimension: of the attention; the paper's numbers.
        """

        fields_group: str = "fields"
        deep_group: Optional[str] = None
        attention_layers: PositiveInt = 3
        heads: PositiveInt = 2
        attention_dimension: PositiveInt = 32

    def logits(self, features: Features, mode: str) -> Logits:
        p = self.params
        with tf.compat.v1.variable_scope("dnn"):
            fields, deep = self.inputs(features)
            beside = 0.0
            if deep is not None:
                beside = tower_logits(deep, p, mode, self.logits_dimension)
        with tf.compat.v1.variable_scope("autoint"):
            for i in range(p.attention_layers):
                fields = attention_layer(
                    fields, f"attention_{i}", heads=p.heads, dimension=p.attention_dimension
                )
            flat = tf.reshape(fields, [-1, fields.shape[1] * fields.shape[2]])
            return dense_layer(flat, self.logits_dimension, "logits") + beside
