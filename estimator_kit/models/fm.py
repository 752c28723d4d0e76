"""The built-in model `fm`: a factorization machine.

Rendle, Factorization Machines, ICDM 2010:

    logit = w0 + sum_i w_i x_i + sum_{i<j} <v_i, v_j>

The first two terms are a linear model over one group. The last term compares the embeddings v of
each pair of fields of another group. Its cost grows with the number of fields instead of pairs,
because it is computed as 1/2 sum_d ((sum_i v_id)^2 - sum_i v_id^2).
"""

from __future__ import annotations

import tensorflow as tf

from estimator_kit.model.model_fn import Logits
from estimator_kit.model.model_params import Group, ModelParams
from estimator_kit.models.field_model import FieldModel
from estimator_kit.models.layers import dense_layer
from input_pipelines.transform.transforms import Features


def pairwise_products(fields: tf.Tensor) -> tf.Tensor:
    """sum_{i<j} v_i * v_j: float32 [rows, dimension] from [rows, fields, dimension].

    Its sum over the dimension is the sum of all inner products. The fields (1, 2), (3, 4) and (5,
    6) give (1*3 + 1*5 + 3*5, 2*4 + 2*6 + 4*6) = (23, 44).
    """
    square_of_sum = tf.square(tf.reduce_sum(fields, axis=1))
    return 0.5 * (square_of_sum - tf.reduce_sum(tf.square(fields), axis=1))


def pairwise_logits(fields: tf.Tensor, logits_dimension: int) -> tf.Tensor:
    """The pairwise term of each logit: float32 [rows, logits_dimension].

    For one logit it is the sum over the dimension, as in the paper. Several logits would all get
    the same number, which cannot tell classes apart. Each of them therefore has its own weights for
    the dimensions, the kernel `pairwise`.
    """
    products = pairwise_products(fields)
    if logits_dimension == 1:
        return tf.reduce_sum(products, axis=1, keepdims=True)
    return dense_layer(products, logits_dimension, "pairwise", use_bias=False)


class FMModel(FieldModel):
    """A linear model over `wide` plus the pairwise products of the embeddings in `fields`."""

    class Params(ModelParams):
        """Attributes:
        wide_group: the group of ids and numbers for the first-order part.
        fields_group: the group of embeddings with equal dimensions for the second-order part.
        """

        wide_group: Group = "wide"
        fields_group: Group = "fields"

    def logits(self, features: Features, mode: str) -> Logits:
        wide = self.wide_logits(features)
        with tf.compat.v1.variable_scope("fm"):
            fields, _ = self.inputs(features)
            return wide + pairwise_logits(fields, self.logits_dimension)
