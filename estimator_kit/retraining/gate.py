"""The gate decides whether a candidate goes live. It reports every condition with its value.

Candidate and live model are scored on the same rows. `judge` uses neither TensorFlow nor the disk.
It takes arrays, so tests can compute its results by hand. `gate_stage` provides the arrays.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Optional

import numpy as np
import pydantic
from numpy.typing import NDArray

from estimator_kit.model.heads import row_metric, row_metrics
from estimator_kit.retraining import shadow as shadows
from estimator_kit.retraining.shadow import Shadow
from estimator_kit.scoring import slices
from feature_specs.errors import counted
from feature_specs.files import documents
from feature_specs.heads import METRICS
from feature_specs.sections.retraining import MODEL_METRICS, Condition, Gate

OTHER_OBJECTIVE = (
    "the live model does not predict this objective, or has another head or label, or other "
    "classes or boundaries"
)


@dataclasses.dataclass(frozen=True)
class Scored:
    """The labels, weights and predictions of one objective.

    Attributes:
      head: the head of the objective.
      labels, weights: [rows]. Labels of the head `survival`: [rows, 2].
      candidate: the candidate's outputs as `row_metric` takes them, [rows] or [rows, n].
      live: the live model's outputs, with the same shape, or None.
      why_no_live: the note in the report if `live` is missing.
    """

    head: str
    labels: NDArray[Any]
    weights: NDArray[Any]
    candidate: NDArray[Any]
    live: Optional[NDArray[Any]] = None
    why_no_live: str = "no model is live yet"


class Finding(documents.Part):
    """The result of one condition, or of one of its slices.

    Attributes:
      text: the condition, for example `auc/click max_loss 0.005`.
      slice: for example `user_country=DE`; empty for all rows.
      rows: the number of rows.
      passed: whether the condition is met; None if it was not judged.
      value, live: the metric of the candidate and of the live model.
      low, high: the interval of candidate - live, in the unit of the metric. For `calibration` it
        is the interval of the distance from 1.
      note: an explanation.
      compares: whether the condition compares all rows with the live model.
    """

    text: str
    passed: Optional[bool]
    value: Optional[float] = None
    slice: str = ""
    rows: Optional[int] = None
    live: Optional[float] = None
    low: Optional[float] = None
    high: Optional[float] = None
    note: str = ""
    compares: bool = False

    @property
    def change(self) -> str:
        """What `low` and `high` bound, for a reader."""
        of_calibration = self.text.startswith("calibration/")
        return "difference of abs(log)" if of_calibration else "difference"

    @property
    def sentence(self) -> str:
        """The finding as a sentence for the report."""
        verdict = {True: "passed", False: "REFUSED", None: "not judged"}[self.passed]
        where = f" ({self.slice})" if self.slice else ""
        if self.slice and self.rows is not None:
            where = f" ({self.slice}, {self.rows:,} rows)"
        value = "" if self.value is None else f": {self.value:.6g}"
        live = "" if self.live is None else f", live {self.live:.6g}"
        interval = (
            "" if self.low is None else f", {self.change} {self.low:+.4g} to {self.high:+.4g}"
        )
        return f"{verdict}: {self.text}{where}{value}{live}{interval}" + (
            f"; {self.note}" if self.note else ""
        )

    @pydantic.model_serializer
    def _all_fields(self) -> dict[str, Any]:
        """A file has all fields, and the sentence."""
        return {**dict(self), "sentence": self.sentence}


def judge(
    gate: Gate,
    scored: Mapping[str, Scored],
    features: Mapping[str, NDArray[Any]],
    measured: Mapping[str, float],
    shadow: Optional[Shadow] = None,
) -> list[Finding]:
    """Returns all findings, in the order of the conditions. Slices with more rows come first.

    Before them comes a refusal for each objective with candidate predictions that are NaN or
    infinite, whatever the conditions are: such a model never goes live. If predictions of the live
    model are NaN or infinite, differences are not judged.

    Args:
      gate: the conditions.
      scored: the rows and predictions by objective.
      features: the values [rows] of the features for slices and groups.
      measured: `size_mib` and `latency_ms` of the candidate.
      shadow: the answers to logged requests; None if no model is live.
    """
    broken = {name: row_metrics.not_finite(rows.candidate) for name, rows in scored.items()}
    return [
        *(
            Finding(
                text=f"predictions/{name} finite",
                passed=False,
                rows=len(scored[name].labels),
                note=f"{count:,} rows have a prediction that is NaN or infinite",
            )
            for name, count in broken.items()
            if count
        ),
        *(
            finding
            for condition in gate.conditions or ()
            for finding in (
                _of_requests(condition, shadow)
                if condition.of_requests
                else _findings(gate, condition, scored, features, measured)
            )
        ),
    ]


def passed(findings: list[Finding]) -> bool:
    """Whether the candidate goes live."""
    return not any(finding.passed is False for finding in findings)


def unjudged(gate: Gate, findings: list[Finding]) -> list[Finding]:
    """A refusal if the gate asks for comparisons with a live model, but could make none of them.

    Args:
      gate: the conditions; nothing is refused with `promote_unjudged`.
      findings: the findings of `judge`, with a live model.
    """
    compared = [finding for finding in findings if finding.compares]
    if gate.promote_unjudged or not compared or any(f.passed is not None for f in compared):
        return []
    note = (
        f"{compared[0].note}. Look at the metrics of the candidate in the report. To promote it, "
        "set promote_unjudged: true in the gate for one cycle."
    )
    return [Finding(text="a comparison with the live model", passed=False, note=note)]


def _findings(
    gate: Gate,
    condition: Condition,
    scored: Mapping[str, Scored],
    features: Mapping[str, NDArray[Any]],
    measured: Mapping[str, float],
) -> Iterator[Finding]:
    if condition.metric in MODEL_METRICS:
        yield from _bounds(condition, measured[condition.metric], "", None)
        return
    name, _, objective = condition.metric.partition("/")
    rows = scored[objective]
    groups = None
    if gate.bootstrap.group_by is not None:
        groups = np.unique(features[gate.bootstrap.group_by], return_inverse=True)[1].reshape(-1)
    if condition.slice is None:
        yield from _of_rows(gate, condition, name, rows, groups, "", None)
        return
    values, index = np.unique(features[condition.slice], return_inverse=True)
    index, small = index.reshape(-1), 0
    # A row without weight says nothing, so it does not count.
    counts = np.bincount(index[rows.weights > 0], minlength=len(values))
    for i in np.argsort(-counts, kind="stable"):
        if counts[i] < condition.min_rows:
            small += 1
            continue
        value = values[i].decode(errors="replace") if isinstance(values[i], bytes) else values[i]
        yield from _of_rows(
            gate, condition, name, rows, groups, f"{condition.slice}={value}", index == i
        )
    if small:
        yield Finding(
            text=_text(condition),
            passed=None,
            slice=condition.slice,
            note=f"{counted(small, 'value')} with fewer than {condition.min_rows} rows",
        )


def _of_requests(condition: Condition, shadow: Optional[Shadow]) -> Iterator[Finding]:
    """The findings about answers to logged requests. What cannot be measured is a refusal."""
    name, _, objective = condition.metric.partition("/")
    finding = functools.partial(Finding, text=_text(condition))
    if shadow is None:
        yield finding(passed=None, note="no model is live yet")
        return
    if shadow.problem is not None:
        yield finding(passed=False, note=shadow.problem)
        return
    if objective not in shadow.live:
        yield finding(passed=None, note=OTHER_OBJECTIVE, compares=True)
        return
    for whose, answers in (("candidate", shadow.candidate), ("live model", shadow.live)):
        broken = row_metrics.not_finite(answers[objective])
        if broken:
            note = f"the {whose}'s answers to {broken:,} logged rows are NaN or infinite"
            yield finding(passed=False, note=note)
            return
    value, rows = shadows.measure(name, objective, shadow)
    if rows < condition.min_rows:
        note = f"expected at least {condition.min_rows:,} rows (min_rows) that count: {shadow.note}"
        yield finding(passed=False, rows=rows, note=note)
        return
    for bound in _bounds(condition, value, "", rows):
        yield bound.model_copy(update={"note": shadow.note})


def _of_rows(
    gate: Gate,
    condition: Condition,
    name: str,
    rows: Scored,
    groups: Optional[NDArray[Any]],
    where: str,
    mask: Optional[NDArray[Any]],
) -> Iterator[Finding]:
    if mask is not None:
        rows = Scored(
            rows.head,
            rows.labels[mask],
            rows.weights[mask],
            rows.candidate[mask],
            None if rows.live is None else rows.live[mask],
            rows.why_no_live,
        )
        if groups is not None:
            groups = np.unique(groups[mask], return_inverse=True)[1].reshape(-1)
    count = len(rows.labels)
    finding = functools.partial(Finding, slice=where, rows=count)
    broken = row_metrics.not_finite(rows.candidate)
    if broken:
        note = f"{broken:,} rows have a prediction that is NaN or infinite"
        yield finding(text=_text(condition), passed=False, note=note)
        return
    candidate = row_metric(name, rows.head, rows.labels, rows.candidate, rows.weights)
    value = candidate.value()
    yield from _bounds(condition, value, where, count)
    if condition.max_loss is None:
        return
    text = _text(condition, "max_loss")
    finding = functools.partial(finding, compares=not where)
    if rows.live is None:
        yield finding(text=text, passed=None, value=value, note=rows.why_no_live)
        return
    broken = row_metrics.not_finite(rows.live)
    if broken:
        note = f"the live model's prediction of {broken:,} rows is NaN or infinite"
        yield finding(text=text, passed=None, value=value, note=note)
        return
    live = row_metric(name, rows.head, rows.labels, rows.live, rows.weights)
    before = live.value()
    if math.isnan(value) or math.isnan(before):
        undefined = _undefined(text, where, count, value, before)
        yield undefined.model_copy(update={"compares": not where})
        return

    def worse(metric: Any) -> Callable[[Any], Any]:
        return lambda counts: row_metrics.badness(name, metric.value(counts))

    options = gate.bootstrap
    loss = slices.difference(
        worse(candidate),
        worse(live),
        rows=count,
        groups=groups,
        samples=options.samples,
        confidence=options.confidence,
        seed=options.seed,
    )
    # `loss` is larger for a worse candidate, but the report shows candidate - live.
    down = METRICS[name].better == "max"
    low, high = (-loss.high, -loss.low) if down else (loss.low, loss.high)
    limit = loss.high if condition.by == "interval" else loss.estimate
    if math.isnan(limit):
        note = "the metric is undefined in too many bootstrap samples, so it has no interval"
        passed = None if where else False
        yield finding(text=text, passed=passed, value=value, live=before, note=note)
        return
    yield finding(
        text=text,
        passed=bool(limit <= condition.loss_allowed(before)),
        value=value,
        live=before,
        low=None if math.isnan(low) else low,
        high=None if math.isnan(high) else high,
    )


def _bounds(
    condition: Condition, value: float, where: str, rows: Optional[int]
) -> Iterator[Finding]:
    for key, bound in (("min", condition.min), ("max", condition.max)):
        if bound is None:
            continue
        text = _text(condition, key)
        if math.isnan(value):
            yield _undefined(text, where, rows, value, None)
            continue
        good = value >= bound if key == "min" else value <= bound
        yield Finding(text=text, passed=bool(good), value=value, slice=where, rows=rows)


def _undefined(
    text: str, where: str, rows: Optional[int], value: float, live: Optional[float]
) -> Finding:
    """The finding for an undefined metric: a refusal, but for a slice it is not judged.

    A slice may be undefined for reasons that have nothing to do with the model, for example because
    it has no positive row.
    """
    whose = "" if live is None else " of the live model" if not math.isnan(value) else ""
    return Finding(
        text=text,
        passed=None if where else False,
        slice=where,
        rows=rows,
        note=f"the metric{whose} is undefined: the evaluation has no rows for it",
    )


def _text(condition: Condition, key: Optional[str] = None) -> str:
    bounded = [k for k in ("min", "max", "max_loss") if getattr(condition, k) is not None]
    keys = [key] if key else bounded
    bounds = ((key, getattr(condition, key)) for key in keys)
    texts = (f"{key} {bound if isinstance(bound, str) else f'{bound:g}'}" for key, bound in bounds)
    return " ".join([condition.metric, *texts])
