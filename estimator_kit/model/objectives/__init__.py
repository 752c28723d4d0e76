"""The objectives: they turn logits into losses, metrics, predictions and signatures."""

from __future__ import annotations

from typing import Any

from estimator_kit.model.objectives.base import Objective
from estimator_kit.model.objectives.binary import BinaryObjective
from estimator_kit.model.objectives.cosine import CosineObjective
from estimator_kit.model.objectives.delayed_feedback import DelayedFeedbackObjective
from estimator_kit.model.objectives.lifetime_value import ZeroInflatedLognormalObjective
from estimator_kit.model.objectives.multi_class import MultiClassObjective
from estimator_kit.model.objectives.multi_label import MultiLabelObjective
from estimator_kit.model.objectives.next_item import NextItemObjective
from estimator_kit.model.objectives.ordinal import OrdinalObjective
from estimator_kit.model.objectives.quantile import QuantileObjective
from estimator_kit.model.objectives.ranking import RankingObjective
from estimator_kit.model.objectives.regression import (
    LogisticRegressionObjective,
    PoissonObjective,
    RegressionObjective,
)
from estimator_kit.model.objectives.steps import StepObjective
from estimator_kit.model.objectives.survival import SurvivalObjective
from feature_specs.heads.objectives import Binary
from feature_specs.spec import FeatureSpec

# One class per head that a spec can name (`feature_specs.heads.objectives.HEADS`).
_BY_HEAD: dict[str, type[Objective]] = {
    "binary": BinaryObjective,
    "cosine": CosineObjective,
    "logistic_regression": LogisticRegressionObjective,
    "multi_class": MultiClassObjective,
    "multi_label": MultiLabelObjective,
    "next_item": NextItemObjective,
    "ordinal": OrdinalObjective,
    "poisson": PoissonObjective,
    "quantile": QuantileObjective,
    "ranking": RankingObjective,
    "regression": RegressionObjective,
    "survival": SurvivalObjective,
    "ziln": ZeroInflatedLognormalObjective,
}


def make_objectives(spec: FeatureSpec) -> dict[str, Objective]:
    """The objectives of a spec by name, in its order."""
    made = {name: _class_of(entry)(spec, name) for name, entry in spec.objectives.items()}
    return {
        name: objective if objective.config.steps_in_row is None else StepObjective(spec, objective)
        for name, objective in made.items()
    }


def _class_of(entry: Any) -> type[Objective]:
    delayed = isinstance(entry, Binary) and entry.delayed
    return DelayedFeedbackObjective if delayed else _BY_HEAD[entry.head]


__all__ = ["Objective", "StepObjective", "make_objectives"]
