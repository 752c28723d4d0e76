"""The built-in model `dcn`, a deep and cross network."""

from __future__ import annotations

from typing import Annotated, Literal, Optional

import pydantic
import tensorflow as tf

from estimator_kit.model.model_fn import Logits
from estimator_kit.model.model_params import Group, Searched
from estimator_kit.models.dnn import DenseGroupModel, DNNParams, PositiveInt, tower
from estimator_kit.models.layers import dense_layer
from input_pipelines.transform.transforms import Features


def cross_layer(
    x0: tf.Tensor, x: tf.Tensor, name: str, *, rank: Optional[int] = None, experts: int = 1
) -> tf.Tensor:
    """One cross layer: float32 [rows, width] from x0 and x of this shape.

    Args:
      x0: the input of the first layer.
      x: the input of this layer.
      name: the variable scope of the layer.
      rank: the rank of the matrix W. None makes a full matrix.
      experts: the number of low-rank matrices that are mixed. 1 makes no mixture.
    """
    v1, width = tf.compat.v1, x0.shape[1]
    with v1.variable_scope(name):
        if rank is None:
            return x0 * dense_layer(x, width, "full") + x
        bias = v1.get_variable("bias", [width], initializer=v1.zeros_initializer())
        glorot = v1.glorot_uniform_initializer()
        if experts == 1:
            v = v1.get_variable("v", [width, rank], initializer=glorot)
            u = v1.get_variable("u", [rank, width], initializer=glorot)
            return x0 * (x @ v @ u + bias) + x
        v = v1.get_variable("v", [experts, width, rank], initializer=glorot)
        c = v1.get_variable("c", [experts, rank, rank], initializer=glorot)
        u = v1.get_variable("u", [experts, rank, width], initializer=glorot)
        low = tf.tanh(tf.einsum("nw,ewr->ner", x, v))
        low = tf.tanh(tf.einsum("ner,ers->nes", low, c))
        crossed = x0[:, tf.newaxis] * (tf.einsum("ner,erw->new", low, u) + bias)
        gate = tf.nn.softmax(dense_layer(x, experts, "gate", use_bias=False))
        return tf.einsum("ne,new->nw", gate, crossed) + x


class DCNModel(DenseGroupModel):
    """Cross layers over one group, and a DNN after or parallel to them.

    Wang et al., DCN V2: Improved Deep & Cross Network, WWW 2021. x0 is the input, and * is
    elementwise:

        cross       x' = x0 * (W x + b) + x
        low rank    x' = x0 * (U V^T x + b) + x,                 with U and V [width, rank]
        mixture     x' = sum_e g_e(x) x0 * (U_e tanh(C_e tanh(V_e^T x)) + b) + x,   g = softmax(G x)

    l cross layers compute weighted products of up to l + 1 inputs. `stacked` puts the DNN after the
    cross layers. `parallel` gives the input to both.
    """

    class Params(DNNParams):
        """Attributes:
        group: the group that the model reads.
        crosses: the number of cross layers.
        rank: the rank of the matrices of the cross layers. None makes full matrices. In the paper,
          a quarter of the width is nearly as good.
        experts: the number of experts of each cross layer. More than 1 needs a rank.
        structure: `stacked` or `parallel`. Which is better depends on the data.
        """

        group: Group = "deep"
        crosses: Annotated[PositiveInt, Searched({"choice": [1, 2, 3]})] = 2
        rank: Optional[PositiveInt] = None
        experts: PositiveInt = 1
        structure: Literal["stacked", "parallel"] = "stacked"

        @pydantic.model_validator(mode="after")
        def _experts_have_a_rank(self) -> DCNModel.Params:
            if self.experts > 1 and self.rank is None:
                raise ValueError(
                    "more than one expert needs a rank. Set rank, or set experts to 1."
                )
            return self

    def logits(self, features: Features, mode: str) -> Logits:
        p = self.params
        with tf.compat.v1.variable_scope("dcn"):
            x0 = x = self.dense_input(features, p.group)
            for i in range(p.crosses):
                x = cross_layer(x0, x, f"cross_{i}", rank=p.rank, experts=p.experts)
            if p.structure == "stacked":
                top = tower(x, p, mode)
            else:
                top = tf.concat([x, tower(x0, p, mode)], axis=1)
            return dense_layer(top, self.logits_dimension, "logits")
