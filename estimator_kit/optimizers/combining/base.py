"""The base class of combinations of losses, and the default: the sum weighted by `loss_weight`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Optional

import pydantic
import tensorflow as tf

from estimator_kit.errors import ConfigError
from feature_specs.heads.lifetime_value import ZeroInflatedLognormal
from feature_specs.heads.losses import ApproxNdcg
from feature_specs.heads.objectives import Binary, PoissonRegression, Ranking
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
        if isinstance(entry, PoissonRegression) and not entry.loss.poisson.full:
            raise ConfigError(
                f"combine: {name} needs losses that are never negative, but the loss of objective "
                f"{objective!r} may be. Set loss: {{poisson: {{full: true}}}}."
            )
        if isinstance(entry, ZeroInflatedLognormal) or (
            isinstance(entry, Binary) and entry.delayed
        ):
            raise ConfigError(
                f"combine: {name} needs losses that are never negative, but the loss of objective "
                f"{objective!r} may be. Use pcgrad or weights."
            )
        if isinstance(entry, Ranking) and isinstance(entry.loss, ApproxNdcg):
            raise ConfigError(
                f"combine: {name} needs losses that are never negative, but approx_ndcg of "
                f"objective {objective!r} always is. Use another loss."
            )


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
