"""The heads of exclusive classes: `multi_class` and `ordinal`. No TensorFlow import."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal, Optional

import pydantic
from pydantic import Field

from feature_specs.entry import PositiveFloat, as_tuple, field
from feature_specs.heads import losses
from feature_specs.heads import metrics as kinds
from feature_specs.heads.base import Answer, HeadEntry
from feature_specs.heads.losses import loss_of
from feature_specs.heads.metrics import Kinds, MetricKind, metrics_of, plain

MEAN_IOU = MetricKind(
    "mean_iou",
    "The mean over the classes that occur of hits / (labels + predictions - hits).",
    better="max",
)
TOP_K_ACCURACY = MetricKind(
    "top_k_accuracy",
    "The share of rows whose label is among the k classes with the largest logits, as "
    "`top_<k>_accuracy`.",
    better="max",
    number="count",
    label="top_{}_accuracy",
)


# The largest number of classes with a confusion matrix, because each pair of classes is a metric.
MOST_CONFUSED = 20


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
        losses.SoftmaxCrossEntropy.default(),
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
        kinds.LOG_LOSS,
        kinds.EXPECTED_CALIBRATION_ERROR,
        kinds.CONFUSION,
        kinds.F1,
        MEAN_IOU,
        TOP_K_ACCURACY,
    ) = field(
        (),
        changes="nothing",
        description="Metrics in addition to the default metrics: `log_loss`, "
        "`expected_calibration_error`, `confusion` (one count per pair of classes, for up to "
        f"{MOST_CONFUSED} classes), `f1`, `mean_iou` and `{{top_k_accuracy: 5}}`.",
    )

    always: ClassVar[Kinds] = (kinds.LOSS, kinds.WEIGHT_SUM, kinds.ACCURACY)
    judged_by: ClassVar[Kinds] = (kinds.ACCURACY, kinds.LOG_LOSS)
    main = plain(kinds.ACCURACY)
    answer = Answer("probabilities", wide=True)

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

    @property
    def calibrated(self) -> bool:
        return super().calibrated and self.class_penalties is None

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

    always = (kinds.LOSS, kinds.WEIGHT_SUM, kinds.ACCURACY, kinds.MEAN_ABSOLUTE_ERROR)
    judged_by = (kinds.ACCURACY, kinds.LOG_LOSS, kinds.MEAN_ABSOLUTE_ERROR)
    main = plain(kinds.MEAN_ABSOLUTE_ERROR, kinds.ACCURACY)

    @property
    def logits_dimension(self) -> int:
        return self.num_classes - 1

    def logit_names(self, words: Optional[Sequence[str]]) -> tuple[Any, ...]:
        # A probability of a class depends on all logits.
        classes = ", ".join(map(str, words or range(self.num_classes)))
        return tuple(f"above {k} of {classes}" for k in range(self.num_classes - 1))
