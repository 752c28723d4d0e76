"""Combinations of losses: the base class, the sum weighted by `loss_weight`, and by uncertainty.

`uncertainty` learns the weights as the noise of each objective. Kendall, Gal & Cipolla, Multi-Task
Learning Using Uncertainty to Weigh Losses for Scene Geometry and Semantics, CVPR 2018. s_i = log
sigma_i^2 is a variable of each objective, which starts at 0:

    total = sum_i loss_weight_i (c_i exp(-s_i) loss_i + s_i / 2)

c_i is 1 for classes and counts (equation 10 of the paper), and 1/2 for numbers and directions
(equation 7, the likelihood of a normal distribution). The variable is s_i instead of sigma_i to
avoid a division by 0. For a binary head with the loss 2, s = 0.5 and loss_weight 1, the term is
2 exp(-0.5) + 0.25 = 1.4631. `loss_weight` scales the whole term. It does not change the value at
which s_i settles, exp(s_i) = 2 c_i loss_i. A batch in which all weights of an objective are 0, so
that its loss is 0, does not change s_i.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Optional

import pydantic
import tensorflow as tf

from estimator_kit.errors import ConfigError
from feature_specs.spec import FeatureSpec

# The prefix of the variables of combinations, which are not part of a model: a warm start treats
# them like slots of optimizers, and an export does not contain them.
COMBINED = "combined_losses"

Losses = Mapping[str, tf.Tensor]

# (function from a loss to its gradients, variables, global step) -> the gradients of the step.
MakeGradients = Callable[[Callable[[tf.Tensor], list[Any]], Sequence[Any], Any], list[Any]]


class Combination(pydantic.BaseModel):
    """Combines the losses or gradients of several objectives. Override what differs."""

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid")

    # Whether `gradients` returns a function.
    makes_gradients: ClassVar[bool] = False

    def check(self, spec: FeatureSpec) -> None:
        """Raises ConfigError for objectives that this combination does not support."""

    def total(self, losses: Losses, spec: FeatureSpec) -> tf.Tensor:
        """The scalar training loss without regularization. By default the sum by loss_weight.

        Args:
          losses: the scalar loss of each objective.
          spec: the feature spec.
        """
        return tf.add_n([spec.objectives[name].loss_weight * losses[name] for name in losses])

    def factors(self, spec: FeatureSpec) -> dict[str, tf.Tensor]:
        """The current learned factor of each objective's loss. Empty if no factor is learned.

        They are for summaries and for the metrics of an evaluation.
        """
        return {}

    def gradients(
        self, losses: Losses, spec: FeatureSpec, regularization: Sequence[tf.Tensor]
    ) -> Optional[MakeGradients]:
        """A function that makes the gradients. None uses the gradients of the total loss."""
        return None

    def after_step(
        self, losses: Losses, spec: FeatureSpec, variables: Sequence[Any], shared: Optional[str]
    ) -> Optional[Callable[[], tf.Operation]]:
        """A function that makes an op to run after the step of each batch, or None.

        Args:
          losses: the scalar loss of each objective.
          spec: the feature spec.
          variables: the variables that are trained.
          shared: the `shared_prefix` of the model.
        """
        return None


class Weights(Combination):
    """sum_i loss_weight_i loss_i. Losses 2 and 3 with weights 1 and 0.5 make 3.5."""


def refuse_negative_losses(name: str, spec: FeatureSpec) -> None:
    """Raises ConfigError for an objective whose loss may be negative."""
    for objective, entry in spec.objectives.items():
        clause = entry.negative_loss(objective)
        if clause is not None:
            raise ConfigError(f"combine: {name} needs losses that are never negative, but {clause}")


def scalar(kind: str, objective: str, value: float, *, trainable: bool = False) -> Any:
    """The variable `combined_losses/<kind>/<objective>`. It is made once per graph."""
    v1 = tf.compat.v1
    with v1.variable_scope(f"{COMBINED}/{kind}", reuse=v1.AUTO_REUSE):
        return v1.get_variable(
            objective,
            [],
            tf.float32,
            v1.constant_initializer(value),
            trainable=trainable,
            use_resource=True,
        )


class Uncertainty(Combination):
    """The optimizer of the model trains `combined_losses/log_variance/<objective>`."""

    def check(self, spec: FeatureSpec) -> None:
        refuse_negative_losses("uncertainty", spec)

    def total(self, losses: Losses, spec: FeatureSpec) -> tf.Tensor:
        factors = self.factors(spec)
        return tf.add_n(
            [
                spec.objectives[name].loss_weight
                * (factors[name] * loss + _has_weight(loss) * _log_variance(name).read_value() / 2)
                for name, loss in losses.items()
            ]
        )

    def factors(self, spec: FeatureSpec) -> dict[str, tf.Tensor]:
        """c_i exp(-s_i), without `loss_weight`."""
        return {
            name: _share(entry) * tf.exp(-_log_variance(name).read_value())
            for name, entry in spec.objectives.items()
        }


def _has_weight(loss: tf.Tensor) -> tf.Tensor:
    """0 if the loss is 0 because the batch has no weight, otherwise 1."""
    return tf.cast(tf.not_equal(loss, 0.0), loss.dtype)


def _share(objective: Any) -> float:
    return 0.5 if objective.normal_errors else 1.0


def _log_variance(name: str) -> Any:
    return scalar("log_variance", name, 0.0, trainable=True)
