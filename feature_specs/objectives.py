"""The objectives of a spec: heads with their losses and metrics, one frozen model each.

Each checks its own fields; whether its label fits is checked in `label_validation`. What a head
does with its logits is in `estimator_kit.objectives`. Imports no TensorFlow.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Optional, Union

import pydantic
from pydantic import Field

from feature_specs import losses
from feature_specs.entry import Entry, PositiveFloat, as_tuple
from feature_specs.losses import loss_of
from feature_specs.metric_choices import BY_GROUP, MetricChoice, choice, metrics_of

Reduction = Literal["mean", "sum", "sum_over_batch_size", "sum_over_nonzero_weights"]

# Classes of which a confusion matrix may be reported: each pair is a metric of its own.
MOST_CONFUSED = 20


class _Objective(Entry):
    """What one output of the model learns.

    Attributes:
      label: the label it learns, by default the one of the objective's own name.
      loss_weight: its factor in the sum of the losses, 0 or more.
      reduction: what becomes of the losses of the rows: `mean`, their sum by weight over the sum
        of the weights; `sum`; `sum_over_batch_size`, the sum over the number of rows, masked ones
        included; `sum_over_nonzero_weights`, the sum over the number of rows with a weight.
      metrics: metrics beside those that the head always has.
      group_by: the feature whose rows of one value are a group, for metrics of groups.
    """

    label: Optional[str] = None
    loss_weight: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 1.0
    reduction: Reduction = "mean"

    # The smallest and the largest label.
    label_range: ClassVar[tuple[Optional[int], Optional[int]]] = (None, None)

    @property
    def logits_dimension(self) -> int:
        return 1

    @property
    def classes(self) -> Optional[int]:
        """Number of classes, or None for a number."""
        return None

    @property
    def width(self) -> int:
        """Numbers in a label, as the model gets it."""
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
        if self.group is not None and not grouped:
            raise ValueError(
                f"no metric uses group_by; add one of {', '.join(BY_GROUP)} to metrics, or "
                "remove group_by"
            )
        return self


_BINARY_LOSSES = (
    losses.SigmoidCrossEntropy, losses.Focal, losses.LogLoss, losses.Hinge, losses.Exponential,
    losses.Squared, losses.Absolute,
)  # fmt: skip
_NUMBER_LOSSES = (
    losses.Squared, losses.Absolute, losses.Huber, losses.LogCosh, losses.Pinball,
)  # fmt: skip
_SIGMOID = losses.SigmoidCrossEntropy.model_validate({"sigmoid_cross_entropy": {}})
_SOFTMAX = losses.SoftmaxCrossEntropy.model_validate({"softmax_cross_entropy": {}})
_SQUARED = losses.Squared.model_validate({"squared": {}})
_POISSON = losses.Poisson.model_validate({"poisson": {}})
_COSINE = losses.Cosine.model_validate({"cosine": {}})


class Binary(_Objective):
    """Two classes, 0 and 1; one logit.

    `positive_penalty` is a factor on the loss of the rows of class 1, for a class that is rare.
    Weights, and so the metrics beside `loss`, stay as they are.
    """

    head: Literal["binary"]
    loss: loss_of(*_BINARY_LOSSES) = _SIGMOID  # type: ignore[valid-type]
    positive_penalty: PositiveFloat = 1.0
    metrics: metrics_of(  # type: ignore[valid-type]
        "log_loss", "expected_calibration_error", "confusion", "recall_at_precision",
        "precision_at_recall", *BY_GROUP,
    ) = ()  # fmt: skip
    group_by: Optional[str] = None

    label_range: ClassVar = (0, 1)

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


class Regression(_Objective):
    """A number; one logit, which is the prediction."""

    head: Literal["regression"]
    loss: loss_of(*_NUMBER_LOSSES) = _SQUARED  # type: ignore[valid-type]
    metrics: metrics_of("mean_relative_error") = ()  # type: ignore[valid-type]


HEADS: dict[str, type[_Objective]] = {
    "binary": Binary, "multi_class": MultiClass, "regression": Regression,
}  # fmt: skip
Objective = Union[Binary, MultiClass, Regression]
