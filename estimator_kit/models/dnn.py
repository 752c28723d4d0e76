"""The built-in model `dnn`: one tower of dense layers shared by all objectives."""

from __future__ import annotations

from typing import Annotated

import pydantic
import tensorflow as tf

from estimator_kit.input_layer import check_dense_group
from estimator_kit.model_fn import Logits, ModelFn, ModelParams
from estimator_kit.models.layers import dnn_logits
from estimator_kit.tf_estimator import ModeKeys
from input_pipelines.transforms import Features

HiddenUnits = Annotated[
    tuple[Annotated[int, pydantic.Field(ge=1)], ...], pydantic.Field(min_length=1)
]
Dropout = Annotated[float, pydantic.Field(ge=0, lt=1)]


class DNNModel(ModelFn):
    """A DNN over one group, with the variables of `tf.estimator.DNNClassifier`."""

    class Params(ModelParams):
        """Attributes:
        group: the group of columns it reads.
        hidden_units: units of the hidden layers, from the input on.
        dropout: share of hidden units dropped in training.
        """

        group: str = "deep"
        hidden_units: HiddenUnits = (256, 128, 64)
        dropout: Dropout = 0.0

    def check_spec(self) -> None:
        check_dense_group(self.spec, self.params.group)

    def groups(self) -> tuple[str, ...]:
        return (self.params.group,)

    def logits(self, features: Features, mode: str) -> Logits:
        with tf.compat.v1.variable_scope("dnn"):
            return dnn_logits(
                self.dense_input(features, self.params.group),
                self.params.hidden_units,
                self.logits_dimension,
                dropout=self.params.dropout if mode == ModeKeys.TRAIN else 0.0,
            )
