"""The objectives: they turn logits into losses, metrics, predictions and signatures."""

from __future__ import annotations

from typing import Any

from estimator_kit.model.heads.base import Head
from estimator_kit.model.heads.binary import BinaryHead, DelayedFeedbackHead, MultiLabelHead
from estimator_kit.model.heads.multi_class import MultiClassHead, OrdinalHead
from estimator_kit.model.heads.next_item import NextItemHead
from estimator_kit.model.heads.numbers import (
    CosineHead,
    LogisticRegressionHead,
    PoissonHead,
    QuantileHead,
    RegressionHead,
    ZeroInflatedLognormalHead,
)
from estimator_kit.model.heads.ranking import RankingHead
from estimator_kit.model.heads.steps import StepHead
from estimator_kit.model.heads.survival import SurvivalHead
from feature_specs.heads.objectives import Binary
from feature_specs.spec import FeatureSpec

# One class per head that a spec can name (`feature_specs.heads.objectives.HEADS`).
_BY_HEAD: dict[str, type[Head]] = {
    "binary": BinaryHead,
    "cosine": CosineHead,
    "logistic_regression": LogisticRegressionHead,
    "multi_class": MultiClassHead,
    "multi_label": MultiLabelHead,
    "next_item": NextItemHead,
    "ordinal": OrdinalHead,
    "poisson": PoissonHead,
    "quantile": QuantileHead,
    "ranking": RankingHead,
    "regression": RegressionHead,
    "survival": SurvivalHead,
    "ziln": ZeroInflatedLognormalHead,
}


def make_heads(spec: FeatureSpec) -> dict[str, Head]:
    """The objectives of a spec by name, in its order."""
    made = {name: _class_of(entry)(spec, name) for name, entry in spec.objectives.items()}
    return {
        name: head if head.config.steps_in_row is None else StepHead(spec, head)
        for name, head in made.items()
    }


def _class_of(entry: Any) -> type[Head]:
    delayed = isinstance(entry, Binary) and entry.delayed
    return DelayedFeedbackHead if delayed else _BY_HEAD[entry.head]


__all__ = ["Head", "StepHead", "make_heads"]
