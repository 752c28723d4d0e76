"""The built-in model `linear`: one weight per id or number and objective.

logit = w0 + sum_i w_i x_i
"""

from __future__ import annotations

import tensorflow as tf

from estimator_kit.model.group_checks import check_linear_group
from estimator_kit.model.model_fn import Logits, ModelFn
from estimator_kit.model.model_params import Group, ModelParams
from estimator_kit.optimizers.choice import OptimizerChoice
from input_pipelines.transform.transforms import Features


class LinearModel(ModelFn):
    """A linear model over one group, with the variables of `tf.estimator.LinearClassifier`."""

    class Params(ModelParams):
        """Attributes:
        group: the group that the model reads.
        optimizer: the optimizer. The default is `ftrl`, as in the canned linear estimators.
        learning_rate: the learning rate, above 0.
        """

        group: Group = "wide"
        optimizer: OptimizerChoice = "ftrl"
        learning_rate: float = 0.1

    def check_spec(self) -> None:
        check_linear_group(self.spec, self.params.group)

    def groups(self) -> tuple[str, ...]:
        return (self.params.group,)

    def logits(self, features: Features, mode: str) -> Logits:
        with tf.compat.v1.variable_scope("linear"):
            return self.linear_logits(features, self.params.group)
