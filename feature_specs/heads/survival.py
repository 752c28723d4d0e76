"""The head `survival`: the time to an event that some rows have not seen yet, such as churn.

    features:
      churned: {dtype: int64}
    labels:
      days: {dtype: float32}
    objectives:
      churn: {head: survival, label: days, event: churned, boundaries: [7, 30, 90]}

The label is the time to the event, or the time that a row was watched without an event. This module
does not import TensorFlow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal, Optional

import pydantic
from pydantic import Field

from feature_specs.entry import PositiveFloat, as_tuple, field
from feature_specs.heads import metrics as kinds
from feature_specs.heads.base import Answer, HeadEntry, LabelPart, Range
from feature_specs.heads.metrics import MetricKind, plain

CONCORDANCE = MetricKind(
    "concordance",
    "The share of pairs of rows whose earlier event has the higher risk (Harrell's index). A pair "
    "has one row with an event in an interval that the other row survived. The risk is the "
    "probability of the event before the last boundary. Equal risks count half.",
    better="max",
    range=(0, 1),
)


class Survival(HeadEntry):
    """The time to an event, from one logit per interval of the time.

    A logit stands for the hazard of its interval: the probability that the event happens in it, if
    it did not happen before. n boundaries make n intervals, from 0 to the last boundary.
    """

    head: Literal["survival"] = field(
        changes="weights outputs training scores",
        description="The time to an event that some rows have not seen yet, from one logit per "
        "interval: the probability that the event happens in it, if it did not happen before.",
    )
    event: str = field(
        changes="values",
        description="The int64 feature or label that says how the time of the label ended: 1 with "
        "the event, 0 without it (the row was not watched for longer, and is censored).",
    )
    boundaries: Annotated[
        tuple[PositiveFloat, ...],
        pydantic.BeforeValidator(as_tuple),
        Field(min_length=1),
    ] = field(
        changes="weights outputs training scores",
        description="The ends of the intervals, strictly increasing, in the unit of the label. The "
        "first interval starts at 0. A time that equals a boundary is in the interval after it. "
        "An event after the last boundary counts as no event.",
    )

    always = (*kinds.MEANS, kinds.CALIBRATION, CONCORDANCE)
    judged_by = (CONCORDANCE, kinds.LOG_LOSS)
    main = plain(CONCORDANCE, kinds.CALIBRATION)
    answer = Answer("logits", wide=True)
    label_range: ClassVar[Range] = (0, None)

    @property
    def logits_dimension(self) -> int:
        return len(self.boundaries)

    def logit_names(self, words: Optional[Sequence[str]]) -> tuple[Any, ...]:
        return tuple(zip((0.0, *self.boundaries), self.boundaries))

    @property
    def label_parts(self) -> tuple[LabelPart, ...]:
        return (LabelPart(("event",), self.event, (0, 1)),)

    @pydantic.model_validator(mode="after")
    def _check(self) -> Survival:
        if any(a >= b for a, b in zip(self.boundaries, self.boundaries[1:])):
            raise ValueError(f"boundaries must be strictly increasing, got {list(self.boundaries)}")
        return self
