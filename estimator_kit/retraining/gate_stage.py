"""The stage that scores candidate and live model on the same rows, and applies the gate.

It scores the SavedModels, which are what a server would load.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import time
from collections.abc import Sequence
from typing import Optional

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray
from pydantic import Field

from estimator_kit.client.signatures import DEFAULT_SIGNATURE
from estimator_kit.errors import ConfigError
from estimator_kit.exporters import loading
from estimator_kit.model.heads import row_metric
from estimator_kit.model.names import PREDICT_EXAMPLES
from estimator_kit.retraining import default_gate, gate, intervals
from estimator_kit.retraining.gate import Scored
from estimator_kit.retraining.intervals import Interval
from estimator_kit.retraining.promotion import Verify, Version
from estimator_kit.retraining.state import StageFile
from estimator_kit.scoring.eval_rows import EvalRows, first_records
from estimator_kit.serving.loaded_model import LoadedModel
from estimator_kit.tensorflow_errors import reason
from feature_specs.files import documents
from feature_specs.sections.retraining import MODEL_METRICS
from feature_specs.spec import FeatureSpec
from input_pipelines.transform.serving_inputs import EXAMPLES

Answers = dict[str, NDArray]

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
      measured: `size_mib`, and `latency_ms` if a condition uses it.
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
    known_days: Sequence[str] = (),
) -> tuple[Judged, Answers]:
    """Scores both models and judges the candidate.

    Args:
      spec: the spec of the cycle, with the conditions.
      export: the candidate's SavedModel.
      live: the version that is served.
      paths: the evaluation files.
      batch_size: how many rows are scored at a time.
      known_days: the evaluation days up to the newest day on which the live model, or the model
        that the training started from, was trained. If there are any, the gate refuses, because the
        comparison would not tell how the models do on new rows.

    Returns:
      What the gate found, and the candidate's answers to the first records, for `verify`.
    """
    section = default_gate.gate_of(spec)
    conditions = section.conditions or ()
    features = {c.slice for c in conditions} | {section.bootstrap.group_by}
    wanted = sorted(name for name in features if name is not None)
    rows = EvalRows(spec, paths, features=wanted, batch_size=batch_size)
    objectives = [name for name, entry in spec.objectives.items() if entry.judged]
    asked = {c.metric for c in conditions}
    measured = {"size_mib": _size_mib(export)}
    with contextlib.closing(_load(export)) as model:
        candidate = rows.predictions(export, objectives, model=model)
        if MODEL_METRICS[1] in asked:
            measured["latency_ms"] = _latency_ms(model, first_records(spec, paths, 1))
        answers = _ask(model, first_records(spec, paths, _ASKED))
    before: dict[str, NDArray] = {}
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
    findings = gate.judge(section, scored, values, measured)
    if live is not None:
        findings += gate.unjudged(section, findings)
    if known_days:
        note = (
            "the live model, or the model that training started from, was trained on "
            f"{', '.join(known_days)} or later days. Wait for a new day."
        )
        new_days = "evaluation on days that no model was trained on"
        findings.append(gate.Finding(text=new_days, passed=False, note=note))
    judged = Judged(
        passed=gate.passed(findings),
        candidate=export,
        live_version=live.number if live is not None else None,
        live_token=live.token if live is not None else None,
        live_cycle=live.cycle if live is not None else None,
        rows=len(rows),
        findings=findings,
        metrics=_metrics(spec, scored),
        measured={**measured},
        intervals=intervals.of_conditions(section, scored, values),
        label_means={name: _mean(found) for name, found in scored.items()},
    )
    return judged, answers


def _before(rows: EvalRows, live: Version, objectives: list[str]) -> tuple[dict[str, NDArray], str]:
    """The predictions of the live model, and why an objective has none."""
    other = (
        "the live model does not predict this objective, or has another head or label, or other "
        "classes or boundaries"
    )
    try:
        return rows.predictions(live.path, objectives, all_of_them=False), other
    except tf.errors.InvalidArgumentError as error:
        # The candidate has read the same rows, so they are good records of the present spec.
        why = reason(error)
        return {}, f"the live model, version {live.number}, cannot read the evaluation rows: {why}"


def _mean(rows: Scored) -> Optional[float]:
    """The mean label of an objective that has one number as its label."""
    total = float(np.sum(rows.weights))
    if not total or rows.labels.ndim != 1:
        return None
    return float(np.sum(rows.labels * rows.weights) / total)


def _metrics(spec: FeatureSpec, scored: dict[str, Scored]) -> dict[str, Both]:
    """Every metric that a condition can use, by its name with the objective."""
    found: dict[str, Both] = {}
    for objective, rows in scored.items():
        for name in (kind.name for kind in spec.objectives[objective].judged_by):
            entry: dict[str, Optional[float]] = {}
            for whose, predictions in (("candidate", rows.candidate), ("live", rows.live)):
                if predictions is not None:
                    weighted = (rows.labels, predictions, rows.weights)
                    entry[whose] = row_metric(name, rows.head, *weighted).value()
            found[f"{name}/{objective}"] = Both(**entry)
    return found


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

    def check(path: str) -> None:
        found = _answers_of(path, records)
        for name, values in expected.items():
            if name not in found:
                raise ConfigError(f"{path}: its answer has no output {name!r}")
            if values.dtype.kind != "f":
                continue
            if not np.all(np.isfinite(found[name])):
                raise ConfigError(f"{path}: in a real request, {name} is NaN or infinite")
            if not np.allclose(found[name], values, rtol=1e-4, atol=1e-6):
                raise ConfigError(f"{path}: in a real request, {name} differs from the candidate's")

    return check


def _load(path: str) -> LoadedModel:
    with loading.as_export_error(f"{path} does not load"):
        return LoadedModel(path, 0, memory_growth=True)


def _ask(model: LoadedModel, records: NDArray) -> Answers:
    """The answers to serialized records [rows]."""
    there, names = model.signatures, (DEFAULT_SIGNATURE, PREDICT_EXAMPLES)
    found = [n for n in names if n in there and [*there[n].inputs] == [EXAMPLES]]
    if not found:
        raise ConfigError(
            f"{model.path}: expected a signature {' or '.join(names)} that takes serialized "
            f"records as {EXAMPLES!r}, got {', '.join(sorted(there))}. Export the model again."
        )
    # The name and the order of `EvalRows.predictions`: the session optimizes the graph for each.
    name = found[-1] if there[found[0]] == there[found[-1]] else found[0]
    return model.run(name, {EXAMPLES: records}, sorted(there[name].outputs))


def _answers_of(path: str, records: NDArray) -> Answers:
    with contextlib.closing(_load(path)) as model:
        return _ask(model, records)


def _size_mib(export: str) -> float:
    sizes = (
        os.path.getsize(os.path.join(folder, name))
        for folder, _, names in os.walk(export)
        for name in names
    )
    return sum(sizes) / 2**20


def _latency_ms(model: LoadedModel, record: NDArray) -> float:
    """The median time of a request of one record, in this process."""
    seconds = []
    for _ in range(_WARM_UP + _TIMED):
        begun = time.perf_counter()
        _ask(model, record)
        seconds.append(time.perf_counter() - begun)
    return 1000 * statistics.median(seconds[_WARM_UP:])
