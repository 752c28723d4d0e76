"""The built-in model `wide_deep`: the sum of a linear model and a DNN.

Cheng et al., Wide & Deep Learning for Recommender Systems, DLRS 2016:

    logits = linear(wide) + DNN(deep)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import pydantic
import tensorflow as tf

from estimator_kit.model.group_checks import check_dense_group, check_linear_group
from estimator_kit.model.model_fn import Logits, ModelFn
from estimator_kit.model.model_params import TRAINING, Group
from estimator_kit.models.dnn_params import DNNParams, tower_logits
from estimator_kit.optimizers.choice import OptimizerChoice, make_optimizer
from input_pipelines.transform.transforms import Features


class WideDeepModel(ModelFn):
    """A model with the variables and optimizers of `tf.estimator.DNNLinearCombinedClassifier`."""

    class Params(DNNParams):
        """Attributes:
        wide_group: the group that the linear part reads.
        deep_group: the group that the DNN reads.
        optimizer: the optimizer of the DNN.
        learning_rate: the learning rate of the DNN.
        linear_optimizer: the optimizer of the linear part. The default is `ftrl`, as in the canned
          estimator.
        linear_learning_rate: the learning rate of the linear part, above 0.
        """

        wide_group: Group = "wide"
        deep_group: Group = "deep"
        linear_optimizer: Annotated[OptimizerChoice, TRAINING] = "ftrl"
        linear_learning_rate: Annotated[float, TRAINING] = pydantic.Field(
            default=0.1, gt=0, allow_inf_nan=False
        )

    def check_spec(self) -> None:
        check_linear_group(self.spec, self.params.wide_group)
        check_dense_group(self.spec, self.params.deep_group)
        make_optimizer(self.params.linear_optimizer, self.params.linear_learning_rate)

    def groups(self) -> tuple[str, ...]:
        return (self.params.wide_group, self.params.deep_group)

    def logits(self, features: Features, mode: str) -> Logits:
        with tf.compat.v1.variable_scope("linear"):
            wide = self.linear_logits(features, self.params.wide_group)
        with tf.compat.v1.variable_scope("dnn"):
            inputs = self.dense_input(features, self.params.deep_group)
            deep = tower_logits(inputs, self.params, mode, self.logits_dimension)
        return wide + deep

    def optimizers(self) -> Sequence[tuple[str, Any]]:
        p = self.params
        return [
            ("linear/", self.make_optimizer(p.linear_optimizer, p.linear_learning_rate)),
            ("", self.make_optimizer(p.optimizer, p.learning_rate)),
        ]
