"""The section `monitoring` of a spec: how logged requests get labels, and when a model is too bad.

    monitoring:
      key: impression_id               # a feature of each request, and of each record with labels
      label_delay: 1d                  # a label counts when the request is this old
      no_label_means: {click: 0}       # a request without a record of labels has not been clicked
      intervals: {samples: 200, group_by: user_id}
      conditions:
        - {metric: auc/click, max_loss: 0.05, periods: 2, then: roll_back}
        - {metric: calibration/click, min: 0.8, max: 1.25, min_rows: 1000, then: roll_back}
        - {metric: auc/click, min: 0.6, slice: country}
        - {metric: drift/price, max: 0.1}
        - {metric: score_drift/click, max: 0.1}
        - {metric: unknown/city, max: 0.05}
        - {metric: missing/city, max: 0.2}
        - {metric: requests, min: 100}

A condition has the fields of a condition of the gate (`retraining`), and two more: `periods` and
`then`. There are two differences. `max_loss` compares with the gate's evaluation of the same model.
And `by: interval` gives the benefit of the doubt to the model that is live: only an interval that
is outside as a whole breaks a condition.

`estimator_kit.monitoring` reads logs and measures. This module only defines the YAML. It does not
import TensorFlow.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, Optional

import pydantic
from pydantic import Field

from feature_specs.durations import duration
from feature_specs.entry import Declared, FiniteFloat, PositiveInt, as_tuple, field
from feature_specs.sections.retraining import (
    GATE_METRICS,
    AllowedLoss,
    Bootstrap,
    Condition,
)

# What `metric` may name in addition to the metrics of rows.
OF_FEATURES = ("drift", "missing", "unknown")
OF_OBJECTIVES = ("score_drift",)
OF_REQUESTS = ("requests", "rows")


def _duration(text: str) -> str:
    duration(text)
    return text


Duration = Annotated[str, pydantic.AfterValidator(_duration)]


class MonitorCondition(Condition):
    """One condition on the version that is live. Set `min`, `max` or `max_loss`."""

    metric: str = Field(
        description="`<metric>/<objective>`, a metric of the gate such as `auc/click`, on the rows "
        "whose labels are in; `score_drift/<objective>`; `drift/<feature>`, `missing/<feature>` or "
        "`unknown/<feature>`; `requests` or `rows`."
    )
    max_loss: AllowedLoss = Field(
        None,
        description="How much worse the metric may be than in the gate's evaluation of the same "
        "model: in the unit of the metric, or as a percentage of it, such as `5%`.",
    )
    by: Literal["interval", "estimate"] = Field(
        "interval",
        description="What is compared with the bounds: `interval`, the better end of the "
        "confidence interval of the metric, or `estimate`, the metric itself. Drift, shares and "
        "counts have no interval.",
    )
    min_rows: PositiveInt = Field(
        100,
        description="A period, or a slice of it, with fewer rows is not judged. For a metric of "
        "the gate, only rows with labels count. `requests` and `rows` are always judged.",
    )
    periods: PositiveInt = Field(
        1,
        description="The condition is broken if this many of the newest judged periods of the "
        "version break it, without one between them that does not.",
    )
    then: Literal["warn", "roll_back"] = Field(
        "warn",
        description="What follows when the condition is broken: `warn` logs a warning. "
        "`roll_back` also ends the command with status 76, or with `--rollback` makes the version "
        "before it live again.",
    )

    @pydantic.model_validator(mode="after")
    def _check_kind(self) -> MonitorCondition:
        if self.of_rows:
            return self
        if self.max_loss is not None or self.slice is not None:
            raise ValueError(
                f"{self.metric} is not measured by the gate. Set only min or max, and remove "
                "max_loss and slice."
            )
        kind = self.metric.partition("/")[0]
        if kind in (*OF_FEATURES, *OF_OBJECTIVES):
            for key, bound in (("min", self.min), ("max", self.max)):
                if bound is not None and not 0 <= bound <= 1:
                    raise ValueError(
                        f"{key}: {kind} is always between 0 and 1, got {bound:g}. Correct the "
                        "bound."
                    )
        return self

    @property
    def of_rows(self) -> bool:
        """Whether the metric is one of the gate, which needs labels."""
        return self.metric.partition("/")[0] in GATE_METRICS


class Monitoring(Declared):
    """What `--mode=monitor` joins with logged requests, and when a live model is too bad."""

    key: Optional[str] = field(
        None,
        changes="nothing",
        description="A feature with one string or integer that identifies a row of a request. "
        "Records of `--label_files` have it, too. Without it, no labels are read.",
    )
    label_delay: Optional[Duration] = field(
        None,
        changes="nothing",
        description="How long after a request its labels are complete, such as `30m`, `12h` or "
        "`1d`. Until then the labels of a row are open, and it counts in no metric, also if a "
        "label is there. Needed with `key`.",
    )
    no_label_means: Mapping[str, FiniteFloat] = field(
        {},
        changes="nothing",
        description="By label, the value of a row for which no label has come when the delay has "
        "passed. By default such a row is left out of the metrics, and counted as missing.",
    )
    intervals: Bootstrap = field(
        Bootstrap(),
        changes="nothing",
        description="How the confidence intervals of metrics are made.",
    )
    conditions: Annotated[tuple[MonitorCondition, ...], pydantic.BeforeValidator(as_tuple)] = field(
        (),
        changes="nothing",
        description="The conditions that the live version must meet.",
    )

    @pydantic.model_validator(mode="after")
    def _check(self) -> Monitoring:
        if (self.key is None) != (self.label_delay is None):
            missing = "label_delay" if self.label_delay is None else "key"
            raise ValueError(f"{missing} is missing. Set key and label_delay, or neither.")
        if self.no_label_means and self.key is None:
            raise ValueError("no_label_means needs key and label_delay. Add them.")
        return self

    @property
    def delay(self) -> int:
        """The delay of labels in seconds."""
        return int(duration(self.label_delay).total_seconds()) if self.label_delay else 0


NO_MONITORING = Monitoring()
