"""The heads that a spec can choose, with their losses and metrics.

`Objective` has the class of each head. A module of this package has a family of heads, with the
losses and metrics that only they have; `estimator_kit.model.heads` has a module of the same name,
which computes them.
"""

from __future__ import annotations

from typing import Optional, Union, get_args

from feature_specs.heads.base import HeadEntry
from feature_specs.heads.binary import Binary as Binary
from feature_specs.heads.binary import MultiLabel
from feature_specs.heads.losses import LossEntry
from feature_specs.heads.metrics import MetricKind as MetricKind
from feature_specs.heads.multi_class import MultiClass, Ordinal
from feature_specs.heads.next_item import NextItem as NextItem
from feature_specs.heads.numbers import (
    CosineDistance,
    LogisticRegression,
    PoissonRegression,
    Quantile,
    Regression,
    ZeroInflatedLognormal,
)
from feature_specs.heads.ranking import Ranking as Ranking
from feature_specs.heads.survival import Survival

Objective = Union[
    Binary,
    MultiClass,
    Regression,
    MultiLabel,
    PoissonRegression,
    LogisticRegression,
    CosineDistance,
    Quantile,
    Ranking,
    NextItem,
    Ordinal,
    ZeroInflatedLognormal,
    Survival,
]

# The classes of heads by the name in a spec.
HEADS: dict[str, type[HeadEntry]] = {
    get_args(head.model_fields["head"].annotation)[0]: head for head in get_args(Objective)
}


def _kinds(head: type[HeadEntry]) -> tuple[MetricKind, ...]:
    chosen = head.metric_field().kinds.values()
    return (*head.always, *head.sometimes, *chosen, *head.judged_by)


# All losses and all metrics by name.
LOSSES: dict[str, type[LossEntry]] = {
    name: loss for head in HEADS.values() for name, loss in head.losses().items()
}
METRICS: dict[str, MetricKind] = {
    kind.name: kind for head in HEADS.values() for kind in _kinds(head)
}


def kind_of(label: str) -> Optional[MetricKind]:
    """The metric with a label such as `auc` or `ndcg_at_10`; None if no head has it."""
    return next((kind for kind in METRICS.values() if kind.has_label(label)), None)
