"""The section `retraining` of a spec: what a cycle checks, how it starts, when it promotes.

    retraining:
      label_rate:
        click: {min: 0.01, max: 0.2, otherwise: leave_out}
      period_rows: {max_ratio: 5, min_ratio: 0.2, otherwise: stop}  # relative to the median period
      drift: stop                      # the action for a distance over a `stop` threshold; or warn
      vocabularies: append             # new words follow the old ones; or re_rank, or keep
      warm_start: live                 # or last, or none
      warm_start_epochs: 1             # replaces --epochs in a cycle with a warm start
      full_every: 7                    # every seventh cycle starts from scratch
      gate:
        bootstrap: {samples: 500, confidence: 0.95, group_by: user_id}
        conditions:
          - {metric: auc/click, min: 0.7}
          - {metric: auc/click, max_loss: 0.005}
          - {metric: auc/click, max_loss: 0.05, slice: user_country, min_rows: 500}
          - {metric: log_loss/click, max_loss: 2%}
          - {metric: calibration/click, min: 0.9, max: 1.1}
          - {metric: size_mib, max: 500}
          - {metric: shadow_difference/click, max: 0.05}
        shadow: {requests: 1000, top_k: 10}

Without `conditions`, `estimator_kit.retraining.default_gate` chooses them. `gate: off` has none.
`min` and `max` bound the metric of the candidate. `max_loss` is how much worse than the live model
the candidate may be on the same rows: the whole confidence interval of the difference must be above
-max_loss. A percentage is relative to the metric of the live model. With `by: estimate` the
difference itself is compared. A condition with `slice` must hold for each value of the feature that
has at least `min_rows` rows.
A metric of `shadow` is not measured on labels: both models answer the newest logged requests.
`estimator_kit.model.heads.row_metrics` defines the metrics. This module only defines the YAML. It
does not import TensorFlow.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Optional, Union

import pydantic
from pydantic import Field

from feature_specs.entry import Declared, Entry, FiniteFloat, PositiveInt, as_tuple, field
from feature_specs.heads import HEADS, MetricKind

Growth = Literal["append", "re_rank", "keep"]
Start = Literal["live", "last", "none"]

# Metrics of a model instead of metrics of rows.
MODEL_METRICS = ("size_mib", "latency_ms")

# How far apart two models answer logged requests: `estimator_kit.retraining.shadow`.
SHADOW_METRICS = ("shadow_difference", "shadow_order", "shadow_top_k")

# The metrics of the gate, by name: the `HeadEntry.judged_by` of all heads.
GATE_METRICS: Mapping[str, MetricKind] = {
    kind.name: kind for head in HEADS.values() for kind in head.judged_by
}


class LabelRate(Entry):
    """Bounds for the mean of a label in each period of the window. Set `min`, `max` or both."""

    min: Optional[FiniteFloat] = Field(None, description="The smallest allowed mean.")
    max: Optional[FiniteFloat] = Field(None, description="The largest allowed mean.")
    otherwise: Literal["stop", "warn", "leave_out"] = Field(
        "stop",
        description="The action for a period outside the bounds: `stop` ends the cycle, `warn` "
        "logs a warning, and `leave_out` removes the period from the window.",
    )

    @pydantic.model_validator(mode="after")
    def _check(self) -> LabelRate:
        if self.min is None and self.max is None:
            raise ValueError("has no bound. Set min or max.")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError(
                f"min must not be greater than max, got min {self.min} and max {self.max}. No "
                "period would pass."
            )
        return self


class PeriodRows(Entry):
    """Bounds for the number of rows of a period, relative to the median period of the window."""

    max_ratio: Annotated[float, Field(gt=1, allow_inf_nan=False)] = Field(
        5.0,
        description="The largest allowed number of rows, as a multiple of the median. A period "
        "with more rows may contain files twice. Greater than 1.",
    )
    min_ratio: Annotated[float, Field(ge=0, lt=1)] = Field(
        0.2,
        description="The smallest allowed number of rows, as a fraction of the median. A period "
        "with fewer rows may lack files. In [0, 1).",
    )
    otherwise: Literal["stop", "warn"] = Field(
        "warn",
        description="The action for a period outside the bounds: `stop` ends the cycle, and `warn` "
        "logs a warning.",
    )


class Bootstrap(Entry):
    """The bootstrap that makes the confidence intervals of differences between two models."""

    samples: Annotated[int, Field(ge=10, le=100_000)] = Field(
        500, description="The number of resamples, 10 to 100,000."
    )
    confidence: Annotated[float, Field(gt=0, lt=1)] = Field(
        0.95, description="The confidence level of the interval, in (0, 1)."
    )
    group_by: Optional[str] = Field(
        None,
        description="A feature whose rows with the same value are drawn together, such as all rows "
        "of a user. By default rows are drawn one by one.",
    )
    seed: int = Field(1, description="The seed of the random draws.")


def _allowed_loss(value: Any) -> Any:
    """A finite number, a text such as `5%`, or None."""
    if value is None:
        return None
    number = value[:-1] if isinstance(value, str) and value.endswith("%") else value
    try:
        allowed = not isinstance(value, bool) and math.isfinite(float(number))
    except (TypeError, ValueError):
        allowed = False
    if not allowed or (isinstance(value, str) and number is value):
        raise ValueError(
            f"got {value!r}, expected a finite number in the unit of the metric, such as 0.01, or "
            "a percentage of the live model's metric, such as 5%"
        )
    return value


AllowedLoss = Annotated[Union[float, str, None], pydantic.BeforeValidator(_allowed_loss)]


class Condition(Entry):
    """One condition of the gate. Set `min`, `max` or `max_loss`."""

    metric: str = Field(
        description="`<metric>/<objective>`, such as `auc/click`; or `size_mib`, the size of the "
        "SavedModel in MiB; or `latency_ms`, the median time of a request with one record in "
        "milliseconds, on the machine that retrains; or `shadow_difference/<objective>`, "
        "`shadow_order/<objective>` or `shadow_top_k/<objective>`, how far the answers to logged "
        "requests are from the live model's answers."
    )
    min: Optional[FiniteFloat] = Field(
        None, description="The smallest allowed metric of the candidate."
    )
    max: Optional[FiniteFloat] = Field(
        None, description="The largest allowed metric of the candidate."
    )
    max_loss: AllowedLoss = Field(
        None,
        description="How much worse than the live model the candidate may be: in the unit of the "
        "metric, or as a percentage of the live model's metric, such as `5%`.",
    )
    by: Literal["interval", "estimate"] = Field(
        "interval",
        description="What is compared with `max_loss`: `interval`, the worst end of the confidence "
        "interval of the difference, or `estimate`, the difference itself.",
    )
    slice: Optional[str] = Field(
        None,
        description="The name of a feature. The condition must hold separately for the rows of "
        "each of its values.",
    )
    min_rows: PositiveInt = Field(
        100,
        description="A slice with fewer rows is not checked. A condition on logged requests is not "
        "met with fewer rows.",
    )

    @pydantic.model_validator(mode="after")
    def _check(self) -> Condition:
        if self.min is None and self.max is None and self.max_loss is None:
            raise ValueError("has no bound. Set min, max or max_loss.")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError(
                f"min must not be greater than max, got min {self.min} and max {self.max}. No "
                "model would pass."
            )
        if self.metric in MODEL_METRICS and (self.max_loss is not None or self.slice is not None):
            raise ValueError(
                f"{self.metric} is a metric of a model, not of rows. Set only min or max, and "
                "remove max_loss and slice."
            )
        if self.of_requests and (self.max_loss is not None or self.slice is not None):
            raise ValueError(
                f"{self.metric} compares two models already, on whole requests. Set only min or "
                "max, and remove max_loss and slice."
            )
        if isinstance(self.max_loss, str) and self.metric.startswith("calibration/"):
            raise ValueError(
                f"max_loss: got {self.max_loss}, expected a number, because the loss of "
                "calibration is a difference of abs(log(calibration)). Write 0.1 for about 10%."
            )
        self._check_range()
        return self

    @property
    def of_requests(self) -> bool:
        """Whether the metric compares answers to logged requests."""
        return self.metric.partition("/")[0] in SHADOW_METRICS

    def loss_allowed(self, live: float) -> float:
        """How much worse the candidate may be, in the unit of the metric. Needs `max_loss`.

        Args:
          live: the metric of the live model.
        """
        if isinstance(self.max_loss, str):
            return float(self.max_loss[:-1]) / 100 * abs(live)
        assert self.max_loss is not None
        return self.max_loss

    def _check_range(self) -> None:
        """Checks that the metric can have the values that the bounds ask for."""
        name = self.metric.partition("/")[0]
        if name in MODEL_METRICS or name == "shadow_difference":
            least, most = 0.0, math.inf
        elif name in SHADOW_METRICS:
            least, most = 0.0, 1.0
        elif name in GATE_METRICS:
            limits = GATE_METRICS[name].range
            assert limits is not None  # Every metric that judges a model has them.
            least, most = limits
        else:
            return  # The check of the whole spec says which metrics exist.
        expected = "at least 0" if most == math.inf else f"between {least:g} and {most:g}"
        for key, bound in (("min", self.min), ("max", self.max)):
            if bound is not None and not least <= bound <= most:
                raise ValueError(
                    f"{key}: {name} is always {expected}, got {bound:g}.{_as_share(bound, most)}"
                )
        # The difference of two models is not larger than the range.
        if isinstance(self.max_loss, float) and abs(self.max_loss) > most - least:
            raise ValueError(
                f"max_loss: {name} is always {expected}, so the loss is at most {most:g}, got "
                f"{self.max_loss:g}.{_as_share(self.max_loss, most)}"
            )


def _as_share(bound: float, most: float) -> str:
    """The remedy for a percentage that should be a share."""
    if most == 1 and 1 < abs(bound) <= 100:
        return f" Write a percentage as a fraction: {bound / 100:g}."
    return " Correct the bound."


class Shadow(Entry):
    """The logged requests that candidate and live model both answer. They need `--request_logs`."""

    requests: PositiveInt = Field(
        1000, description="How many of the newest logged requests both models answer."
    )
    top_k: PositiveInt = Field(
        10,
        description="How many rows with the largest scores `shadow_top_k` compares in a request. "
        "Requests that have no more rows do not count.",
    )


class Gate(Entry):
    """Decides which candidates go live. A candidate must meet all conditions."""

    bootstrap: Bootstrap = Field(
        Bootstrap(), description="How the confidence intervals of differences are made."
    )
    conditions: Annotated[Optional[tuple[Condition, ...]], pydantic.BeforeValidator(as_tuple)] = (
        Field(
            None,
            description="The conditions that a candidate must meet to go live. By default, the "
            "metrics of each objective may not be clearly worse than the live model's.",
        )
    )
    shadow: Shadow = Field(
        Shadow(), description="The logged requests for conditions on `shadow_...` metrics."
    )
    promote_unjudged: bool = Field(
        False,
        description="Whether a candidate goes live if none of its metrics can be compared with the "
        "live model, for example because the live model cannot read the new periods. Set it for "
        "one cycle after you have looked at the report.",
    )


def _off(value: Any) -> Any:
    """The gate without conditions for `gate: off`."""
    if value == "off" or value is False:
        return {"conditions": [], "promote_unjudged": True}
    return value


class Retraining(Declared):
    """What a cycle of `--mode=retrain` checks, how it starts, and when it promotes its model."""

    label_rate: Mapping[str, LabelRate] = field(
        {},
        changes="limits",
        description="The bounds for the mean of each label in each period, by label.",
    )
    period_rows: PeriodRows = field(
        PeriodRows(), changes="limits", description="The bounds for the number of rows of a period."
    )
    drift: Literal["stop", "warn"] = field(
        "stop",
        changes="limits",
        description="The action for a distance above a `stop` threshold of the section `drift`: "
        "`stop` ends the cycle, and `warn` logs a warning.",
    )
    vocabularies: Growth = field(
        "append",
        changes="values",
        description="How the vocabulary files change: `append` adds new words and keeps the ids of "
        "old words, `re_rank` sorts by frequency and drops rare words, and `keep` changes nothing. "
        "With `append`, a training with a warm start keeps the statistics, such as boundaries, of "
        "the model that it starts from. Other trainings take the statistics of their window.",
    )
    warm_start: Start = field(
        "live",
        changes="training",
        description="The model that a training starts from: `live`, the live model, `last`, the "
        "model of the last cycle (promoted or not), or `none`.",
    )
    warm_start_epochs: Optional[PositiveInt] = field(
        None,
        changes="training",
        description="The number of epochs of a training with a warm start. The default is "
        "`--epochs`.",
    )
    full_every: Optional[PositiveInt] = field(
        None,
        changes="training",
        description="Every n-th completed cycle starts from scratch instead of with a warm start. "
        "By default none does.",
    )
    gate: Annotated[
        Gate,
        pydantic.BeforeValidator(_off, json_schema_input_type=Union[Gate, Literal["off", False]]),
    ] = field(
        Gate(),
        changes="limits",
        description="The conditions for a candidate to go live. With `off`, every candidate goes "
        "live whose predictions are finite.",
    )


NO_RETRAINING = Retraining()
