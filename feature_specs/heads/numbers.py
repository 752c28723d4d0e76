"""The heads of numbers, rates and vectors, with their losses. No TensorFlow import."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal, Optional

import pydantic
from pydantic import Field

from feature_specs.entry import Entry, FiniteFloat, PositiveFloat, as_tuple, field
from feature_specs.heads import losses
from feature_specs.heads import metrics as kinds
from feature_specs.heads.base import Answer, HeadEntry, Range, StepEntry
from feature_specs.heads.losses import LossEntry, NoOptions, loss_of, may_be_negative
from feature_specs.heads.metrics import MetricKind, metrics_of, plain

MEAN_RELATIVE_ERROR = MetricKind(
    "mean_relative_error",
    "The mean of |p - y| / |y| over the rows whose label is not 0.",
    better="min",
)
COSINE_SIMILARITY = MetricKind(
    "cosine_similarity",
    "The mean cosine of the angle between the logits and the label.",
    better="max",
)


_ErrorMetrics = metrics_of(MEAN_RELATIVE_ERROR)


def _error_metrics() -> Any:
    """The field `metrics` of a head that reports errors."""
    return field(
        (),
        changes="nothing",
        description="Metrics in addition to the default metrics: `mean_relative_error`.",
    )


class Huber(LossEntry):
    """The Huber loss: d^2 / 2 for an error d <= delta, and delta (d - delta / 2) above it."""

    class Values(Entry):
        """The options of `huber`."""

        delta: PositiveFloat = Field(
            1.0,
            description="The error at which the loss changes from quadratic to linear, in the unit "
            "of the label.",
        )

    huber: Values = Field(
        description="d^2 / 2 for an error d <= delta, and delta (d - delta / 2) for larger errors."
    )


class LogCosh(LossEntry):
    """log cosh(prediction - label): quadratic for small errors and linear for large ones."""

    log_cosh: NoOptions = Field(description="log cosh(prediction - label).")


class Pinball(LossEntry):
    """The quantile loss: q d if the label is higher by d, and (1 - q) d if it is lower by d.

    The best prediction is the quantile q of the labels.
    """

    class Values(Entry):
        """The options of `pinball`."""

        quantile: Annotated[float, Field(gt=0, lt=1)] = Field(
            0.5, description="The quantile q, in (0, 1). 0.5 gives half the absolute error."
        )

    pinball: Values = Field(
        description="q d if the label is higher than the prediction by d, and (1 - q) d if it is "
        "lower by d."
    )


class Poisson(LossEntry):
    """The negative log-likelihood of a Poisson distribution, exp(logit) - y logit."""

    class Values(Entry):
        """The options of `poisson`."""

        full: bool = Field(
            False,
            description="`true` adds log(y!) by Stirling's approximation. This changes the loss "
            "but not its gradient.",
        )

    poisson: Values = Field(description="exp(logit) - y logit.")

    def negative(self, objective: str) -> Optional[str]:
        remedy = "Set loss: {poisson: {full: true}}."
        return None if self.poisson.full else f"{may_be_negative(objective)} {remedy}"


class Cosine(LossEntry):
    """1 - cos(a), where a is the angle between the logits and the label."""

    cosine: NoOptions = Field(
        description="1 - cos(a), where a is the angle between the logits and the label."
    )


_NUMBER_LOSSES = (
    losses.Squared,
    losses.Absolute,
    Huber,
    LogCosh,
    Pinball,
)


class Regression(StepEntry):
    """A number. The one logit is the prediction, center + scale * what the model computes."""

    head: Literal["regression"] = field(
        changes="weights outputs training scores",
        description="A number. The one logit is the prediction.",
    )
    center: FiniteFloat = field(
        0.0,
        changes="weights training scores",
        description="What an untrained model predicts, such as the mean of the label. A model "
        "learns numbers near 0 and 1 fast. Without this, it needs thousands of steps for a label "
        "with a mean of 200,000.",
    )
    scale: PositiveFloat = field(
        1.0,
        changes="weights training scores",
        description="The unit in which the model learns, such as the standard deviation of the "
        "label. The loss compares (prediction - center) / scale and (label - center) / scale. "
        "Predictions and all other metrics have the unit of the label.",
    )
    loss: loss_of(*_NUMBER_LOSSES) = field(  # type: ignore[valid-type]
        losses.Squared.default(),
        changes="training scores",
        description="The loss of a row. The default is `squared`.",
    )
    metrics: _ErrorMetrics = _error_metrics()  # type: ignore[valid-type]

    always = kinds.OF_ERRORS
    judged_by = (kinds.MEAN_ABSOLUTE_ERROR, kinds.MEAN_SQUARED_ERROR)
    main = plain(kinds.MEAN_SQUARED_ERROR, kinds.MEAN_ABSOLUTE_ERROR)

    @property
    def unit(self) -> float:
        return self.scale

    answer = Answer("predictions")
    normal_errors = True


class PoissonRegression(StepEntry):
    """A count or a rate, 0 or more. The one logit is the logarithm of the predicted rate."""

    head: Literal["poisson"] = field(
        changes="weights outputs training scores",
        description="A count or a rate, 0 or more. The logit is the logarithm of the rate.",
    )
    loss: loss_of(Poisson) = field(  # type: ignore[valid-type]
        Poisson.default(), changes="training scores", description="The loss of a row: `poisson`."
    )
    metrics: _ErrorMetrics = _error_metrics()  # type: ignore[valid-type]

    always = kinds.OF_ERRORS
    judged_by = (
        kinds.MEAN_ABSOLUTE_ERROR,
        kinds.MEAN_SQUARED_ERROR,
        kinds.CALIBRATION,
    )
    main = plain(kinds.MEAN_SQUARED_ERROR, kinds.MEAN_ABSOLUTE_ERROR)
    answer = Answer("predictions")
    label_range: ClassVar[Range] = (0, None)


class LogisticRegression(StepEntry):
    """A number from 0 to 1, such as a rate. The sigmoid of the one logit is the prediction."""

    head: Literal["logistic_regression"] = field(
        changes="weights outputs training scores",
        description="A number from 0 to 1. The sigmoid of the one logit is the prediction.",
    )
    loss: loss_of(  # type: ignore[valid-type]
        losses.SigmoidCrossEntropy, losses.Focal, losses.LogLoss, losses.Squared, losses.Absolute
    ) = field(
        losses.SigmoidCrossEntropy.default(),
        changes="training scores",
        description="The loss of a row. The default is `sigmoid_cross_entropy`.",
    )
    metrics: _ErrorMetrics = _error_metrics()  # type: ignore[valid-type]

    always = kinds.OF_ERRORS
    judged_by = (kinds.LOG_LOSS, kinds.CALIBRATION)
    main = plain(kinds.MEAN_SQUARED_ERROR, kinds.MEAN_ABSOLUTE_ERROR)
    answer = Answer("logits")
    label_range: ClassVar[Range] = (0, 1)


class ZeroInflatedLognormal(HeadEntry):
    """A value of 0 or more that is often 0, such as what a customer will spend. Three logits.

    The logits stand for the probability of a value above 0, and for the mean and the standard
    deviation of its logarithm. The prediction is the expected value.
    """

    head: Literal["ziln"] = field(
        changes="weights outputs training scores",
        description="A value that is often 0 and otherwise has a long tail, from three logits: the "
        "probability that it is above 0, and the mean and the standard deviation of its logarithm.",
    )
    metrics: _ErrorMetrics = _error_metrics()  # type: ignore[valid-type]

    always = kinds.OF_ERRORS
    judged_by = (
        kinds.MEAN_ABSOLUTE_ERROR,
        kinds.MEAN_SQUARED_ERROR,
        kinds.CALIBRATION,
    )
    main = plain(kinds.MEAN_SQUARED_ERROR, kinds.MEAN_ABSOLUTE_ERROR)
    answer = Answer("predictions")
    label_range: ClassVar[Range] = (0, None)

    def negative_loss(self, objective: str) -> Optional[str]:
        return f"{may_be_negative(objective)} Use pcgrad or weights."

    @property
    def logits_dimension(self) -> int:
        return 3


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

    always = (kinds.LOSS, kinds.WEIGHT_SUM, kinds.LABEL_MEAN, kinds.COVERAGE)
    normal_errors = True

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


class CosineDistance(StepEntry):
    """The direction of a vector, from one logit per number of the vector."""

    head: Literal["cosine"] = field(
        changes="weights outputs training scores",
        description="The direction of a vector, from one logit per number of the vector.",
    )
    dimension: Annotated[int, Field(ge=2, le=2**31)] = field(
        changes="weights outputs",
        description="The length of the vector, 2 or more. The label has the shape `[dimension]`.",
    )
    loss: loss_of(Cosine) = field(  # type: ignore[valid-type]
        Cosine.default(), changes="training scores", description="The loss of a row: `cosine`."
    )

    always = (kinds.LOSS, kinds.WEIGHT_SUM, COSINE_SIMILARITY)
    normal_errors = True

    @property
    def logits_dimension(self) -> int:
        return self.dimension

    def logit_names(self, words: Optional[Sequence[str]]) -> tuple[Any, ...]:
        return tuple(f"{i} of {self.dimension}" for i in range(self.logits_in_row))

    @property
    def width(self) -> int:
        return self.dimension
