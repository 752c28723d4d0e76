"""Weights of losses learned as the noise of each objective.

Kendall, Gal & Cipolla, Multi-Task Learning Using Uncertainty to Weigh Losses for Scene Geometry
and Semantics, CVPR 2018. With s_i = log sigma_i^2 a variable for each objective, which starts at
0,

    total = sum_i loss_weight_i (c_i exp(-s_i) loss_i + s_i / 2)

c_i is 1 for classes and counts (equation 10 there), 1/2 for numbers and directions (equation 7,
the likelihood of a normal distribution). s_i and not sigma_i, so that nothing is divided by 0. A
loss of 2 of a binary head with s = 0.5 and loss_weight 1 makes 2 exp(-0.5) + 0.25 = 1.4631.
`loss_weight` says how much the whole term counts; it does not move where s_i settles, at exp(s_i)
= 2 c_i loss_i. A batch in which an objective has no weight, whose loss is 0, leaves its s_i alone.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from estimator_kit.optimizers.combining.base import (
    Combination,
    Losses,
    refuse_negative_losses,
    scalar,
)
from feature_specs.heads.objectives import CosineDistance, Quantile, Regression
from feature_specs.spec import FeatureSpec

_NUMBERS = (CosineDistance, Quantile, Regression)


class Uncertainty(Combination):
    """`combined_losses/log_variance/<objective>` is trained with the model's own optimizer."""

    def check(self, spec: FeatureSpec) -> None:
        refuse_negative_losses("uncertainty", spec)

    def total(self, losses: Losses, spec: FeatureSpec) -> tf.Tensor:
        factors = self.factors(spec)
        return tf.add_n(
            [
                spec.objectives[name].loss_weight
                * (factors[name] * loss + _there(loss) * _log_variance(name).read_value() / 2)
                for name, loss in losses.items()
            ]
        )

    def factors(self, spec: FeatureSpec) -> dict[str, tf.Tensor]:
        """c_i exp(-s_i), without the `loss_weight`."""
        return {
            name: _share(entry) * tf.exp(-_log_variance(name).read_value())
            for name, entry in spec.objectives.items()
        }


def _there(loss: tf.Tensor) -> tf.Tensor:
    """0 for the loss of a batch without weight, which says nothing of the noise; otherwise 1."""
    return tf.cast(tf.not_equal(loss, 0.0), loss.dtype)


def _share(objective: Any) -> float:
    return 0.5 if isinstance(objective, _NUMBERS) else 1.0


def _log_variance(name: str) -> Any:
    return scalar("log_variance", name, 0.0, trainable=True)
