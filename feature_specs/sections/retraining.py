"""The section `retraining` of a spec: what a cycle checks, how it starts, when it is promoted.

    retraining:
      label_rate:
        click: {min: 0.01, max: 0.2, otherwise: leave_out_day}
      day_rows: {max_ratio: 5, min_ratio: 0.2, otherwise: stop}     # of the median day
      drift: stop                      # what is over `stop` in the section drift; or warn
      vocabularies: append             # new words behind the old ones; or re_rank, or keep
      warm_start: live                 # or last, or none
      warm_start_epochs: 1             # instead of --epochs, where a model is started from
      full_every: 7                    # each seventh cycle starts from scratch
      gate:
        bootstrap: {samples: 500, confidence: 0.95, group_by: user_id}
        conditions:
          - {metric: auc/click, min: 0.7}
          - {metric: auc/click, max_loss: 0.005}
          - {metric: auc/click, max_loss: 0.05, slice: user_country, min_rows: 500}
          - {metric: calibration/click, min: 0.9, max: 1.1}
          - {metric: size_mib, max: 500}

`min` and `max` are of the candidate alone. `max_loss` is how much worse than the live model it may
be, on the same rows: the whole confidence interval of the difference has to be above -max_loss,
unless `by: estimate` asks for the difference itself. `slice` holds for each value of a feature that
has `min_rows` rows. What a metric is, `estimator_kit.retraining.row_metrics` says; this module
knows the YAML alone. Imports no TensorFlow.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, Optional

import pydantic
from pydantic import Field

from feature_specs.entry import Entry, FiniteFloat, PositiveInt, as_tuple

Growth = Literal["append", "re_rank", "keep"]
Start = Literal["live", "last", "none"]

# Of one model, not of rows.
MODEL_METRICS = ("size_mib", "latency_ms")

# Which metrics of rows an objective of a head has.
ROW_METRICS: Mapping[str, tuple[str, ...]] = {
    "binary": ("auc", "log_loss", "calibration"),
    "logistic_regression": ("log_loss", "calibration"),
    "poisson": ("mean_absolute_error", "mean_squared_error", "calibration"),
    "regression": ("mean_absolute_error", "mean_squared_error"),
    "multi_class": ("accuracy", "log_loss"),
}


class LabelRate(Entry):
    """Bounds for the mean of a label in each day.

    Attributes:
      min, max: the smallest and the largest mean; one of them at least.
      otherwise: `stop` ends the cycle, `warn` reports, `leave_out_day` takes the day out of the
        window.
    """

    min: Optional[FiniteFloat] = None
    max: Optional[FiniteFloat] = None
    otherwise: Literal["stop", "warn", "leave_out_day"] = "stop"

    @pydantic.model_validator(mode="after")
    def _check(self) -> LabelRate:
        if self.min is None and self.max is None:
            raise ValueError("says nothing; give min or max")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError(f"min {self.min} is above max {self.max}: no day would pass")
        return self


class DayRows(Entry):
    """Bounds for the rows of a day, by the median of the days of the window.

    Attributes:
      max_ratio: a day of more rows than so many times the median may have files twice.
      min_ratio: a day of fewer rows than this part of the median may lack some.
      otherwise: `stop` ends the cycle, `warn` reports.
    """

    max_ratio: Annotated[float, Field(gt=1, allow_inf_nan=False)] = 5.0
    min_ratio: Annotated[float, Field(ge=0, lt=1)] = 0.2
    otherwise: Literal["stop", "warn"] = "warn"


class Bootstrap(Entry):
    """How intervals of differences are made.

    Attributes:
      samples: resamples of the rows, or groups.
      confidence: the share of them that the interval holds.
      group_by: a feature whose rows of one value are drawn together, as all rows of a user; rows
        are drawn one by one without it.
      seed: of the draws.
    """

    samples: Annotated[int, Field(ge=10, le=100_000)] = 500
    confidence: Annotated[float, Field(gt=0, lt=1)] = 0.95
    group_by: Optional[str] = None
    seed: int = 1


class Condition(Entry):
    """One condition of the gate.

    Attributes:
      metric: `<metric>/<objective>`, `size_mib` (of the SavedModel) or `latency_ms` (the median of
        requests of one record, on the machine that retrains).
      min, max: bounds for the candidate.
      max_loss: how much worse than the live model the candidate may be.
      by: whether `max_loss` is held against the whole confidence interval, or the difference.
      slice: a feature; the condition then holds for each of its values.
      min_rows: a slice of fewer rows is not judged.
    """

    metric: str
    min: Optional[FiniteFloat] = None
    max: Optional[FiniteFloat] = None
    max_loss: Optional[FiniteFloat] = None
    by: Literal["interval", "estimate"] = "interval"
    slice: Optional[str] = None
    min_rows: PositiveInt = 100

    @pydantic.model_validator(mode="after")
    def _check(self) -> Condition:
        if self.min is None and self.max is None and self.max_loss is None:
            raise ValueError("says nothing; give min, max or max_loss")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError(f"min {self.min} is above max {self.max}: no model would pass")
        if self.metric in MODEL_METRICS and (self.max_loss is not None or self.slice is not None):
            raise ValueError(f"{self.metric} is of one model, not of rows; give min or max alone")
        return self


class Gate(Entry):
    """Which candidates go live: those that meet all conditions.

    Attributes:
      bootstrap: how the intervals of differences are made.
      conditions: what a candidate has to meet.
    """

    bootstrap: Bootstrap = Bootstrap()
    conditions: Annotated[tuple[Condition, ...], pydantic.BeforeValidator(as_tuple)] = ()


class Retraining(Entry):
    """The whole section.

    Attributes:
      label_rate: bounds by label.
      day_rows: bounds for the rows of a day.
      drift: what a distance over `stop` of the section `drift` does.
      vocabularies: `append` keeps the ids of old words, `re_rank` sorts by frequency and drops
        rare words, `keep` leaves the files as they are.
      warm_start: the live model, the last cycle's (promoted or not), or none.
      warm_start_epochs: how often a training that starts from a model reads its window, instead of
        --epochs; as often as one from scratch without it.
      full_every: each so many-th cycle of those that ran to their end starts from scratch; never
        without it.
      gate: which candidates go live.
    """

    label_rate: Mapping[str, LabelRate] = {}
    day_rows: DayRows = DayRows()
    drift: Literal["stop", "warn"] = "stop"
    vocabularies: Growth = "append"
    warm_start: Start = "live"
    warm_start_epochs: Optional[PositiveInt] = None
    full_every: Optional[PositiveInt] = None
    gate: Gate = Gate()


NO_RETRAINING = Retraining()
