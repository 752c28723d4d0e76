"""The head `ziln`: a value that is often 0 and otherwise has a long tail, such as lifetime value.

    objectives:
      value: {head: ziln}

This module does not import TensorFlow.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from feature_specs.entry import field
from feature_specs.heads.base import HeadEntry, Range
from feature_specs.heads.metric_choices import metrics_of


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
    metrics: metrics_of("mean_relative_error") = field(  # type: ignore[valid-type]
        (),
        changes="nothing",
        description="Metrics in addition to the default metrics: `mean_relative_error`.",
    )

    label_range: ClassVar[Range] = (0, None)

    @property
    def logits_dimension(self) -> int:
        return 3
