"""How training makes one step of several objectives, by name.

    combine: weights                          the sum by loss_weight
    combine: uncertainty                      weights that are learned with the model
    combine: {gradnorm: {alpha: 1.5}}         weights that keep all objectives learning at one pace
    combine: {pcgrad: {seed: 7}}              gradients without what speaks against another's

Evaluation's `loss` is the sum by `loss_weight` whatever is chosen here: learned weights move from
step to step, and a loss made with them could fall while every objective gets worse.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Union

from estimator_kit.combining.base import COMBINED, Combination, Weights
from estimator_kit.combining.gradnorm import GradNorm
from estimator_kit.combining.pcgrad import PCGrad
from estimator_kit.combining.uncertainty import Uncertainty
from estimator_kit.named_choice import parse_choice

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


__all__ = ["COMBINATIONS", "COMBINED", "Combination", "GradNorm", "PCGrad", "Uncertainty",
           "Weights", "parse_combination"]  # fmt: skip
