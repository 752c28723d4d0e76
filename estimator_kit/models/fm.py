"""Models that multiply embeddings of fields: `fm` and `deepfm`."""

from __future__ import annotations

from typing import Optional

import tensorflow as tf

from estimator_kit.model import group_checks, input_layer
from estimator_kit.model.model_fn import Logits, ModelFn
from estimator_kit.model.model_params import Group, ModelParams
from estimator_kit.models.dnn import DNNParams, tower_logits
from estimator_kit.models.layers import dense_layer
from estimator_kit.optimizers.choice import OptimizerChoice
from input_pipelines.transform.transforms import Features


class FieldModel(ModelFn):
    """Reads the groups that its parameters `fields_group`, `deep_group`, `wide_group` name.

    A field group lists one embedding per field of the record. For a number, use an embedding of a
    bucketized column. Such a model reads up to three groups. A column that is in two groups has one
    table: as in the papers, the deep part reads the embeddings of the fields.
    """

    def _group(self, part: str) -> Optional[str]:
        return getattr(self.params, f"{part}_group", None)

    def groups(self) -> tuple[str, ...]:
        named = (self._group(part) for part in ("wide", "fields", "deep"))
        return tuple(dict.fromkeys(group for group in named if group is not None))

    def check_spec(self) -> None:
        for part, check in (
            ("wide", group_checks.check_linear_group),
            ("fields", group_checks.check_field_group),
            ("deep", group_checks.check_dense_group),
        ):
            group = self._group(part)
            if group is not None:
                check(self.spec, group)
        group_checks.check_same_scope(self.spec, self._read_together(), "deep_group")

    def _read_together(self) -> list[str]:
        groups = (self._group("fields"), self._group("deep"))
        return [group for group in groups if group is not None]

    def inputs(self, features: Features) -> tuple[tf.Tensor, Optional[tf.Tensor]]:
        """(fields [rows, fields, dimension], deep input [rows, width] or None), both float32.

        Makes the embedding tables in the current scope.
        """
        fields, deep = self._group("fields"), self._group("deep")
        names = [
            name
            for group in self._read_together()
            for name in group_checks.columns_of(self.spec, group)
        ]
        dense = input_layer.dense_columns(self.spec, names, features)
        assert fields is not None
        return (
            input_layer.fields_of(self.spec, fields, dense),
            None if deep is None else input_layer.side_by_side(self.spec, deep, dense),
        )

    def wide_logits(self, features: Features) -> tf.Tensor:
        """The first-order part: float32 [rows, self.logits_dimension]."""
        with tf.compat.v1.variable_scope("linear"):
            group = self._group("wide")
            assert group is not None
            return self.linear_logits(features, group)


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
    """A linear model over `wide` plus the pairwise products of the embeddings in `fields`.

    Rendle, Factorization Machines, ICDM 2010:

        logit = w0 + sum_i w_i x_i + sum_{i<j} <v_i, v_j>

    The first two terms are a linear model over one group. The last term compares the embeddings v
    of each pair of fields of another group. Its cost grows with the number of fields instead of
    pairs, because it is computed as 1/2 sum_d ((sum_i v_id)^2 - sum_i v_id^2).
    """

    class Params(ModelParams):
        """Attributes:
        wide_group: the group of ids and numbers for the first-order part.
        fields_group: the group of embeddings with equal dimensions for the second-order part.
        optimizer: the optimizer. The default is `lazy_adam`, as in `deepfm`.
        """

        wide_group: Group = "wide"
        fields_group: Group = "fields"
        optimizer: OptimizerChoice = "lazy_adam"

    def logits(self, features: Features, mode: str) -> Logits:
        wide = self.wide_logits(features)
        with tf.compat.v1.variable_scope("fm"):
            fields, _ = self.inputs(features)
            return wide + pairwise_logits(fields, self.logits_dimension)


class DeepFMModel(FieldModel):
    """A factorization machine plus a DNN. In the paper, both read the same columns.

    Guo et al., DeepFM: A Factorization-Machine based Neural Network for CTR Prediction, IJCAI 2017:

        logits = linear(wide) + pairs(fields) + DNN(deep)
    """

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
