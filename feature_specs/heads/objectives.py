"""The objectives of a spec: heads with their losses and metrics, one frozen model each.

A model checks its own fields. `feature_specs.validation.labels` checks whether the label fits the
head. `estimator_kit.model.heads` computes losses, metrics and predictions. This module does
not import TensorFlow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal, Optional, Union

import pydantic
from pydantic import Field

from feature_specs.entry import PositiveFloat, as_tuple, field
from feature_specs.heads import losses
from feature_specs.heads.base import HeadEntry, LabelPart, Range
from feature_specs.heads.lifetime_value import ZeroInflatedLognormal
from feature_specs.heads.losses import loss_of
from feature_specs.heads.metric_choices import BY_GROUP, metrics_of
from feature_specs.heads.next_item import NextItem
from feature_specs.heads.survival import Survival

# The largest label for losses that compute 2^label, so that sums of such numbers fit into a
# float32.
LARGEST_GRADE = 30

# The largest number of classes with a confusion matrix, because each pair of classes is a metric.
MOST_CONFUSED = 20


class _StepObjective(HeadEntry):
    """An objective that can be learned at each step of a row."""

    steps: Optional[Annotated[int, Field(ge=2, le=2**31)]] = field(
        None,
        changes="weights outputs",
        description="The number of steps per row. Loss and metrics treat each step as a row. The "
        "label has the shape `[steps]`, or `[steps, dimension]` for vectors. To pad shorter rows, "
        "give the label a `weight` of the shape `[steps]` that is 0 for padding. By default a row "
        "has one value.",
    )


_BINARY_LOSSES = (
    losses.SigmoidCrossEntropy,
    losses.Focal,
    losses.LogLoss,
    losses.Hinge,
    losses.Exponential,
    losses.Squared,
    losses.Absolute,
)
_NUMBER_LOSSES = (
    losses.Squared,
    losses.Absolute,
    losses.Huber,
    losses.LogCosh,
    losses.Pinball,
)
_SIGMOID = losses.SigmoidCrossEntropy.model_validate({"sigmoid_cross_entropy": {}})
_SOFTMAX = losses.SoftmaxCrossEntropy.model_validate({"softmax_cross_entropy": {}})
_SQUARED = losses.Squared.model_validate({"squared": {}})
_PAIRS = losses.PairwiseLogistic.model_validate({"pairwise_logistic": {}})
_POISSON = losses.Poisson.model_validate({"poisson": {}})
_COSINE = losses.Cosine.model_validate({"cosine": {}})


class Binary(_StepObjective):
    """Two classes, 0 and 1, from one logit. The prediction is the probability of class 1."""

    head: Literal["binary"] = field(
        changes="weights outputs training scores",
        description="Two classes, 0 and 1, from one logit.",
    )
    loss: loss_of(*_BINARY_LOSSES, losses.DelayedFeedback) = field(  # type: ignore[valid-type]
        _SIGMOID,
        changes="training scores",
        description="The loss of a row. The default is `sigmoid_cross_entropy`.",
    )
    positive_penalty: PositiveFloat = field(
        1.0,
        changes="training scores",
        description="A factor on the loss of rows of class 1, for a rare class. Of the metrics "
        "it changes only `loss`.",
    )
    metrics: metrics_of(  # type: ignore[valid-type]
        "log_loss",
        "expected_calibration_error",
        "confusion",
        "recall_at_precision",
        "precision_at_recall",
        *BY_GROUP,
    ) = field(
        (),
        changes="nothing",
        description="Metrics in addition to the default metrics: `log_loss`, "
        "`expected_calibration_error`, `confusion` (the four counts), "
        "`{recall_at_precision: 0.9}`, `{precision_at_recall: 0.9}`, and with `group_by` also "
        "`gauc`, `mrr`, `{ndcg: 10}` and `{hit_rate: 10}`.",
    )
    group_by: Optional[str] = field(
        None,
        changes="scores",
        description="The string or int64 feature that names the group of a row, such as a user id. "
        "Only for the metrics `gauc`, `mrr`, `ndcg` and `hit_rate`.",
    )

    label_range: ClassVar[Range] = (0, 1)

    @property
    def delayed(self) -> bool:
        """Whether the label 1 may come late, for which the head has a second logit."""
        return isinstance(self.loss, losses.DelayedFeedback)

    @property
    def logits_dimension(self) -> int:
        return 2 if self.delayed else 1

    def logit_names(self, words: Optional[Sequence[str]]) -> tuple[Any, ...]:
        name = "1" if words is None else f"{words[1]} and not {words[0]}"
        return tuple(f"{name} ({i})" if i else name for i in range(self.logits_in_row))

    @property
    def classes(self) -> int:
        return 2

    @property
    def label_parts(self) -> tuple[LabelPart, ...]:
        if not self.delayed:
            return ()
        path = ("loss", "delayed_feedback", "elapsed")
        return (LabelPart(path, losses.options_of(self.loss).elapsed, (0, None)),)

    def counted(self, wanted: frozenset[str]) -> dict[str, Any]:
        """Like the base, with the second number of the label, for which there is a second logit."""
        found = super().counted(wanted)
        if self.delayed and wanted & {"values", "weights"}:
            found["elapsed"] = losses.options_of(self.loss).elapsed
        return found

    @pydantic.model_validator(mode="after")
    def _check_delayed(self) -> Binary:
        if self.delayed and self.steps is not None:
            raise ValueError(
                "the loss delayed_feedback learns one label per row, so it cannot be combined with "
                "steps. Remove one of the two."
            )
        if self.delayed and self.positive_penalty != 1:
            raise ValueError(
                "the loss delayed_feedback learns probabilities, which positive_penalty would "
                "change. Remove one of the two."
            )
        return self


class MultiClass(HeadEntry):
    """One of `num_classes` exclusive classes, from one logit per class."""

    head: Literal["multi_class"] = field(
        changes="weights outputs training scores",
        description="One of several exclusive classes, from one logit per class.",
    )
    num_classes: Annotated[int, Field(ge=3)] = field(
        changes="weights outputs",
        description="The number of classes, 3 or more. Labels are in [0, num_classes), or words of "
        "a vocabulary of this size.",
    )
    loss: loss_of(losses.SoftmaxCrossEntropy, losses.Focal) = field(  # type: ignore[valid-type]
        _SOFTMAX,
        changes="training scores",
        description="The loss of a row. The default is `softmax_cross_entropy`.",
    )
    class_penalties: Optional[
        Annotated[tuple[PositiveFloat, ...], pydantic.BeforeValidator(as_tuple)]
    ] = field(
        None,
        changes="training scores",
        description="One factor per class on the loss of rows of that class. The default is 1. Of "
        "the metrics it changes only `loss`.",
    )
    metrics: metrics_of(  # type: ignore[valid-type]
        "log_loss", "expected_calibration_error", "confusion", "f1", "mean_iou", "top_k_accuracy"
    ) = field(
        (),
        changes="nothing",
        description="Metrics in addition to the default metrics: `log_loss`, "
        "`expected_calibration_error`, `confusion` (one count per pair of classes, for up to "
        f"{MOST_CONFUSED} classes), `f1`, `mean_iou` and `{{top_k_accuracy: 5}}`.",
    )

    @property
    def logits_dimension(self) -> int:
        return self.num_classes

    def logit_names(self, words: Optional[Sequence[str]]) -> tuple[Any, ...]:
        return tuple(words or range(self.num_classes))

    @property
    def classes(self) -> int:
        return self.num_classes

    @property
    def label_bounds(self) -> tuple[float, float]:
        return 0, self.num_classes - 1

    @pydantic.model_validator(mode="after")
    def _check(self) -> MultiClass:
        if self.class_penalties is not None and len(self.class_penalties) != self.num_classes:
            raise ValueError(
                f"class_penalties has {len(self.class_penalties)} numbers, expected one for each "
                f"of the {self.num_classes} classes"
            )
        for chosen in self.metric_choices():
            if chosen.name == "top_k_accuracy" and (chosen.value or 0) >= self.num_classes:
                raise ValueError(
                    f"top_k_accuracy: got {chosen.value}, expected less than the "
                    f"{self.num_classes} classes, because otherwise it is always 1"
                )
            if chosen.name == "confusion" and self.num_classes > MOST_CONFUSED:
                raise ValueError(
                    f"confusion has one metric per pair of classes and allows up to "
                    f"{MOST_CONFUSED} classes, got {self.num_classes}. Use f1 or mean_iou instead."
                )
        return self


class Ordinal(MultiClass):
    """One of `num_classes` classes in an order, such as grades, from cumulative logits."""

    head: Literal["ordinal"] = field(  # type: ignore[assignment]
        changes="weights outputs training scores",
        description="One of several classes in an order, from one logit less than classes: the "
        "label is above class k with the probability sigmoid(z_k), which falls with k.",
    )

    @property
    def logits_dimension(self) -> int:
        return self.num_classes - 1

    def logit_names(self, words: Optional[Sequence[str]]) -> tuple[Any, ...]:
        # A probability of a class depends on all logits.
        classes = ", ".join(map(str, words or range(self.num_classes)))
        return tuple(f"above {k} of {classes}" for k in range(self.num_classes - 1))


class Regression(_StepObjective):
    """A number. The one logit is the prediction."""

    head: Literal["regression"] = field(
        changes="weights outputs training scores",
        description="A number. The one logit is the prediction.",
    )
    loss: loss_of(*_NUMBER_LOSSES) = field(  # type: ignore[valid-type]
        _SQUARED,
        changes="training scores",
        description="The loss of a row. The default is `squared`.",
    )
    metrics: metrics_of("mean_relative_error") = field(  # type: ignore[valid-type]
        (),
        changes="nothing",
        description="Metrics in addition to the default metrics: `mean_relative_error`.",
    )


class MultiLabel(HeadEntry):
    """Any number of `num_classes` classes per row, from one logit per class.

    The label is a list of class ids or words (`shape: variable`), or one 0 or 1 per class
    (`shape: [num_classes]`).
    """

    head: Literal["multi_label"] = field(
        changes="weights outputs training scores",
        description="Any number of classes per row, from one logit per class.",
    )
    num_classes: Annotated[int, Field(ge=2, le=2**31)] = field(
        changes="values weights outputs", description="The number of classes, 2 or more."
    )
    loss: loss_of(*_BINARY_LOSSES) = field(  # type: ignore[valid-type]
        _SIGMOID,
        changes="training scores",
        description="The loss of a class. The loss of a row is the mean over the classes. The "
        "default is `sigmoid_cross_entropy`.",
    )
    positive_penalty: PositiveFloat = field(
        1.0,
        changes="training scores",
        description="A factor on the losses of the classes that a row has. Of the metrics it "
        "changes only `loss`.",
    )
    metrics: metrics_of(  # type: ignore[valid-type]
        "log_loss",
        "auc",
        "auc_precision_recall",
        "confusion",
        "recall_at_precision",
        "precision_at_recall",
    ) = field(
        (),
        changes="nothing",
        description="Metrics in addition to the default metrics, over all pairs of row and class: "
        "`log_loss`, `auc`, `auc_precision_recall`, `confusion` (the four counts), "
        "`{recall_at_precision: 0.9}` and `{precision_at_recall: 0.9}`.",
    )

    label_range: ClassVar[Range] = (0, 1)

    @property
    def logits_dimension(self) -> int:
        return self.num_classes

    def logit_names(self, words: Optional[Sequence[str]]) -> tuple[Any, ...]:
        return tuple(words or range(self.num_classes))

    @property
    def classes(self) -> int:
        return self.num_classes

    @property
    def width(self) -> int:
        return self.num_classes


class PoissonRegression(_StepObjective):
    """A count or a rate, 0 or more. The one logit is the logarithm of the predicted rate."""

    head: Literal["poisson"] = field(
        changes="weights outputs training scores",
        description="A count or a rate, 0 or more. The logit is the logarithm of the rate.",
    )
    loss: loss_of(losses.Poisson) = field(  # type: ignore[valid-type]
        _POISSON, changes="training scores", description="The loss of a row: `poisson`."
    )
    metrics: metrics_of("mean_relative_error") = field(  # type: ignore[valid-type]
        (),
        changes="nothing",
        description="Metrics in addition to the default metrics: `mean_relative_error`.",
    )

    label_range: ClassVar[Range] = (0, None)


class LogisticRegression(_StepObjective):
    """A number from 0 to 1, such as a rate. The sigmoid of the one logit is the prediction."""

    head: Literal["logistic_regression"] = field(
        changes="weights outputs training scores",
        description="A number from 0 to 1. The sigmoid of the one logit is the prediction.",
    )
    loss: loss_of(  # type: ignore[valid-type]
        losses.SigmoidCrossEntropy, losses.Focal, losses.LogLoss, losses.Squared, losses.Absolute
    ) = field(
        _SIGMOID,
        changes="training scores",
        description="The loss of a row. The default is `sigmoid_cross_entropy`.",
    )
    metrics: metrics_of("mean_relative_error") = field(  # type: ignore[valid-type]
        (),
        changes="nothing",
        description="Metrics in addition to the default metrics: `mean_relative_error`.",
    )

    label_range: ClassVar[Range] = (0, 1)


class CosineDistance(_StepObjective):
    """The direction of a vector, from one logit per number of the vector."""

    head: Literal["cosine"] = field(
        changes="weights outputs training scores",
        description="The direction of a vector, from one logit per number of the vector.",
    )
    dimension: Annotated[int, Field(ge=2, le=2**31)] = field(
        changes="weights outputs",
        description="The length of the vector, 2 or more. The label has the shape `[dimension]`.",
    )
    loss: loss_of(losses.Cosine) = field(  # type: ignore[valid-type]
        _COSINE, changes="training scores", description="The loss of a row: `cosine`."
    )

    @property
    def logits_dimension(self) -> int:
        return self.dimension

    def logit_names(self, words: Optional[Sequence[str]]) -> tuple[Any, ...]:
        return tuple(f"{i} of {self.dimension}" for i in range(self.logits_in_row))

    @property
    def width(self) -> int:
        return self.dimension


class Quantile(HeadEntry):
    """Several quantiles of a number, from one logit per quantile.

    The loss is the mean of the pinball losses of the quantiles.
    """

    head: Literal["quantile"] = field(
        changes="weights outputs training scores",
        description="Several quantiles of a number, from one logit per quantile.",
    )
    quantiles: Annotated[
        tuple[Annotated[float, Field(gt=0, lt=1)], ...],
        pydantic.BeforeValidator(as_tuple),
        Field(min_length=1),
    ] = field(
        changes="weights outputs training scores",
        description="The quantiles to predict, in (0, 1) and strictly increasing, such as "
        "`[0.1, 0.5, 0.9]`.",
    )
    non_crossing: bool = field(
        False,
        changes="weights",
        description="`true` makes sure that a prediction is never lower than the prediction of a "
        "smaller quantile. Each logit after the first then adds softplus(logit) to the prediction "
        "before it.",
    )

    @property
    def logits_dimension(self) -> int:
        return len(self.quantiles)

    def logit_names(self, words: Optional[Sequence[str]]) -> tuple[Any, ...]:
        if self.non_crossing:  # A prediction is a sum over the smaller quantiles.
            return tuple(f"{i} of {self.quantiles}" for i in range(len(self.quantiles)))
        return self.quantiles

    @pydantic.model_validator(mode="after")
    def _check(self) -> Quantile:
        if any(a >= b for a, b in zip(self.quantiles, self.quantiles[1:])):
            raise ValueError(f"quantiles must be strictly increasing, got {list(self.quantiles)}")
        return self


class Ranking(HeadEntry):
    """The order of the rows of a group, from one logit: a score to sort the rows by.

    Labels are grades of relevance, 0 or more. The rows of a group in a batch form a list. NDCG uses
    the gain 2^label - 1. `estimator_kit.model.heads.list_losses` computes the losses.
    """

    head: Literal["ranking"] = field(
        changes="weights outputs training scores",
        description="The order of the rows of a group, from one logit per row.",
    )
    group_by: str = field(
        changes="rows values training scores",
        description="The string or int64 feature that names the group of a row, such as the id of "
        "a query, session or user.",
    )
    loss: loss_of(  # type: ignore[valid-type]
        losses.PairwiseLogistic,
        losses.PairwiseHinge,
        losses.PairwiseSoftZeroOne,
        losses.ListSoftmax,
        losses.UniqueSoftmax,
        losses.ListMle,
        losses.ApproxNdcg,
    ) = field(
        _PAIRS,
        changes="training scores",
        description="The loss of a list. The default is `pairwise_logistic`.",
    )
    reduction: Literal["mean", "sum"] = field(
        "mean",
        changes="training scores",
        description="How the losses of lists become the loss of a batch: `mean` divides their "
        "weighted sum by the sum of the weights of the lists, and `sum` leaves it as it is.",
    )
    metrics: metrics_of("mrr", "ndcg", "hit_rate") = field(  # type: ignore[valid-type]
        ({"ndcg": 10},),
        changes="nothing",
        description="Metrics in addition to the default metrics: `mrr`, `{ndcg: 10}` and "
        "`{hit_rate: 10}`.",
    )

    ranks: ClassVar[bool] = True

    @property
    def label_bounds(self) -> tuple[float, Optional[float]]:
        powers = isinstance(self.loss, losses.UniqueSoftmax) or (
            getattr(losses.options_of(self.loss), "lambda_weight", None) is not None
        )
        return 0, LARGEST_GRADE if powers else None

    @pydantic.model_validator(mode="before")
    @classmethod
    def _check_group_by(cls, values: Any) -> Any:
        if isinstance(values, dict) and values.get("group_by") is None:
            raise ValueError(
                "the head ranking needs group_by. Add the feature that names the group of a row, "
                "such as the id of a query, session or user."
            )
        return values


HEADS: dict[str, type[HeadEntry]] = {
    "binary": Binary,
    "multi_class": MultiClass,
    "regression": Regression,
    "multi_label": MultiLabel,
    "poisson": PoissonRegression,
    "logistic_regression": LogisticRegression,
    "cosine": CosineDistance,
    "quantile": Quantile,
    "ranking": Ranking,
    "next_item": NextItem,
    "ordinal": Ordinal,
    "ziln": ZeroInflatedLognormal,
    "survival": Survival,
}
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
