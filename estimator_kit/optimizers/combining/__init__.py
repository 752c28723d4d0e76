"""How training combines several objectives into one step.

    combine: weights                          the sum weighted by loss_weight
    combine: uncertainty                      weights that are learned with the model
    combine: {gradnorm: {alpha: 1.5}}         weights that let all objectives learn equally fast
    combine: {pcgrad: {seed: 7}}              gradients without the parts that conflict

The metric `loss` of an evaluation is always the sum weighted by `loss_weight`. Learned weights
change from step to step, so a loss with them could fall although every objective gets worse.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Union

from estimator_kit.config.choices import parse_choice
from estimator_kit.errors import ConfigError
from estimator_kit.optimizers.combining.base import COMBINED, Combination, Uncertainty, Weights
from estimator_kit.optimizers.combining.gradnorm import GradNorm
from estimator_kit.optimizers.combining.pcgrad import PCGrad
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
      ConfigError: the name is unknown, or a field is wrong.
    """
    return parse_choice("combine", choice, COMBINATIONS)


def check_combination(
    combination: Combination, choice: Any, spec: FeatureSpec, model: str, own: Collection[str]
) -> None:
    """Rejects objectives that cannot be combined, before a graph is built.

    Args:
      combination: the combination.
      choice: the value of the parameter, for messages.
      spec: the feature spec.
      model: the name of the model, for messages.
      own: which of `loss` and `train_op` the model overrides.

    Raises:
      ConfigError: the spec has only one objective, the combination would bypass a method that the
        model overrides, or it does not support an objective.
    """
    if isinstance(combination, Weights):
        return
    if len(spec.objectives) == 1:
        raise ConfigError(
            f"combine: {choice} needs several objectives, but the spec has only "
            f"{next(iter(spec.objectives))!r}. Remove the parameter."
        )
    if "loss" in own:
        raise ConfigError(
            f"combine: {choice} would bypass {model}.loss, which combines the losses itself. "
            "Remove the parameter or the method."
        )
    if "train_op" in own and combination.makes_gradients:
        raise ConfigError(
            f"combine: {choice} makes the gradients itself and would bypass {model}.train_op. "
            "Remove the parameter or the method."
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
