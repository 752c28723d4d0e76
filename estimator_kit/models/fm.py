"""The built-in model `fm`: a factorization machine.

Rendle, Factorization Machines, ICDM 2010:

    logit = w0 + sum_i w_i x_i + sum_{i<j} <v_i, v_j>

The first two terms are a linear model over one group, the last compares the embeddings v of every
two fields of another. It is computed in the number of fields, not of pairs, as
1/2 sum_d ((sum_i v_id)^2 - sum_i v_id^2).
"""

from __future__ import annotations

import tensorflow as tf

from estimator_kit.model.model_fn import Logits
from estimator_kit.model.model_params import ModelParams
from estimator_kit.models.field_model import FieldModel
from estimator_kit.models.layers import dense_layer
from input_pipelines.transform.transforms import Features


def pairwise_products(fields: tf.Tensor) -> tf.Tensor:
    """sum_{i<j} v_i * v_j: float32 [rows, dimension] from [rows, fields, dimension].

    Summed over the dimension it is the sum of all inner products. The fields (1, 2), (3, 4) and
    (5, 6) give (1*3 + 1*5 + 3*5, 2*4 + 2*6 + 4*6) = (23, 44).
    """
    square_of_sum = tf.square(tf.reduce_sum(fields, axis=1))
    return 0.5 * (square_of_sum - tf.reduce_sum(tf.square(fields), axis=1))


def pairwise_logits(fields: tf.Tensor, logits_dimension: int) -> tf.Tensor:
    """The pairwise term of each logit: float32 [rows, logits_dimension].

    One logit has the paper's sum over the dimension. Several would all get the same number, which
    does not tell classes apart, so each has weights of its own for the dimensions: `pairwise`.
    """
    products = pairwise_products(fields)
    if logits_dimension == 1:
        return tf.reduce_sum(products, axis=1, keepdims=True)
    return dense_layer(products, logits_dimension, "pairwise", use_bias=False)


class FMModel(FieldModel):
    """First order over `wide`, second order over the embeddings in `fields`."""

    class Params(ModelParams):
        """Attributes:
        wide_group: ids and numbers of the first-order part.
        fields_group: embeddings of one dimension, of the second-order part.
        """

        wide_group: str = "wide"
        fields_group: str = "fields"

    def logits(self, features: Features, mode: str) -> Logits:
        wide = self.wide_logits(features)
        with tf.compat.v1.variable_scope("fm"):
            fields, _ = self.inputs(features)
            return wide + pairwise_logits(fields, self.logits_dimension)
