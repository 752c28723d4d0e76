"""The gate, slices and quality checks of one real model with every head that they have a metric of.

Their numbers equal the numbers of the evaluation, if it has them.
"""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import feature_specs
from estimator_kit.errors import ConfigError
from estimator_kit.exporters import comparison, saved_model
from estimator_kit.model.names import read_metrics
from estimator_kit.models import MODELS
from estimator_kit.retraining import gate_stage
from estimator_kit.retraining.promotion import Version
from estimator_kit.scoring import importance, measured, slices
from estimator_kit.scoring.eval_rows import EvalRows
from feature_specs import SpecError
from feature_specs.heads import HEADS
from input_pipelines.record_files import writing
from tests.conformance import table
from tests.estimator_kit.small_training import batch_of

JUDGED = {name: name for name, head in HEADS.items() if head.answer is not None}
# Metrics of the gate by the name that they have in an evaluation.
EVALUATED = {
    "log_loss/binary": "loss/binary",
    "log_loss/logistic_regression": "loss/logistic_regression",
    "log_loss/multi_class": "loss/multi_class",
    "log_loss/ordinal": "loss/ordinal",
    "log_loss/survival": "loss/survival",
}
NOT_EVALUATED = ["calibration/logistic_regression", "calibration/poisson", "calibration/ziln"]


def document(heads, conditions=()):
    return {
        **table.document(heads, ("wide",)),
        "retraining": {"gate": {"bootstrap": {"samples": 20}, "conditions": list(conditions)}},
    }


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """(spec, rows, path of the records, export, metrics of the evaluation)."""
    folder = tmp_path_factory.mktemp("judged")
    metrics = [
        f"{name}/{head}" for head in JUDGED for name in (k.name for k in HEADS[head].judged_by)
    ]
    conditions = [{"metric": metric, "max_loss": 0.0} for metric in metrics]
    conditions.append(
        {"metric": "concordance/survival", "max_loss": 0.1, "slice": "city", "min_rows": 50}
    )
    spec = feature_specs.parse(document(JUDGED, conditions))
    rows = table.make_rows(240, JUDGED)
    trained = tf.estimator.Estimator(
        MODELS["linear"](spec, {}),
        config=tf.estimator.RunConfig(
            model_dir=str(folder / "model"), tf_random_seed=1,
            save_summary_steps=None, log_step_count_steps=None,
        ),
    )  # fmt: skip
    trained.train(batch_of(spec, rows), steps=5)
    evaluated = read_metrics(trained.evaluate(batch_of(spec, rows), steps=1))
    path = str(folder / "rows.tfrecord")
    writing.write_examples(path, rows)
    export = saved_model.export_saved_model(trained, spec, str(folder / "export"))
    return spec, rows, path, export, evaluated


def test_the_gate_judges_every_head_by_the_numbers_of_the_evaluation(model):
    spec, _, path, export, evaluated = model
    live = Version(number=3, path=export, cycle="0002")
    found, _ = gate_stage.run(spec, export, live, [path], batch_size=100)
    assert found.passed
    assert all(finding.passed for finding in found.findings)
    assert {f.slice for f in found.findings} == {"", "city=rome", "city=oslo", "city=lima"}
    assert {tuple(i) for i in found.intervals.values()} == {("candidate", "live")}
    for metric, values in found.metrics.items():
        assert values.candidate == values.live is not None
        if metric not in NOT_EVALUATED:
            expected = evaluated[EVALUATED.get(metric, metric)]
            of_order = metric.startswith(("auc", "concordance"))
            limit = 1e-9 if of_order else 1e-5  # Others are sums of float32 numbers.
            assert values.candidate == pytest.approx(expected, rel=limit), metric


def test_slices_and_importance_have_every_head(model):
    spec, rows, path, export, _ = model
    read = EvalRows(spec, [path], features=["city"], batch_size=100)
    predicted = read.predictions(export, measured.judged(spec))
    found = slices.slices(spec, read, predicted, ["city"]).objectives
    assert set(found) == set(JUDGED)
    for name, of_head in found.items():
        assert len(of_head.slices) == 3, name
        assert all(np.isfinite(part.metric) for part in of_head.slices)
    errors = np.abs(
        predicted["ordinal"].argmax(axis=1) - np.array([row["ordinal"] for row in rows])
    )
    rome = np.array([row["city"] == "rome" for row in rows])
    (part,) = (p for p in found["ordinal"].slices if p.value == "rome")
    assert part.metric == pytest.approx(errors[rome].mean())
    ask = measured.asker(spec, export, measured.judged(spec), 100)
    worth = importance.importance(spec, ask, measured.records(spec, [path]), repeats=2)
    assert worth.metrics == {head: HEADS[head].main[0].name for head in JUDGED}
    assert all(np.isfinite(each.mean) for each in worth.features["city"].values())


@pytest.mark.nightly
def test_a_transformed_export_is_compared_by_every_head(model):
    spec, _, path, export, evaluated = model
    records = measured.records(spec, [path])
    outputs = tf.saved_model.load(export).signatures["predict_examples"](
        examples=tf.constant(records)
    )
    answers = {name: value.numpy() for name, value in outputs.items()}
    found = comparison.metrics_of(spec, records, answers)
    for name, metrics in found.items():
        assert metrics["loss"] == pytest.approx(evaluated[f"loss/{name}"], rel=1e-5), name
    lines = comparison.check(spec, records, answers, answers, limit=0.0)
    assert len(lines) == len(JUDGED)


OTHERS = [head for head in HEADS if head not in JUDGED and head != "next_item"]


@pytest.mark.parametrize("head", OTHERS)
def test_heads_without_a_metric_of_rows_are_refused(head):
    with pytest.raises(SpecError) as error:
        feature_specs.parse(document({"y": head}, [{"metric": "loss/y", "min": 0}]))
    assert f"the gate has no metric of the head {head} yet" in str(error.value)
    spec = feature_specs.parse(document({"y": head}))
    measured.check(spec, by=(), with_importance=False)
    for asked in ({"by": ["city"], "with_importance": True}, {"by": [], "with_importance": True}):
        flag = "--slices" if asked["by"] else "--importance"
        with pytest.raises(ConfigError) as error:
            measured.check(spec, **asked)
        assert str(error.value) == (
            f"{flag}: expected an objective with a metric of single rows, got only the heads "
            f"{head}. Remove {flag}, or add an objective with one of the heads "
            f"{', '.join(JUDGED)} without steps."
        )
