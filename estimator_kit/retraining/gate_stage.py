"""The stage that scores candidate and live model on the same rows, and applies the gate.

It scores the SavedModels, which are what a server would load. It also
measures the intervals of the metrics of both models, for the history page: how much each value
itself would vary on other rows of the same periods. The gate needs the interval of their difference
alone (`gate`).
"""

from __future__ import annotations

import contextlib
import math
import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Optional

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray
from pydantic import Field

from estimator_kit import tensorflow_errors
from estimator_kit.client.tensors import DEFAULT_SIGNATURE
from estimator_kit.errors import ConfigError
from estimator_kit.exporters import skew
from estimator_kit.model.heads import row_metric, row_metrics
from estimator_kit.model.names import PREDICT_EXAMPLES
from estimator_kit.retraining import default_gate, gate, shadow_requests
from estimator_kit.retraining.cycle_files import StageFile
from estimator_kit.retraining.gate import Scored
from estimator_kit.retraining.promotion import Verify, Version
from estimator_kit.retraining.shadow_requests import Asked, no_requests
from estimator_kit.scoring import slices
from estimator_kit.scoring.eval_rows import EvalRows, first_records
from estimator_kit.serving.loaded_model import LoadedModel
from feature_specs.files import documents
from feature_specs.sections.retraining import MODEL_METRICS, SHADOW_METRICS, Gate
from feature_specs.spec import FeatureSpec
from input_pipelines.transform.serving_inputs import EXAMPLES

# Enough to draw an interval. The gate may draw more.
_SAMPLES = 100

Interval = tuple[float, float]


def metric_intervals(
    gate: Gate, scored: Mapping[str, Scored], features: Mapping[str, NDArray[Any]]
) -> dict[str, dict[str, Interval]]:
    """`{"auc/click": {"candidate": (low, high), "live": (low, high)}}`, for metrics in conditions.

    An interval that is undefined is left out.

    Args:
      gate: the conditions, and the options of the bootstrap.
      scored: the rows and predictions by objective.
      features: the values [rows] of the feature for groups.
    """
    options = gate.bootstrap
    groups = None
    if options.group_by is not None:
        groups = np.unique(features[options.group_by], return_inverse=True)[1].reshape(-1)
    metrics = dict.fromkeys(condition.metric for condition in gate.conditions or ())
    intervals: dict[str, dict[str, Interval]] = {}
    for metric in metrics:
        name, _, objective = metric.partition("/")
        if metric in MODEL_METRICS or name in SHADOW_METRICS:
            continue
        rows = scored[objective]
        for whose, predictions in (("candidate", rows.candidate), ("live", rows.live)):
            if predictions is None or row_metrics.not_finite(predictions):
                continue
            interval = slices.difference(
                row_metric(name, rows.head, rows.labels, predictions, rows.weights).value,
                lambda counts: 0.0,
                rows=len(rows.labels),
                groups=groups,
                samples=min(options.samples, _SAMPLES),
                confidence=options.confidence,
                seed=options.seed,
            )
            if not math.isnan(interval.low):
                intervals.setdefault(metric, {})[whose] = (interval.low, interval.high)
    return intervals


Answers = dict[str, NDArray[Any]]

# The number of requests of one record: first without timing, then with timing.
_WARM_UP, _TIMED = 5, 50

# The number of records in the request that a staged model must answer.
_ASKED = 8


class Both(documents.Part):
    """A metric of the candidate, and of the live model if there is one."""

    candidate: Optional[float]
    live: Optional[float] = None


class Judged(StageFile):
    """What the gate found.

    Attributes:
      candidate: its SavedModel.
      live_version, live_token, live_cycle: the version that it was compared with; see `Version`.
      rows: the number of evaluation rows.
      metrics: every metric that a condition can use.
      measured: `size_mib`, and `latency_ms` and distances of answers to logged requests if a
        condition uses them.
      label_means: the mean label of each objective that has one number as its label.
    """

    NAME = "gate.json"
    passed: bool
    candidate: str
    live_version: Optional[int]
    live_token: Optional[str] = None
    live_cycle: Optional[str] = None
    rows: int
    findings: list[gate.Finding] = Field([])
    metrics: dict[str, Both] = Field({})
    measured: dict[str, Optional[float]] = Field({})
    intervals: dict[str, dict[str, Interval]] = Field({})
    label_means: dict[str, Optional[float]] = Field({})


def run(
    spec: FeatureSpec,
    export: str,
    live: Optional[Version],
    paths: list[str],
    *,
    batch_size: int,
    known_periods: Sequence[str] = (),
    calibrated: bool = True,
    newest_requests: Callable[[int], Asked] = no_requests,
) -> tuple[Judged, Answers]:
    """Scores both models and judges the candidate.

    Args:
      spec: the spec of the cycle, with the conditions.
      export: the candidate's SavedModel.
      live: the version that is served.
      paths: the evaluation files.
      batch_size: how many rows are scored at a time.
      known_periods: the evaluation periods up to the newest on which the live model, or the model
        that the training started from, was trained. If there are any, the gate refuses, because the
        comparison would not tell how the models do on new rows.
      calibrated: `ModelFn.calibrated` of the model.
      newest_requests: reads this many of the newest logged requests.

    Returns:
      What the gate found, and the candidate's answers to the first records, for `verify`.
    """
    section = default_gate.gate_of(spec, calibrated=calibrated)
    conditions = section.conditions or ()
    features = {c.slice for c in conditions} | {section.bootstrap.group_by}
    wanted = sorted(name for name in features if name is not None)
    rows = EvalRows(spec, paths, features=wanted, batch_size=batch_size)
    objectives = [name for name, entry in spec.objectives.items() if entry.judged]
    asked = {c.metric for c in conditions}
    of_requests = dict.fromkeys(
        c.metric.partition("/")[2] for c in conditions if c.of_requests and live is not None
    )
    shadow = None
    measured = {"size_mib": _size_mib(export)}
    with contextlib.closing(_load(export)) as model:
        candidate = rows.predictions(export, objectives, model=model)
        if MODEL_METRICS[1] in asked:
            measured["latency_ms"] = _latency_ms(model, first_records(spec, paths, 1))
        answers = _ask(model, first_records(spec, paths, _ASKED))
        if live is not None and of_requests:
            shadow = shadow_requests.compared(
                spec,
                newest_requests(section.shadow.requests),
                candidate=export,
                live=live.path,
                objectives=[*of_requests],
                batch_size=batch_size,
                model=model,
            )
    before: dict[str, NDArray[Any]] = {}
    why_no_live = "no model is live yet"
    if live is not None:
        before, why_no_live = _before(rows, live, objectives)
        before = {k: v for k, v in before.items() if v.shape == candidate[k].shape}
    scored = {
        name: Scored(
            spec.objectives[name].head,
            rows.labels(name),
            rows.weights(name),
            candidate[name],
            before.get(name),
            why_no_live,
        )
        for name in objectives
    }
    values = {name: rows.values(name) for name in wanted}
    findings = gate.judge(section, scored, values, measured, shadow)
    if live is not None:
        findings += gate.unjudged(section, findings)
    if known_periods:
        note = (
            "the live model, or the model that training started from, was trained on "
            f"{', '.join(known_periods)} or later periods. Wait for a new one."
        )
        new_periods = "evaluation on periods that no model was trained on"
        findings.append(gate.Finding(text=new_periods, passed=False, note=note))
    judged = Judged(
        passed=gate.passed(findings),
        candidate=export,
        live_version=live.number if live is not None else None,
        live_token=live.token if live is not None else None,
        live_cycle=live.cycle if live is not None else None,
        rows=len(rows),
        findings=findings,
        metrics=_metrics(spec, scored),
        measured={**measured, **_of_shadow(findings)},
        intervals=metric_intervals(section, scored, values),
        label_means={name: _mean(labeled_rows) for name, labeled_rows in scored.items()},
    )
    return judged, answers


def _before(
    rows: EvalRows, live: Version, objectives: list[str]
) -> tuple[dict[str, NDArray[Any]], str]:
    """The predictions of the live model, and why an objective has none."""
    try:
        found = rows.predictions(live.path, objectives, all_of_them=False)
        return found, gate.OTHER_OBJECTIVE
    except tf.errors.InvalidArgumentError as error:
        # The candidate has read the same rows, so they are good records of the present spec.
        why = tensorflow_errors.reason(error)
        return {}, f"the live model, version {live.number}, cannot read the evaluation rows: {why}"


def _of_shadow(findings: list[gate.Finding]) -> dict[str, Optional[float]]:
    """The distances of answers to logged requests, by metric and objective."""
    named = {finding.text.partition(" ")[0]: finding.value for finding in findings}
    return {name: v for name, v in named.items() if name.partition("/")[0] in SHADOW_METRICS}


def _mean(rows: Scored) -> Optional[float]:
    """The mean label of an objective that has one number as its label."""
    total = float(np.sum(rows.weights))
    if not total or rows.labels.ndim != 1:
        return None
    return float(np.sum(rows.labels * rows.weights) / total)


def _metrics(spec: FeatureSpec, scored: dict[str, Scored]) -> dict[str, Both]:
    """Every metric that a condition can use, by its name with the objective."""
    metrics: dict[str, Both] = {}
    for objective, rows in scored.items():
        for name in (kind.name for kind in spec.objectives[objective].judged_by):
            entry: dict[str, Optional[float]] = {}
            for whose, predictions in (("candidate", rows.candidate), ("live", rows.live)):
                if predictions is not None:
                    weighted = (rows.labels, predictions, rows.weights)
                    entry[whose] = row_metric(name, rows.head, *weighted).value()
            metrics[f"{name}/{objective}"] = Both(**entry)
    return metrics


def verify(
    spec: FeatureSpec, export: str, paths: list[str], answers: Optional[Answers] = None
) -> Verify:
    """Makes a check that a staged copy answers a real request as the candidate does.

    Args:
      spec: the spec of the cycle.
      export: the candidate's SavedModel.
      paths: the evaluation files.
      answers: what the candidate answered in `run`. By default, it is loaded and asked again.

    Returns:
      A function of the copy's path. It raises ConfigError if the answers differ.
    """
    records = first_records(spec, paths, _ASKED)
    expected = _answers_of(export, records) if answers is None else answers
    units = skew.units_of(spec)

    def check(path: str) -> None:
        outputs = _answers_of(path, records)
        for name, values in expected.items():
            if name not in outputs:
                raise ConfigError(f"{path}: its answer has no output {name!r}")
            if values.dtype.kind != "f":
                continue
            if not np.all(np.isfinite(outputs[name])):
                raise ConfigError(f"{path}: in a real request, {name} is NaN or infinite")
            close = 1e-6 * skew.unit_of(name, units)
            if not np.allclose(outputs[name], values, rtol=1e-4, atol=close):
                raise ConfigError(f"{path}: in a real request, {name} differs from the candidate's")

    return check


def _load(path: str) -> LoadedModel:
    with tensorflow_errors.as_export_error(f"{path} does not load"):
        return LoadedModel(path, 0)


def _ask(model: LoadedModel, records: NDArray[Any]) -> Answers:
    """The answers to serialized records [rows]."""
    signatures, names = model.signatures, (DEFAULT_SIGNATURE, PREDICT_EXAMPLES)
    usable = [n for n in names if n in signatures and [*signatures[n].inputs] == [EXAMPLES]]
    if not usable:
        raise ConfigError(
            f"{model.path}: expected a signature {' or '.join(names)} that takes serialized "
            f"records as {EXAMPLES!r}, got {', '.join(sorted(signatures))}. Export the model again."
        )
    # The name and the order of `EvalRows.predictions`: the session optimizes the graph for each.
    name = usable[-1] if signatures[usable[0]] == signatures[usable[-1]] else usable[0]
    return model.run(name, {EXAMPLES: records}, sorted(signatures[name].outputs))


def _answers_of(path: str, records: NDArray[Any]) -> Answers:
    with contextlib.closing(_load(path)) as model:
        return _ask(model, records)


def _size_mib(export: str) -> float:
    sizes = (
        os.path.getsize(os.path.join(folder, name))
        for folder, _, names in os.walk(export)
        for name in names
    )
    return sum(sizes) / 2**20


def _latency_ms(model: LoadedModel, record: NDArray[Any]) -> float:
    """The median time of a request of one record, in this process."""
    seconds = []
    for _ in range(_WARM_UP + _TIMED):
        begun = time.perf_counter()
        _ask(model, record)
        seconds.append(time.perf_counter() - begun)
    return 1000 * statistics.median(seconds[_WARM_UP:])
