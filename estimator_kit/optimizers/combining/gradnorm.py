"""Weights of losses that keep the objectives learning at one pace.

Chen et al., GradNorm: Gradient Normalization for Adaptive Loss Balancing in Deep Multitask
Networks, ICML 2018. With w_i the weights, W the last variables that all objectives share and
L_i(0) the first losses,

    total = sum_i w_i L_i
    G_i = w_i |dL_i/dW|,    r_i = (L_i / L_i(0)) / mean_j(L_j / L_j(0))
    w_i <- w_i - learning_rate * sign(G_i - mean_j(G_j) r_i^alpha) |dL_i/dW|

(the gradient of sum_i |G_i - mean(G) r_i^alpha|, whose targets are taken as constants), and then
all w_i are scaled to add up to the number of objectives. An objective that is behind (r above 1)
gets a larger weight; a larger `alpha` pulls harder. Two objectives with w = 1, |dL/dW| 3 and 1,
and losses that are both still the first ones: G = 3 and 1, the target is 2 for both, so with a
learning rate of 0.1 the weights become 1 - 0.3 and 1 + 0.1, and, scaled to add up to 2, 0.7778 and
1.2222.

Weights start at the `loss_weight`s, scaled likewise. They and the first losses are in the
checkpoint. Each batch moves them, with `accumulate`, too; one in which an objective has no loss or
no gradient, as when all its rows are masked, does not. No weight falls below 0.001 before it is
scaled.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Optional

import tensorflow as tf
from pydantic import Field

from estimator_kit.config.patterns import Prefix
from estimator_kit.errors import ConfigError
from estimator_kit.optimizers.combining.base import (
    Combination,
    Losses,
    refuse_negative_losses,
    scalar,
    summed_rows,
)
from feature_specs.spec import FeatureSpec

_LEAST = 1e-3


class GradNorm(Combination):
    """Attributes:
    alpha: strength of the pull towards one pace; 0 makes gradients equal. 1.5 is the paper's for
      objectives of different kinds.
    learning_rate: of the weights.
    shared: prefix of the variables W; None for those that the model names.
    """

    alpha: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 1.5
    learning_rate: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 0.025
    shared: Optional[Prefix] = None

    def check(self, spec: FeatureSpec) -> None:
        refuse_negative_losses("gradnorm", spec)
        for name, entry in spec.objectives.items():
            if entry.loss_weight == 0:
                raise ConfigError(
                    f"combine: gradnorm: objective {name!r} has loss_weight: 0, at which no weight "
                    "can start; give it more, or leave the objective out"
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
                        f"{variable.op.name}; name variables that all objectives share, as in "
                        "{gradnorm: {shared: dnn/hiddenlayer_0}}"
                    )
            norms.append(_norm(gradients))
        weights = _weights(spec)
        firsts = [scalar("first_loss", name, 0.0) for name in names]
        values = tf.stack([losses[name] for name in names])
        known = tf.stack([first.read_value() for first in firsts])
        known = tf.where(known > 0, known, values)
        before = tf.stack([weights[name].read_value() for name in names])
        after = self.stepped(before, tf.stack(norms), values, known)

        def update() -> tf.Operation:
            assigns = []
            for i, name in enumerate(names):
                assigns.append(weights[name].assign(after[i], read_value=False))
                assigns.append(firsts[i].assign(known[i], read_value=False))
            return tf.group(*assigns)

        return update

    def stepped(
        self, weights: tf.Tensor, norms: tf.Tensor, losses: tf.Tensor, firsts: tf.Tensor
    ) -> tf.Tensor:
        """The weights after a step, float32 [objectives] as all arguments are.

        Args:
          norms: |dL_i/dW|.
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
                "combine: gradnorm: the model does not say which variables its objectives share; "
                "name the last ones, as in {gradnorm: {shared: dnn/hiddenlayer_1}}"
            )
        chosen = [v for v in variables if re.match(prefix, v.op.name)]
        if not chosen:
            raise ConfigError(
                f"combine: gradnorm: shared: {prefix!r} fits no variable that is trained; there "
                f"are {', '.join(v.op.name for v in variables)}"
            )
        return chosen


def _weights(spec: FeatureSpec) -> dict[str, Any]:
    entries = spec.objectives
    scale = len(entries) / sum(entry.loss_weight for entry in entries.values())
    return {name: scalar("weight", name, scale * e.loss_weight) for name, e in entries.items()}


def _norm(gradients: Sequence[Any]) -> tf.Tensor:
    """The norm of all together; the parts of one row of a table are added up before."""
    dense = [summed_rows([g])[0] if isinstance(g, tf.IndexedSlices) else g for g in gradients]
    return tf.sqrt(tf.add_n([tf.reduce_sum(tf.square(g)) for g in dense]))
