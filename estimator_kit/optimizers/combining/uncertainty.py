"""Uncertainty weighting: weights of losses, learned as the noise of each objective.

Kendall, Gal & Cipolla, Multi-Task Learning Using Uncertainty to Weigh Losses for Scene Geometry
and Semantics, CVPR 2018. s_i = log sigma_i^2 is a variable of each objective, which starts at 0:

    total = sum_i loss_weight_i (c_i exp(-s_i) loss_i + s_i / 2)

c_i is 1 for classes and counts (equation 10 of the paper), and 1/2 for numbers and directions
(equation 7, the likelihood of a normal distribution). The variable is s_i instead of sigma_i to
avoid a division by 0. For a binary head with the loss 2, s = 0.5 and loss_weight 1, the term is
2 exp(-0.5) + 0.25 = 1.4631. `loss_weight` scales the whole term. It does not change the value at
which s_i settles, exp(s_i) = 2 c_i loss_i. A batch in which all weights of an objective are 0, so
that its loss is 0, does not change s_i.
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
    """The optimizer of the model trains `combined_losses/log_variance/<objective>`."""

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
        """c_i exp(-s_i), without `loss_weight`."""
        return {
            name: _share(entry) * tf.exp(-_log_variance(name).read_value())
            for name, entry in spec.objectives.items()
        }


def _there(loss: tf.Tensor) -> tf.Tensor:
    """0 if the loss is 0 because the batch has no weight, otherwise 1."""
    return tf.cast(tf.not_equal(loss, 0.0), loss.dtype)


def _share(objective: Any) -> float:
    return 0.5 if isinstance(objective, _NUMBERS) else 1.0


def _log_variance(name: str) -> Any:
    return scalar("log_variance", name, 0.0, trainable=True)
