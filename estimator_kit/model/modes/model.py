"""The parts of a `ModelFn` that its modes use. `ModelFn` describes them.

It is a protocol, because `ModelFn` imports the modes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Optional, Protocol

import tensorflow as tf

from estimator_kit.model.example_losses import ExampleLosses
from estimator_kit.model.objectives import Objective
from estimator_kit.optimizers.choice import OptimizerChoice
from estimator_kit.optimizers.combining import Combination
from estimator_kit.optimizers.sync_replicas import Synchronous
from feature_specs.spec import FeatureSpec
from input_pipelines.transform.transforms import Features

# A `tf.compat.v1.train.SessionRunHook`.
Hook = Any

Tensors = Mapping[str, tf.Tensor]


class Model(Protocol):
    """See `ModelFn` for each attribute and method."""

    spec: FeatureSpec
    params: Any
    objectives: dict[str, Objective]
    combination: Combination
    warm_start: Any
    together: Optional[Synchronous]
    last_step: Optional[int]

    def labels_and_weights(self, labels: Tensors) -> tuple[Tensors, Tensors]: ...

    def example_losses(
        self, labels: Tensors, predictions: Tensors, weights: Tensors, features: Features
    ) -> ExampleLosses: ...

    def loss(self, losses: Tensors) -> tf.Tensor: ...

    def metrics(
        self, labels: Tensors, predictions: Tensors, weights: Tensors, features: Features
    ) -> Mapping[str, Any]: ...

    def hooks(self, mode: str) -> Sequence[Hook]: ...

    def first_values(self) -> Mapping[str, Any]: ...

    def scaffold(self, mode: str) -> Optional[Any]: ...

    def shared_prefix(self) -> Optional[str]: ...

    def optimizers(self) -> Sequence[tuple[str, Any]]: ...

    def make_optimizer(self, optimizer: OptimizerChoice, learning_rate: float) -> Any: ...

    def train_op(self, loss: tf.Tensor) -> tf.Operation: ...
