"""The heads of classes that are present or absent: `binary` and `multi_label`, with their losses.

This module does not import TensorFlow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal, Optional

import pydantic
from pydantic import Field

from feature_specs.entry import Entry, PositiveFloat, field
from feature_specs.heads import losses
from feature_specs.heads import metrics as kinds
from feature_specs.heads.base import Answer, HeadEntry, LabelPart, Range, StepEntry
from feature_specs.heads.losses import LossEntry, NoOptions, loss_of, may_be_negative
from feature_specs.heads.metrics import MetricKind, metrics_of, plain

ACCURACY_BASELINE = MetricKind(
    "accuracy_baseline",
    "The accuracy of always predicting the more frequent class: max(label_mean, 1 - label_mean).",
    reads_predictions=False,
)
BAYES_AUC = MetricKind(
    "bayes_auc",
    "The AUC of the true probabilities, which is the best that a model can reach. It needs "
    "`true_probability` in the label.",
    better="max",
    reads_predictions=False,
)
BAYES_LOSS = MetricKind(
    "bayes_loss",
    "The log loss of the true probabilities, which is the best that a model can reach. It needs "
    "`true_probability` in the label.",
    better="min",
    reads_predictions=False,
)
GAUC = MetricKind(
    "gauc",
    "The mean of the AUCs of the groups, weighted by the weight of their rows. Groups whose rows "
    "all have one class are left out.",
    better="max",
)

# Metrics within the rows of one value of `group_by`.
OF_GROUPS = (GAUC, kinds.MRR, kinds.NDCG, kinds.HIT_RATE)


class Hinge(LossEntry):
    """The hinge loss, max(0, 1 - m), with the margin m = (2y - 1) logit."""

    hinge: NoOptions = Field(description="max(0, 1 - m), with the margin m = (2y - 1) logit.")

    @property
    def calibrated(self) -> bool:
        return False


class Exponential(LossEntry):
    """The exponential loss of AdaBoost, exp(-m), with the margin m = (2y - 1) logit."""

    exponential: NoOptions = Field(description="exp(-m), with the margin m = (2y - 1) logit.")

    @property
    def calibrated(self) -> bool:
        """The best logit is half of the log-odds."""
        return False


class DelayedFeedback(LossEntry):
    """The likelihood of a class 1 that may still come, such as a late purchase.

    A row has the class 1 with the probability p. If it has, the time until this is seen has an
    exponential distribution, whose rate is the second logit.

    See Chapelle, "Modeling Delayed Feedback in Display Advertising", KDD 2014.
    """

    class Values(Entry):
        """The options of `delayed_feedback`."""

        elapsed: str = Field(
            description="The feature with the time since the start of the row, such as a click: "
            "until the class 1 was seen, or until the label was last looked up if it is 0."
        )
        delay: PositiveFloat = Field(
            1.0,
            description="A typical delay, in the unit of `elapsed`. Training starts from this "
            "delay for all rows. Delays below a thousandth of it count as a thousandth.",
        )

    delayed_feedback: Values = Field(
        description="-log(p l exp(-l t)) for the label 1, and -log(1 - p + p exp(-l t)) for the "
        "label 0, with p = sigmoid(logit), t = elapsed / delay, and the rate l, which is the "
        "exponential of a second logit."
    )

    @property
    def calibrated(self) -> bool:
        """Probabilities are above the labels that are stored, some of which come later."""
        return False

    def negative(self, objective: str) -> Optional[str]:
        return f"{may_be_negative(objective)} Use pcgrad or weights."


_BINARY_LOSSES = (
    losses.SigmoidCrossEntropy,
    losses.Focal,
    losses.LogLoss,
    Hinge,
    Exponential,
    losses.Squared,
    losses.Absolute,
)


class Binary(StepEntry):
    """Two classes, 0 and 1, from one logit. The prediction is the probability of class 1."""

    head: Literal["binary"] = field(
        changes="weights outputs training scores",
        description="Two classes, 0 and 1, from one logit.",
    )
    loss: loss_of(*_BINARY_LOSSES, DelayedFeedback) = field(  # type: ignore[valid-type]
        losses.SigmoidCrossEntropy.default(),
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
        kinds.LOG_LOSS,
        kinds.EXPECTED_CALIBRATION_ERROR,
        kinds.CONFUSION,
        kinds.RECALL_AT_PRECISION,
        kinds.PRECISION_AT_RECALL,
        *OF_GROUPS,
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

    always = (
        *kinds.MEANS,
        *kinds.OF_CONFUSION,
        kinds.AUC,
        kinds.AUC_PRECISION_RECALL,
        ACCURACY_BASELINE,
        kinds.CALIBRATION,
    )
    judged_by = (kinds.AUC, kinds.LOG_LOSS, kinds.CALIBRATION)
    main = plain(kinds.AUC, kinds.AUC_PRECISION_RECALL, kinds.CALIBRATION)
    answer = Answer("logits")
    sometimes = (BAYES_AUC, BAYES_LOSS, *kinds.WITH_GROUPS)
    by_group = OF_GROUPS
    label_range: ClassVar[Range] = (0, 1)

    @property
    def calibrated(self) -> bool:
        return super().calibrated and self.positive_penalty == 1

    @property
    def delayed(self) -> bool:
        """Whether the label 1 may come late, for which the head has a second logit."""
        return isinstance(self.loss, DelayedFeedback)

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
        return (LabelPart(path, self.loss.options.elapsed, (0, None)),)

    def counted(self, wanted: frozenset[str]) -> dict[str, Any]:
        """Like the base, with the second number of the label, for which there is a second logit."""
        values = super().counted(wanted)
        if self.delayed and wanted & {"values", "weights"}:
            values["elapsed"] = self.loss.options.elapsed
        return values

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
        losses.SigmoidCrossEntropy.default(),
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
        kinds.LOG_LOSS,
        kinds.AUC,
        kinds.AUC_PRECISION_RECALL,
        kinds.CONFUSION,
        kinds.RECALL_AT_PRECISION,
        kinds.PRECISION_AT_RECALL,
    ) = field(
        (),
        changes="nothing",
        description="Metrics in addition to the default metrics, over all pairs of row and class: "
        "`log_loss`, `auc`, `auc_precision_recall`, `confusion` (the four counts), "
        "`{recall_at_precision: 0.9}` and `{precision_at_recall: 0.9}`.",
    )

    always = (*kinds.MEANS, *kinds.OF_CONFUSION)
    main = plain(kinds.AUC, kinds.ACCURACY)
    lists_classes = True
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
