"""How training makes one step of several objectives, by name.

    combine: weights                          the sum by loss_weight
    combine: uncertainty                      weights that are learned with the model
    combine: {gradnorm: {alpha: 1.5}}         weights that keep all objectives learning at one pace
    combine: {pcgrad: {seed: 7}}              gradients without what speaks against another's

Evaluation's `loss` is the sum by `loss_weight` whatever is chosen here: learned weights move from
step to step, and a loss made with them could fall while every objective gets worse.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Union

from estimator_kit.config.named_choice import parse_choice
from estimator_kit.errors import ConfigError
from estimator_kit.optimizers.combining.base import COMBINED, Combination, Weights
from estimator_kit.optimizers.combining.gradnorm import GradNorm
from estimator_kit.optimizers.combining.pcgrad import PCGrad
from estimator_kit.optimizers.combining.uncertainty import Uncertainty
from feature_specs.spec import FeatureSpec

COMBINATIONS: dict[str, type[Combination]] = {
    "gradnorm": GradNorm,
    "pcgrad": PCGrad,
    "uncertainty": Uncertainty,
    "weights": Weights,
}


def parse_combination(choice: Union[str, Mapping[str, Any]]) -> Combination:
    """The combination for `name` or `{name: {field: value}}`.

    Raises:
      ConfigError: there is no such combination, or a field is wrong.
    """
    return parse_choice("combine", choice, COMBINATIONS)


def check_combination(
    combination: Combination, choice: Any, spec: FeatureSpec, model: str, own: Collection[str]
) -> None:
    """Refuses what cannot be combined, before a graph is built.

    Args:
      choice: as the parameter has it, for messages.
      model: its name, for messages.
      own: which of `loss` and `train_op` the model overrides.

    Raises:
      ConfigError: there is one objective alone, the combination would go past what the model
        overrides, or it cannot take an objective.
    """
    if isinstance(combination, Weights):
        return
    if len(spec.objectives) == 1:
        raise ConfigError(
            f"combine: {choice} is for several objectives, and the spec has "
            f"{next(iter(spec.objectives))!r} alone; drop the parameter"
        )
    if "loss" in own:
        raise ConfigError(
            f"combine: {choice} would go past {model}.loss, which combines the losses itself; "
            "drop the parameter, or the method"
        )
    if "train_op" in own and combination.makes_gradients:
        raise ConfigError(
            f"combine: {choice} makes the gradients itself and would go past {model}.train_op; "
            "drop the parameter, or the method"
        )
    combination.check(spec)


__all__ = [
    "COMBINATIONS",
    "COMBINED",
    "Combination",
    "GradNorm",
    "PCGrad",
    "Uncertainty",
    "Weights",
    "check_combination",
    "parse_combination",
]
