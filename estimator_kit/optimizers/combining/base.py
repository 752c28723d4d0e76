"""What a combination of losses is, and the plain one: the sum by `loss_weight`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Optional

import pydantic
import tensorflow as tf

from estimator_kit.errors import ConfigError
from feature_specs.heads.losses import ApproxNdcg
from feature_specs.heads.objectives import PoissonRegression, Ranking
from feature_specs.spec import FeatureSpec

# Begins the names of the variables of combinations, which are no part of a model: a warm start
# takes them as it takes the slots of optimizers, and an export has none of them.
COMBINED = "combined_losses"

Losses = Mapping[str, tf.Tensor]

# (gradient of a loss for each variable, the variables, the global step) -> gradients to step with.
MakeGradients = Callable[[Callable[[tf.Tensor], list[Any]], Sequence[Any], Any], list[Any]]


class Combination(pydantic.BaseModel):
    """Makes one loss, or one gradient, of those of several objectives. Override what differs."""

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid")

    # Whether `gradients` gives any.
    makes_gradients: ClassVar[bool] = False

    def check(self, spec: FeatureSpec) -> None:
        """Raises ConfigError for objectives that cannot be combined like this."""

    def total(self, losses: Losses, spec: FeatureSpec) -> tf.Tensor:
        """The scalar loss of training, without regularization: by default the sum by loss_weight.

        Args:
          losses: by objective, scalars.
        """
        return tf.add_n([spec.objectives[name].loss_weight * losses[name] for name in losses])

    def factors(self, spec: FeatureSpec) -> dict[str, tf.Tensor]:
        """The learned factor of each objective's loss, as it is now; empty where none is learned.

        For summaries and for metrics of an evaluation.
        """
        return {}

    def gradients(
        self, losses: Losses, spec: FeatureSpec, regularization: Sequence[tf.Tensor]
    ) -> Optional[MakeGradients]:
        """What makes the gradients in the place of those of the total loss; None for those."""
        return None

    def after_step(
        self, losses: Losses, spec: FeatureSpec, variables: Sequence[Any], shared: Optional[str]
    ) -> Optional[Callable[[], tf.Operation]]:
        """What makes an op to run after each batch's step; None for nothing.

        Args:
          variables: those that are trained.
          shared: the model's `shared_prefix`.
        """
        return None


class Weights(Combination):
    """sum_i loss_weight_i loss_i. Losses 2 and 3 with weights 1 and 0.5 make 3.5."""


def refuse_negative_losses(name: str, spec: FeatureSpec) -> None:
    """Raises ConfigError for an objective whose loss is no measure of how far it has come."""
    for objective, entry in spec.objectives.items():
        if isinstance(entry, PoissonRegression) and not entry.loss.poisson.full:
            raise ConfigError(
                f"combine: {name} needs losses that are never below 0, and that of objective "
                f"{objective!r} can be; give it loss: {{poisson: {{full: true}}}}"
            )
        if isinstance(entry, Ranking) and isinstance(entry.loss, ApproxNdcg):
            raise ConfigError(
                f"combine: {name} needs losses that are never below 0, and approx_ndcg of "
                f"objective {objective!r} always is; choose another loss"
            )


def scalar(kind: str, objective: str, value: float, *, trainable: bool = False) -> Any:
    """The variable `combined_losses/<kind>/<objective>`, made once a graph."""
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


def summed_rows(gradients: Sequence[tf.IndexedSlices]) -> list[tf.Tensor]:
    """Sparse gradients of one variable on the rows of any of them: float32 [rows, ...] each.

    The parts of one row are added up; no table is made dense.
    """
    ids, place = tf.unique(tf.concat([g.indices for g in gradients], axis=0))
    places = tf.split(place, [tf.size(g.indices) for g in gradients])
    return [
        tf.math.unsorted_segment_sum(g.values, p, tf.size(ids)) for g, p in zip(gradients, places)
    ]
