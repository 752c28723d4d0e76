"""The parameters that all models with dense layers share, and the layers that they make."""

from __future__ import annotations

from typing import Annotated, Any, Optional

import pydantic
import tensorflow as tf

from estimator_kit.compat.tf_estimator import ModeKeys
from estimator_kit.model.model_params import ModelParams
from estimator_kit.models.activations import Activation
from estimator_kit.models.initializers import Initializer
from estimator_kit.models.layers import dense_layer, hidden_layers
from estimator_kit.models.regularizers import Regularizer

PositiveInt = Annotated[int, pydantic.Field(ge=1)]
HiddenUnits = Annotated[tuple[PositiveInt, ...], pydantic.Field(min_length=1)]
Dropout = Annotated[float, pydantic.Field(ge=0, lt=1)]


class DNNParams(ModelParams):
    """Attributes:
    hidden_units: units of the hidden layers, from the input on.
    dropout: share of hidden units dropped in training.
    activation: of the hidden layers; see `activations`.
    batch_norm: whether hidden layers end in batch normalization.
    batch_norm_momentum: of its moving averages; see `normalization`.
    layer_norm: whether they end in layer normalization; not both.
    residual: whether a hidden layer is added to its input.
    initializer: of the hidden layers' kernels, Glorot-uniform when it is None; see
      `initializers`.
    regularizer: penalty on the hidden layers' kernels; see `regularizers`.
    """

    hidden_units: HiddenUnits = (256, 128, 64)
    dropout: Dropout = 0.0
    activation: Activation = "relu"
    batch_norm: bool = False
    batch_norm_momentum: Annotated[float, pydantic.Field(ge=0, lt=1)] = 0.99
    layer_norm: bool = False
    residual: bool = False
    initializer: Optional[Initializer] = None
    regularizer: Optional[Regularizer] = None

    @pydantic.model_validator(mode="after")
    def _one_normalization(self) -> DNNParams:
        if self.batch_norm and self.layer_norm:
            raise ValueError("batch_norm and layer_norm exclude each other; choose one")
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
    """Hidden layers as the parameters say, in the current scope: float32 [rows, units[-1]].

    Args:
      units: in the place of the parameters' `hidden_units`.
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
    """`tower` and a linear layer `logits`: float32 [rows, logits_dimension]."""
    return dense_layer(tower(inputs, params, mode, units), logits_dimension, "logits")
