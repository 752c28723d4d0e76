"""The models `linear`, `dnn` and `wide_deep`, and what all models with hidden layers share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Optional

import pydantic
import tensorflow as tf

from estimator_kit.model.group_checks import check_dense_group, check_linear_group
from estimator_kit.model.model_fn import Logits, ModelFn
from estimator_kit.model.model_params import (
    TRAINING,
    TRAINING_AND_SCORES,
    Group,
    ModelParams,
    Searched,
)
from estimator_kit.models.initializers import Initializer
from estimator_kit.models.layers import Regularizer, dense_layer, hidden_layers
from estimator_kit.models.normalization import Activation
from estimator_kit.optimizers.choice import OptimizerChoice, make_optimizer
from estimator_kit.tf_estimator import ModeKeys
from input_pipelines.transform.transforms import Features


class DenseGroupModel(ModelFn):
    """A model over one dense group. Its `Params` need a field `group`."""

    def check_spec(self) -> None:
        check_dense_group(self.spec, self.params.group)

    def groups(self) -> tuple[str, ...]:
        return (self.params.group,)


PositiveInt = Annotated[int, pydantic.Field(ge=1)]
HiddenUnits = Annotated[tuple[PositiveInt, ...], pydantic.Field(min_length=1)]
Dropout = Annotated[float, pydantic.Field(ge=0, lt=1), TRAINING]


class DNNParams(ModelParams):
    """Attributes:
    optimizer: the optimizer. The default is `lazy_adam`: on public tables it makes better models
      than `adagrad`, in fewer epochs (benchmarks/first_models.md).
    hidden_units: the number of units of each hidden layer, starting at the input.
    dropout: the share of hidden units that training sets to zero.
    activation: the activation of the hidden layers.
    batch_norm: whether to apply batch normalization after each hidden layer.
    batch_norm_momentum: the momentum of the moving averages of batch normalization.
    layer_norm: whether to apply layer normalization after each hidden layer. It cannot be combined
      with `batch_norm`.
    residual: whether to add the input of each hidden layer to its output.
    initializer: the initializer of the kernels of the hidden layers. The default is
      `glorot_uniform`.
    regularizer: the L1 and L2 penalty on the kernels of the hidden layers. By default
      no penalty is added.
    """

    optimizer: OptimizerChoice = "lazy_adam"
    hidden_units: Annotated[
        HiddenUnits, Searched({"choice": [[32], [64, 32], [128, 64], [256, 128, 64]]})
    ] = (256, 128, 64)
    dropout: Annotated[Dropout, Searched({"range": [0, 0.6]})] = 0.0
    activation: Activation = "relu"
    batch_norm: bool = False
    batch_norm_momentum: Annotated[float, pydantic.Field(ge=0, lt=1), TRAINING] = 0.99
    layer_norm: bool = False
    residual: bool = False
    initializer: Annotated[Optional[Initializer], TRAINING] = None
    regularizer: Annotated[
        Optional[Regularizer],
        TRAINING_AND_SCORES,
        Searched({"choice": [None, {"l2": 1e-5}, {"l2": 1e-4}, {"l2": 1e-3}]}),
    ] = None

    @pydantic.model_validator(mode="after")
    def _one_normalization(self) -> DNNParams:
        if self.batch_norm and self.layer_norm:
            raise ValueError("batch_norm and layer_norm cannot be combined. Choose one.")
        return self


_LAYER_OPTIONS = (
    "dropout",
    "activation",
    "batch_norm",
    "batch_norm_momentum",
    "layer_norm",
    "residual",
    "initializer",
    "regularizer",
)


def tower(
    inputs: tf.Tensor, params: DNNParams, mode: str, units: Optional[tuple[int, ...]] = None
) -> tf.Tensor:
    """The hidden layers of the parameters, in the current scope: float32 [rows, units[-1]].

    Args:
      units: replaces `hidden_units` of the parameters.
    """
    options: dict[str, Any] = {name: getattr(params, name) for name in _LAYER_OPTIONS}
    return hidden_layers(
        inputs,
        params.hidden_units if units is None else units,
        training=mode == ModeKeys.TRAIN,
        **options,
    )


def tower_logits(
    inputs: tf.Tensor,
    params: DNNParams,
    mode: str,
    logits_dimension: int,
    units: Optional[tuple[int, ...]] = None,
) -> tf.Tensor:
    """`tower` followed by a linear layer `logits`: float32 [rows, logits_dimension]."""
    return dense_layer(tower(inputs, params, mode, units), logits_dimension, "logits")


class DNNModel(DenseGroupModel):
    """A DNN over one group, with the variables of `tf.estimator.DNNClassifier`."""

    class Params(DNNParams):
        """Attributes:
        group: the group that the model reads.
        """

        group: Group = "deep"

    def shared_prefix(self) -> str:
        return f"dnn/hiddenlayer_{len(self.params.hidden_units) - 1}/"

    def logits(self, features: Features, mode: str) -> Logits:
        with tf.compat.v1.variable_scope("dnn"):
            inputs = self.dense_input(features, self.params.group)
            return tower_logits(inputs, self.params, mode, self.logits_dimension)


class WideDeepModel(ModelFn):
    """A model with the variables and optimizers of `tf.estimator.DNNLinearCombinedClassifier`.

    Cheng et al., Wide & Deep Learning for Recommender Systems, DLRS 2016:

        logits = linear(wide) + DNN(deep)
    """

    class Params(DNNParams):
        """Attributes:
        wide_group: the group that the linear part reads.
        deep_group: the group that the DNN reads.
        optimizer: the optimizer of the DNN. The default is `adagrad`, as in the canned estimator.
        learning_rate: the learning rate of the DNN. By default it is the rate of its optimizer.
        linear_optimizer: the optimizer of the linear part. The default is `ftrl`, as in the canned
          estimator.
        linear_learning_rate: the learning rate of the linear part, above 0. By default it is the
          rate of its optimizer, 0.1 for `ftrl`.
        """

        optimizer_rates: ClassVar[Mapping[str, str]] = {
            "optimizer": "learning_rate",
            "linear_optimizer": "linear_learning_rate",
        }

        optimizer: OptimizerChoice = "adagrad"
        wide_group: Group = "wide"
        deep_group: Group = "deep"
        linear_optimizer: Annotated[OptimizerChoice, TRAINING] = "ftrl"
        linear_learning_rate: Annotated[Optional[float], TRAINING] = pydantic.Field(
            default=None, gt=0, allow_inf_nan=False
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


class LinearModel(ModelFn):
    """A linear model over one group, with the variables of `tf.estimator.LinearClassifier`.

    logit = w0 + sum_i w_i x_i
    """

    class Params(ModelParams):
        """Attributes:
        group: the group that the model reads.
        optimizer: the optimizer. The default is `ftrl`, as in the canned linear estimators.
        """

        group: Group = "wide"
        optimizer: OptimizerChoice = "ftrl"

    def check_spec(self) -> None:
        check_linear_group(self.spec, self.params.group)

    def groups(self) -> tuple[str, ...]:
        return (self.params.group,)

    def logits(self, features: Features, mode: str) -> Logits:
        with tf.compat.v1.variable_scope("linear"):
            return self.linear_logits(features, self.params.group)
