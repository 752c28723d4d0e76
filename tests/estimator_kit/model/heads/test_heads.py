"""The other heads than binary, multi_class and regression, compared with TensorFlow's heads."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import tensorflow as tf

import estimator_kit as ek
from estimator_kit.model.heads import base
from estimator_kit.model.heads.class_metrics import words_of_classes
from feature_specs.heads import HEADS
from input_pipelines.integrity import diagnosis
from input_pipelines.record_files import writing
from input_pipelines.transform.transforms import Transform
from tests.conformance.table import HEAD_CASES
from tests.conftest import place
from tests.estimator_kit.model.heads.test_objectives import evaluate, make

RNG = np.random.default_rng(11)
W = RNG.integers(0, 3, 60).astype("f")


def test_a_table_that_lacks_a_name_or_has_another_is_refused():
    table = {"auc": 1, "loss": 2}
    assert base.closed(["loss", "auc"], table) is table
    with pytest.raises(TypeError, match=r"^only the names or only the table have: f1, loss$"):
        base.closed(["auc", "f1"], table)


@pytest.mark.parametrize(
    ("head", "steps"),
    [(h, n) for h in HEADS for n in (None, 3) if n is None or "steps" in HEADS[h].model_fields],
)
def test_an_output_of_every_head_is_its_logits(head, steps):
    case = HEAD_CASES[head]
    label = dict(case.label)
    if steps:
        label["shape"] = [steps, *label.get("shape", ())]
    given = {"steps": steps} if steps else {}
    entry = {"head": head, **case.objective, **given}
    if "group_by" in entry:
        entry["group_by"] = "user"
    objective = make(entry, label)
    logits = np.arange(2.0 * objective.logits_dimension, dtype=np.float32).reshape(2, -1) - 3
    found = objective.predictions(tf.constant(logits))[objective.logits_output]
    np.testing.assert_array_equal(np.reshape(found, (2, -1)), logits)


def theirs(head, logits, labels):
    """Metrics and loss of one of TensorFlow's heads with the weights W."""
    metrics = head.metrics()
    features = {"w": tf.constant(W[:, None])}
    head.update_metrics(metrics, features, tf.constant(logits), tf.constant(labels))
    return {name: float(metric.result()) for name, metric in metrics.items()}


@pytest.mark.parametrize(
    ("entry", "head"),
    [
        ({"head": "poisson", "loss": {"poisson": {"full": True}}},
         lambda: tf.estimator.PoissonRegressionHead(weight_column="w")),
        ({"head": "logistic_regression"},
         lambda: tf.estimator.LogisticRegressionHead(weight_column="w")),
    ],
)  # fmt: skip
def test_heads_of_one_number_equal_tensorflows(entry, head):
    objective = make(entry, {"dtype": "float32"})
    z = RNG.normal(0, 1, (60, 1)).astype("f")
    y = RNG.random(60).astype("f") if entry["head"] != "poisson" else RNG.poisson(2, 60).astype("f")
    ours, other = evaluate(objective, [(z, y, W)]), theirs(head(), z, y[:, None])
    assert ours["loss"] == pytest.approx(other["average_loss"], rel=1e-5)
    assert ours["label_mean"] == pytest.approx(other["label/mean"], rel=1e-5)
    assert ours["prediction_mean"] == pytest.approx(other["prediction/mean"], rel=1e-5)
    predicted = objective.predictions(tf.constant(z))
    reference = head().predictions(tf.constant(z))
    assert set(predicted) == set(reference)
    for name, value in predicted.items():
        np.testing.assert_allclose(value, reference[name], rtol=1e-6)
    assert set(objective.export_outputs(predicted)) == {"regress"}


def test_multi_label_equals_tensorflows():
    objective = make({"head": "multi_label", "num_classes": 4, "metrics": ["auc"]},
                     {"dtype": "int64", "shape": "variable"})  # fmt: skip
    z = RNG.normal(0, 2, (60, 4)).astype("f")
    y = RNG.integers(0, 2, (60, 4))
    ours = evaluate(objective, [(z[:25], y[:25], W[:25]), (z[25:], y[25:], W[25:])])
    head = tf.estimator.MultiLabelHead(4, weight_column="w")
    other = theirs(head, z, y)
    assert ours["loss"] == pytest.approx(other["average_loss"], rel=1e-5)
    assert ours["auc"] == pytest.approx(other["auc"], abs=5e-3)
    hit = (z > 0) == y
    tp = (W[:, None] * ((z > 0) & (y == 1))).sum()
    positives, found = (W[:, None] * y).sum(), (W[:, None] * (z > 0)).sum()
    assert ours["accuracy"] == pytest.approx(np.average(hit.mean(axis=1), weights=W))
    assert ours["precision"] == pytest.approx(tp / found)
    assert ours["recall"] == pytest.approx(tp / positives)
    assert ours["f1"] == pytest.approx(2 * tp / (found + positives))
    predicted = objective.predictions(tf.constant(z))
    assert set(predicted) == {"logits", "probabilities"} <= set(head.predictions(tf.constant(z)))
    outputs = objective.export_outputs(predicted)
    assert outputs["classify"].classes[0].numpy().tolist() == [b"0", b"1", b"2", b"3"]


WORDS = ["low", "mid", "high"]


@pytest.mark.parametrize(
    ("entry", "label", "head"),
    [
        ({"head": "binary"}, {"dtype": "string", "vocabulary": WORDS[:2]},
         lambda: tf.estimator.BinaryClassHead(label_vocabulary=WORDS[:2])),
        ({"head": "binary"}, {"dtype": "int64"}, lambda: tf.estimator.BinaryClassHead()),
        ({"head": "multi_class", "num_classes": 3}, {"dtype": "string", "vocabulary": WORDS},
         lambda: tf.estimator.MultiClassHead(3, label_vocabulary=WORDS)),
        ({"head": "multi_label", "num_classes": 3},
         {"dtype": "string", "vocabulary": WORDS, "shape": "variable"},
         lambda: tf.estimator.MultiLabelHead(3, label_vocabulary=WORDS)),
    ],
)  # fmt: skip
def test_the_words_of_all_classes_have_tensorflows_names(entry, label, head):
    objective = make(entry, label)
    logits = tf.constant(RNG.normal(0, 1, (2, objective.logits_dimension)).astype("f"))
    predicted = objective.predictions(logits)
    words, reference = words_of_classes(objective, predicted), head().predictions(logits)
    # The ids of all classes are the places of the words.
    assert {*predicted, *words} == set(reference) - {"all_class_ids"}
    ((name, value),) = words.items()
    assert value.numpy().tolist() == reference[name].numpy().tolist()


def test_the_words_of_all_classes_by_hand():
    ordinal = make({"head": "ordinal", "num_classes": 3}, {"dtype": "string", "vocabulary": WORDS})
    found = words_of_classes(ordinal, ordinal.predictions(tf.zeros([2, 2])))
    assert found["all_classes"].numpy().tolist() == [[b"low", b"mid", b"high"]] * 2
    steps = make({"head": "binary", "steps": 3}, {"dtype": "int64", "shape": [3]})
    found = words_of_classes(steps, steps.predictions(tf.zeros([2, 3])))
    assert found["all_classes"].numpy().tolist() == [[b"0", b"1"]] * 2
    many = make({"head": "multi_class", "num_classes": 1001}, {"dtype": "int64"})
    assert words_of_classes(many, many.predictions(tf.zeros([1, 1001]))) == {}
    number = make({"head": "regression"}, {"dtype": "float32"})
    assert words_of_classes(number, number.predictions(tf.zeros([1, 1]))) == {}


def test_the_penalty_of_multi_label_by_hand():
    objective = make({"head": "multi_label", "num_classes": 2, "positive_penalty": 3},
                     {"dtype": "int64", "shape": "variable"})  # fmt: skip
    rows = objective.row_losses(tf.zeros([1, 2]), tf.constant([[1.0, 0.0]]))
    assert float(rows[0]) == pytest.approx(1.3863, abs=5e-5)


def test_the_cosine_head():
    objective = make({"head": "cosine", "dimension": 2}, {"dtype": "float32", "shape": [2]})
    z, y = np.array([[3, 0], [0, 2]], "f"), np.array([[1, 1], [0, -9]], "f")
    values = evaluate(objective, [(z, y, np.array([1, 3], "f"))])
    assert values["cosine_similarity"] == pytest.approx((math.sqrt(0.5) - 3) / 4)
    assert values["loss"] == pytest.approx(1 - values["cosine_similarity"])
    predicted = objective.predictions(tf.constant(z))
    np.testing.assert_allclose(predicted["predictions"], [[1, 0], [0, 1]], atol=1e-6)
    assert objective.export_outputs(predicted) == {}


def test_the_quantile_head():
    objective = make({"head": "quantile", "quantiles": [0.5, 0.9]}, {"dtype": "float32"})
    rows = objective.row_losses(tf.constant([[1.0, 4.0]]), tf.constant([3.0]))
    assert float(rows[0]) == pytest.approx(0.55)
    values = evaluate(objective, [(np.array([[1, 4], [5, 3]], "f"), np.array([3, 4], "f"),
                                   np.array([1, 3], "f"))])  # fmt: skip
    assert values["coverage_0.5"] == pytest.approx(0.75)
    assert values["coverage_0.9"] == pytest.approx(0.25)
    predicted = objective.predictions(tf.constant([[1.0, 4.0]]))
    assert predicted["predictions"].numpy().tolist() == [[1, 4]]
    assert objective.export_outputs(predicted) == {}


def test_quantiles_that_do_not_cross():
    entry = {"head": "quantile", "quantiles": [0.1, 0.5, 0.9], "non_crossing": True}
    objective = make(entry, {"dtype": "float32"})
    predicted = objective.predictions(tf.constant([[2.0, 0.0, -5.0]]))["predictions"]
    steps = [2, math.log(2), math.log(1 + math.exp(-5))]
    np.testing.assert_allclose(predicted[0], np.cumsum(steps), rtol=1e-6)
    single = make({"head": "quantile", "quantiles": [0.5]}, {"dtype": "float32"})
    assert set(single.export_outputs(single.predictions(tf.zeros([1, 1])))) == {"regress"}


# --- All heads in one model ----------------------------------------------------------------------

DOCUMENT = {
    "features": {"x": {"dtype": "float32"}, "user": {"dtype": "string"}},
    "columns": {"x": {"numeric": "x"}},
    "groups": {"deep": ["x"]},
    "labels": {
        "click": {"dtype": "int64", "missing": "mask"},
        "kind": {"dtype": "string", "vocabulary": ["a", "b", "c"], "missing": "mask"},
        "price": {"dtype": "float32", "missing": "mask"},
        "topics": {"dtype": "string", "shape": "variable", "vocabulary": ["p", "q", "r"],
                   "missing": "no_class"},
        "flags": {"dtype": "int64", "shape": [3]},
        "visits": {"dtype": "int64"},
        "share": {"dtype": "float32"},
        "vector": {"dtype": "float32", "shape": [2], "missing": "mask"},
    },
    "objectives": {
        "click": {"head": "binary", "loss": "focal", "group_by": "user",
                  "metrics": ["gauc", "mrr", {"ndcg": 3}, {"recall_at_precision": 0.5}]},
        "kind": {"head": "multi_class", "num_classes": 3, "metrics": ["f1"]},
        "price": {"head": "regression", "loss": "huber"},
        "topics": {"head": "multi_label", "num_classes": 3},
        "flags": {"head": "multi_label", "num_classes": 3, "reduction": "sum"},
        "visits": {"head": "poisson"},
        "share": {"head": "logistic_regression"},
        "vector": {"head": "cosine", "dimension": 2},
        "amount": {"head": "quantile", "label": "amount", "quantiles": [0.5, 0.9]},
    },
}  # fmt: skip
DOCUMENT["labels"]["amount"] = {"dtype": "float32", "weight": "x"}


def row(i, **changes):
    return {
        "x": float(i % 5), "user": f"u{i % 4}", "click": i % 2, "kind": "abc"[i % 3],
        "price": i / 7, "topics": ["p", "q", "r"][: i % 4], "flags": [i % 2, 1, 0],
        "visits": i % 6, "share": (i % 10) / 10, "vector": [1.0, i / 9], "amount": float(i),
        **changes,
    }  # fmt: skip


UNLABELLED = (3, 8, 21)


def incomplete_rows():
    rows = [row(i) for i in range(40)]
    for i in UNLABELLED:
        rows[i].update(click=None, kind=None, price=None, vector=None)
    return rows


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("heads")
    (folder / "spec.yaml").write_text(json.dumps(DOCUMENT))
    writing.write_examples(f"{folder}/train.tfrecord", [row(i) for i in range(30)])
    writing.write_examples(f"{folder}/eval.tfrecord", incomplete_rows())
    return folder


@pytest.mark.nightly
def test_all_heads_train_evaluate_and_serve(folder):
    result = ek.run(
        ek.ExperimentConfig(
            spec=f"{folder}/spec.yaml", model="dnn", train_files=(f"{folder}/train.tfrecord",),
            eval_files=(f"{folder}/eval.tfrecord",), model_dir=f"{folder}/model", max_steps=3,
            batch_size=16, eval_batch_size=7, exporters=("final",),
        )
    )  # fmt: skip
    for name in DOCUMENT["objectives"]:
        assert math.isfinite(result.metrics[f"loss/{name}"]), name
    assert result.metrics["weight_sum/click"] == 37
    assert result.metrics["weight_sum/topics"] == 40
    assert result.metrics["groups/click"] == 4
    assert result.metrics["group_rows_share/click"] == 1
    model = tf.saved_model.load(result.export_path)
    record = writing.example({"x": 1.0}).SerializeToString()
    answer = model.signatures["serving_default"](examples=tf.constant([record]))
    assert answer["topics/probabilities"].shape == (1, 3)
    assert answer["amount/predictions"].shape == (1, 2)
    assert set(model.signatures) == {
        "serving_default", "predict_examples", "predict_raw",
        *(f"predict/{name}" for name in DOCUMENT["objectives"]),
        "classify/click", "regress/click", "classify/kind", "regress/price", "classify/topics",
        "classify/flags", "regress/visits", "regress/share",
    }  # fmt: skip


class Fixed(ek.ModelFn):
    """Logits that follow the feature x, without a variable to train."""

    def logits(self, features, mode):
        steps = tf.range(1.0, self.logits_dimension + 1) / 10
        return tf.sin(features["x"] * steps + steps)


def evaluated(rows):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        records = [writing.example(row).SerializeToString() for row in rows]
        spec = ek.parse_spec(DOCUMENT)
        features, labels = Transform(spec).features_and_labels(tf.constant(records))
        built = Fixed(spec)(features, labels, tf.estimator.ModeKeys.EVAL)
        session.run(tf.compat.v1.local_variables_initializer())
        session.run(tf.compat.v1.tables_initializer())
        session.run([update for _, update in built.eval_metric_ops.values()])
        values = session.run({name: value for name, (value, _) in built.eval_metric_ops.items()})
        return {**values, "batch_loss": session.run(built.loss)}


@pytest.mark.ci
def test_rows_without_a_label_are_in_none_of_its_metrics():
    names = tuple(f"/{name}" for name in ("click", "kind", "price", "vector"))
    whole = evaluated(incomplete_rows())
    rows = [r for i, r in enumerate(incomplete_rows()) if i not in UNLABELLED]
    without = evaluated(rows)
    compared = [name for name in whole if name.endswith(names)]
    assert len(compared) > 25
    for name in compared:
        assert whole[name] == pytest.approx(without[name], rel=1e-6, nan_ok=True), name
    # There is one batch, so its loss is the loss of all rows.
    assert whole["batch_loss"] == pytest.approx(whole["total_loss"], rel=1e-5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"visits": -1}, "label 'visits' is -1, expected 0 or more for the poisson head of "
                         "objective 'visits'"),
        ({"share": 1.5}, "label 'share' is 1.5, expected 0 to 1 for the logistic_regression head "
                         "of objective 'share'"),
        ({"flags": [0, 2, 1]}, "label 'flags' is 2, expected 0 or 1 for the multi_label head of "
                               "objective 'flags'"),
        ({"flags": [0, 1]}, "label 'flags' has 2 values, expected 3"),
        ({"flags": None}, "label 'flags' is missing; if records may lack it, say missing: mask in "
                          "the spec, to give them no weight"),
        ({"topics": ["p", "x"]}, "label 'topics' is b'x', expected one of p, q, r"),
        ({"vector": [1.0]}, "label 'vector' has 1 value, expected 2"),
        ({"vector": [1.0, math.nan]}, "label 'vector' is nan, expected a finite number"),
        ({"kind": "d"}, "label 'kind' is b'd', expected one of a, b, c"),
        ({"click": [0, 1]}, "label 'click' has 2 values, expected 1"),
        ({"click": 3}, "label 'click' is 3, expected 0 or 1 for the binary head of "
                       "objective 'click'"),
    ],
)  # fmt: skip
def test_labels_that_a_head_cannot_learn_are_named(tmp_path, change, message):
    spec = ek.parse_spec(DOCUMENT)
    path = f"{tmp_path}/a.tfrecord"
    writing.write_examples(path, [row(0), row(1, **change)])
    assert diagnosis.find_bad_record(spec, [path]) == f"{path}: {place(path, 1)}: {message}"
