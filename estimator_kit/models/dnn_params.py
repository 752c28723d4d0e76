"""The parameters that all models with hidden layers share, and the layers made from them."""

from __future__ import annotations

from typing import Annotated, Any, Optional

import pydantic
import tensorflow as tf

from estimator_kit.compat.tf_estimator import ModeKeys
from estimator_kit.model.model_params import TRAINING, TRAINING_AND_SCORES, ModelParams
from estimator_kit.models.activations import Activation
from estimator_kit.models.initializers import Initializer
from estimator_kit.models.layers import dense_layer, hidden_layers
from estimator_kit.models.regularizers import Regularizer

PositiveInt = Annotated[int, pydantic.Field(ge=1)]
HiddenUnits = Annotated[tuple[PositiveInt, ...], pydantic.Field(min_length=1)]
Dropout = Annotated[float, pydantic.Field(ge=0, lt=1), TRAINING]


class DNNParams(ModelParams):
    """Attributes:
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

    hidden_units: HiddenUnits = (256, 128, 64)
    dropout: Dropout = 0.0
    activation: Activation = "relu"
    batch_norm: bool = False
    batch_norm_momentum: Annotated[float, pydantic.Field(ge=0, lt=1), TRAINING] = 0.99
    layer_norm: bool = False
    residual: bool = False
    initializer: Annotated[Optional[Initializer], TRAINING] = None
    regularizer: Annotated[Optional[Regularizer], TRAINING_AND_SCORES] = None

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
