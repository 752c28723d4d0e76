"""GradNorm: weights of losses that let all objectives learn equally fast.

Chen et al., GradNorm: Gradient Normalization for Adaptive Loss Balancing in Deep Multitask
Networks, ICML 2018. w_i are the weights, W are the last variables that all objectives share, and
L_i(0) are the first losses:

    total = sum_i w_i L_i
    G_i = w_i |dL_i/dW|,    r_i = (L_i / L_i(0)) / mean_j(L_j / L_j(0))
    w_i <- w_i - learning_rate * sign(G_i - mean_j(G_j) r_i^alpha) |dL_i/dW|

This is the gradient of sum_i |G_i - mean(G) r_i^alpha| with constant targets. Then all w_i are
scaled so that their sum is the number of objectives. An objective that learns more slowly (r above
1) gets a larger weight. A larger `alpha` has a stronger effect. Example: two objectives have w = 1,
|dL/dW| = 3 and 1, and still their first losses. Then G = 3 and 1, and the target is 2 for both.
With a learning rate of 0.1, the weights become 1 - 0.3 and 1 + 0.1, and after the scaling 0.7778
and 1.2222.

The weights start at the `loss_weight`s, scaled in the same way. The checkpoint contains the weights
and the first losses. Each batch updates the weights, also with `accumulate`. A batch in which an
objective has no loss or no gradient, for instance because all its rows are masked, does not. A
weight is never less than 0.001 before the scaling.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Optional

import tensorflow as tf
from pydantic import Field

from estimator_kit.config.areas.base import Prefix
from estimator_kit.errors import ConfigError
from estimator_kit.optimizers.combining.base import (
    Combination,
    Losses,
    refuse_negative_losses,
    scalar,
)
from estimator_kit.optimizers.sparse import summed
from feature_specs.spec import FeatureSpec

_LEAST = 1e-3


class GradNorm(Combination):
    """Attributes:
    alpha: how strongly to equalize the learning of the objectives, 0 or more. 0 makes the gradient
      norms equal. The paper uses 1.5 for objectives of different kinds.
    learning_rate: the learning rate of the weights.
    shared: the prefix of the variables W. The default is the variables that the model names.
    """

    alpha: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 1.5
    learning_rate: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 0.025
    shared: Optional[Prefix] = None

    def check(self, spec: FeatureSpec) -> None:
        refuse_negative_losses("gradnorm", spec)
        for name, entry in spec.objectives.items():
            if entry.loss_weight == 0:
                raise ConfigError(
                    f"combine: gradnorm: objective {name!r} has loss_weight: 0, but its weight "
                    "must start above 0. Raise loss_weight, or remove the objective."
                )

    def total(self, losses: Losses, spec: FeatureSpec) -> tf.Tensor:
        factors = self.factors(spec)
        return tf.add_n([factors[name] * losses[name] for name in losses])

    def factors(self, spec: FeatureSpec) -> dict[str, tf.Tensor]:
        return {name: w.read_value() for name, w in _weights(spec).items()}

    def after_step(
        self, losses: Losses, spec: FeatureSpec, variables: Sequence[Any], shared: Optional[str]
    ) -> Callable[[], tf.Operation]:
        chosen = self._shared_variables(variables, shared)
        names = list(losses)
        norms = []
        for name in names:
            gradients = tf.gradients(losses[name], chosen)
            for variable, gradient in zip(chosen, gradients):
                if gradient is None:
                    raise ConfigError(
                        f"combine: gradnorm: objective {name!r} does not depend on "
                        f"{variable.op.name}. Name variables that all objectives share, as in "
                        "{gradnorm: {shared: dnn/hiddenlayer_0}}."
                    )
            norms.append(_norm(gradients))
        weights = _weights(spec)
        firsts = [scalar("first_loss", name, 0.0) for name in names]
        values = tf.stack([losses[name] for name in names])
        first_losses = tf.stack([first.read_value() for first in firsts])
        first_losses = tf.where(first_losses > 0, first_losses, values)
        before = tf.stack([weights[name].read_value() for name in names])
        after = self.stepped(before, tf.stack(norms), values, first_losses)

        def update() -> tf.Operation:
            assigns = []
            for i, name in enumerate(names):
                assigns.append(weights[name].assign(after[i], read_value=False))
                assigns.append(firsts[i].assign(first_losses[i], read_value=False))
            return tf.group(*assigns)

        return update

    def stepped(
        self, weights: tf.Tensor, norms: tf.Tensor, losses: tf.Tensor, firsts: tf.Tensor
    ) -> tf.Tensor:
        """The weights after a step. The result and all arguments are float32 [objectives].

        Args:
          weights: the weights before the step.
          norms: |dL_i/dW|.
          losses: the losses of the batch.
          firsts: the first losses.
        """
        pace = tf.math.divide_no_nan(losses, firsts)
        pace = tf.math.divide_no_nan(pace, tf.reduce_mean(pace))
        balanced = weights * norms
        target = tf.reduce_mean(balanced) * pace**self.alpha
        moved = weights - self.learning_rate * tf.sign(balanced - target) * norms
        moved = tf.maximum(moved, _LEAST)
        moved *= tf.cast(tf.size(moved), moved.dtype) / tf.reduce_sum(moved)
        seen = tf.reduce_all((losses > 0) & (norms > 0))
        return tf.where(seen, moved, weights)

    def _shared_variables(self, variables: Sequence[Any], shared: Optional[str]) -> list[Any]:
        prefix = self.shared if self.shared is not None else shared
        if prefix is None:
            raise ConfigError(
                "combine: gradnorm: the model does not say which variables its objectives share. "
                "Name the last ones, as in {gradnorm: {shared: dnn/hiddenlayer_1}}."
            )
        chosen = [v for v in variables if re.match(prefix, v.op.name)]
        if not chosen:
            raise ConfigError(
                f"combine: gradnorm: shared: {prefix!r} fits no variable that is trained. Use one "
                f"of: {', '.join(v.op.name for v in variables)}."
            )
        return chosen


def _weights(spec: FeatureSpec) -> dict[str, Any]:
    entries = spec.objectives
    scale = len(entries) / sum(entry.loss_weight for entry in entries.values())
    return {name: scalar("weight", name, scale * e.loss_weight) for name, e in entries.items()}


def _norm(gradients: Sequence[Any]) -> tf.Tensor:
    """The norm of all gradients together. Values of equal rows are added up first."""
    return tf.linalg.global_norm([summed(g) for g in gradients])
