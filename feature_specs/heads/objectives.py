"""The objectives of a spec: heads with their losses and metrics, one frozen model each.

Each checks its own fields; whether its label fits is checked in `label_validation`. What a head
does with its logits is in `estimator_kit.model.objectives`. Imports no TensorFlow.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Optional, Union

import pydantic
from pydantic import Field

from feature_specs.entry import Entry, NotNegativeFloat, PositiveFloat, as_tuple
from feature_specs.heads import losses
from feature_specs.heads.losses import loss_of
from feature_specs.heads.metric_choices import BY_GROUP, MetricChoice, choice, metrics_of

Reduction = Literal["mean", "sum", "sum_over_batch_size", "sum_over_nonzero_weights"]

# The smallest and the largest label; None where there is no bound.
Range = tuple[Optional[int], Optional[int]]

# The largest label of losses that take 2^label, which a float32 holds and whose sums it holds.
LARGEST_GRADE = 30

# Classes of which a confusion matrix may be reported: each pair is a metric of its own.
MOST_CONFUSED = 20


class _Objective(Entry):
    """What one output of the model learns.

    Attributes:
      head: which head it is.
      loss: the loss of a row, or of a list of rows for the head `ranking`.
      label: the label it learns, by default the one of the objective's own name.
      loss_weight: its factor in the sum of the losses, 0 or more.
      reduction: what becomes of the losses of the rows: `mean`, their sum by weight over the sum
        of the weights; `sum`; `sum_over_batch_size`, the sum over the number of rows, masked ones
        included; `sum_over_nonzero_weights`, the sum over the number of rows with a weight.
      metrics: metrics beside those that the head always has.
      group_by: the feature whose rows of one value are a group, for metrics of groups, or to be
        ranked.
    """

    label: Optional[str] = None
    loss_weight: NotNegativeFloat = 1.0
    reduction: Reduction = "mean"

    # The `label_bounds` of heads that have the same for all.
    label_range: ClassVar[Range] = (None, None)

    # Whether the loss is one of groups, too, so that their rows must come together.
    ranks: ClassVar[bool] = False

    @property
    def logits_dimension(self) -> int:
        """Logits of a value that is learned: of a row, or of a step where there are `steps`."""
        return 1

    @property
    def steps_in_row(self) -> Optional[int]:
        """Values in a row, of heads that have `steps`; None for one that is no list."""
        return getattr(self, "steps", None)

    @property
    def logits_in_row(self) -> int:
        """Logits of a row, all steps together."""
        return self.logits_dimension * (self.steps_in_row or 1)

    @property
    def classes(self) -> Optional[int]:
        """Number of classes, or None for a number."""
        return None

    @property
    def label_bounds(self) -> tuple[Optional[float], Optional[float]]:
        """The smallest and the largest value of a label that the head can learn."""
        return self.label_range

    @property
    def width(self) -> int:
        """Numbers in a label, as the model gets it; in one of its steps where there are `steps`."""
        return 1

    @property
    def group(self) -> Optional[str]:
        """The feature of `group_by`, of heads that have it."""
        return getattr(self, "group_by", None)

    def metric_choices(self) -> tuple[MetricChoice, ...]:
        """The items of `metrics`, as names and numbers."""
        return tuple(choice(item) for item in getattr(self, "metrics", ()))

    @pydantic.model_validator(mode="after")
    def _check_groups(self) -> Any:
        chosen = self.metric_choices()
        grouped = [c.name for c in chosen if c.name in BY_GROUP]
        if grouped and self.group is None:
            raise ValueError(
                f"the metric {grouped[0]} is one of groups; add group_by: the feature whose rows "
                "of one value are a group"
            )
        if self.group is not None and not grouped and not self.ranks:
            raise ValueError(
                f"no metric uses group_by; add one of {', '.join(BY_GROUP)} to metrics, or "
                "remove group_by"
            )
        if self.group is not None and self.steps_in_row is not None:
            raise ValueError("group_by groups rows, not steps; remove one of the two")
        return self


class _StepObjective(_Objective):
    """An objective that may be learned at each step of a row.

    Attributes:
      steps: so many values a row, padded at will; each is a row of its own to loss and metrics.
        The label has the shape `[steps]`, or `[steps, dimension]` of a vector a step, and a
        `weight` of the shape `[steps]` masks the padding with 0. None for one value a row.
    """

    steps: Optional[Annotated[int, Field(ge=2)]] = None


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
    """Two classes, 0 and 1; one logit.

    `positive_penalty` is a factor on the loss of the rows of class 1, for a class that is rare.
    Weights, and so the metrics beside `loss`, stay as they are.
    """

    head: Literal["binary"]
    loss: loss_of(*_BINARY_LOSSES) = _SIGMOID  # type: ignore[valid-type]
    positive_penalty: PositiveFloat = 1.0
    metrics: metrics_of(  # type: ignore[valid-type]
        "log_loss",
        "expected_calibration_error",
        "confusion",
        "recall_at_precision",
        "precision_at_recall",
        *BY_GROUP,
    ) = ()
    group_by: Optional[str] = None

    label_range: ClassVar[Range] = (0, 1)

    @property
    def classes(self) -> int:
        return 2


class MultiClass(_Objective):
    """`num_classes` exclusive classes; one logit a class.

    `class_penalties` has a factor for each class, on the loss of the rows of that class.
    """

    head: Literal["multi_class"]
    num_classes: Annotated[int, Field(ge=3)]
    loss: loss_of(losses.SoftmaxCrossEntropy, losses.Focal) = _SOFTMAX  # type: ignore[valid-type]
    class_penalties: Optional[
        Annotated[tuple[PositiveFloat, ...], pydantic.BeforeValidator(as_tuple)]
    ] = None
    metrics: metrics_of(  # type: ignore[valid-type]
        "log_loss", "expected_calibration_error", "confusion", "f1", "mean_iou", "top_k_accuracy"
    ) = ()

    @property
    def logits_dimension(self) -> int:
        return self.num_classes

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
                    f"{self.num_classes} classes (it would always be 1)"
                )
            if chosen.name == "confusion" and self.num_classes > MOST_CONFUSED:
                raise ValueError(
                    f"confusion is of up to {MOST_CONFUSED} classes, as each pair of them is a "
                    "metric; ask for f1 or mean_iou instead"
                )
        return self


class Regression(_StepObjective):
    """A number; one logit, which is the prediction."""

    head: Literal["regression"]
    loss: loss_of(*_NUMBER_LOSSES) = _SQUARED  # type: ignore[valid-type]
    metrics: metrics_of("mean_relative_error") = ()  # type: ignore[valid-type]


class MultiLabel(_Objective):
    """Any number of `num_classes` classes in a row; one logit a class.

    The label is a list of class ids or words (`shape: variable`), or one 0 or 1 a class
    (`shape: [num_classes]`). `positive_penalty` is a factor on the losses of the classes that a row
    has.
    """

    head: Literal["multi_label"]
    num_classes: Annotated[int, Field(ge=2)]
    loss: loss_of(*_BINARY_LOSSES) = _SIGMOID  # type: ignore[valid-type]
    positive_penalty: PositiveFloat = 1.0
    metrics: metrics_of(  # type: ignore[valid-type]
        "log_loss",
        "auc",
        "auc_precision_recall",
        "confusion",
        "recall_at_precision",
        "precision_at_recall",
    ) = ()

    label_range: ClassVar[Range] = (0, 1)

    @property
    def logits_dimension(self) -> int:
        return self.num_classes

    @property
    def classes(self) -> int:
        return self.num_classes

    @property
    def width(self) -> int:
        return self.num_classes


class PoissonRegression(_StepObjective):
    """A count, or a rate of 0 or more; one logit, which is the logarithm of the rate."""

    head: Literal["poisson"]
    loss: loss_of(losses.Poisson) = _POISSON  # type: ignore[valid-type]
    metrics: metrics_of("mean_relative_error") = ()  # type: ignore[valid-type]

    label_range: ClassVar[Range] = (0, None)


class LogisticRegression(_StepObjective):
    """A share from 0 to 1; one logit, whose sigmoid is the prediction."""

    head: Literal["logistic_regression"]
    loss: loss_of(  # type: ignore[valid-type]
        losses.SigmoidCrossEntropy, losses.Focal, losses.LogLoss, losses.Squared, losses.Absolute
    ) = _SIGMOID
    metrics: metrics_of("mean_relative_error") = ()  # type: ignore[valid-type]

    label_range: ClassVar[Range] = (0, 1)


class CosineDistance(_StepObjective):
    """The direction of a vector of `dimension` numbers; so many logits."""

    head: Literal["cosine"]
    dimension: Annotated[int, Field(ge=2)]
    loss: loss_of(losses.Cosine) = _COSINE  # type: ignore[valid-type]

    @property
    def logits_dimension(self) -> int:
        return self.dimension

    @property
    def width(self) -> int:
        return self.dimension


class Quantile(_Objective):
    """Several `quantiles` of a number, as they increase; one logit each.

    With `non_crossing` a prediction is never below the one of a smaller quantile.
    """

    head: Literal["quantile"]
    quantiles: Annotated[
        tuple[Annotated[float, Field(gt=0, lt=1)], ...],
        pydantic.BeforeValidator(as_tuple),
        Field(min_length=1),
    ]
    non_crossing: bool = False

    @property
    def logits_dimension(self) -> int:
        return len(self.quantiles)

    @pydantic.model_validator(mode="after")
    def _check(self) -> Quantile:
        if any(a >= b for a, b in zip(self.quantiles, self.quantiles[1:])):
            raise ValueError("quantiles must increase strictly")
        return self


class Ranking(_Objective):
    """The order of the rows of one value of `group_by`; one logit, a score to sort them by.

    Labels are grades of relevance, 0 or more. The rows of a group in a batch are a list; see
    `estimator_kit.model.objectives.list_losses`. NDCG takes 2^label - 1 as a row's gain.
    """

    head: Literal["ranking"]
    group_by: str
    loss: loss_of(  # type: ignore[valid-type]
        losses.PairwiseLogistic,
        losses.PairwiseHinge,
        losses.PairwiseSoftZeroOne,
        losses.ListSoftmax,
        losses.UniqueSoftmax,
        losses.ListMle,
        losses.ApproxNdcg,
    ) = _PAIRS
    reduction: Literal["mean", "sum"] = "mean"
    metrics: metrics_of("mrr", "ndcg", "hit_rate") = ({"ndcg": 10},)  # type: ignore[valid-type]

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
                "the head ranking needs group_by: the feature whose rows of one value are ranked "
                "against each other, such as the id of a query, session or user"
            )
        return values


HEADS: dict[str, type[_Objective]] = {
    "binary": Binary,
    "multi_class": MultiClass,
    "regression": Regression,
    "multi_label": MultiLabel,
    "poisson": PoissonRegression,
    "logistic_regression": LogisticRegression,
    "cosine": CosineDistance,
    "quantile": Quantile,
    "ranking": Ranking,
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
]
