"""A row without a label, or without a part or weight of its label, counts nowhere.

The cases come from the heads: each number that a head reads in addition to the label
(`HeadEntry.label_parts`) may itself be a label that is missing.
"""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import feature_specs
from estimator_kit.model.heads import joint, make_heads, row_metric
from estimator_kit.scoring import eval_rows
from feature_specs.heads import HEADS
from input_pipelines.record_files import writing
from input_pipelines.transform.transforms import Transform
from tests.conformance import learning, toys

CELL, NUMBER = np.repeat(np.arange(4), 6), np.arange(24)
WITHOUT = (1, 6, 7, 15, 23)


def cases():
    """(head, loss, what is missing): the label, its weight, and each of its parts."""
    for head in HEADS:
        losses = [None, *(loss for loss in toys.losses_and_options(head) if loss)]
        seen = set()
        for loss in losses:
            parts = parsed(document(head, loss, "y")).objectives["y"].label_parts
            if tuple(parts) not in seen:
                seen.add(tuple(parts))
                for field in ("y", "weight", *(part.name for part in parts)):
                    yield head, loss, field


def document(head, loss, missing):
    toy = toys.TOYS[head]
    entry = {"head": head, **toy.objective, **({"loss": loss} if loss else {})}
    features = {n: e for n, (e, _) in toy.features.items() if n in str(entry)}
    labels = {"y": {**toy.label, "missing": "mask", "weight": "weight"}}
    objectives = {"y": entry}
    features["weight"] = {"dtype": "float32"}
    if missing in features:  # A label, which another objective learns.
        labels[missing] = {**features.pop(missing), "missing": "mask"}
        objectives[missing] = {"head": "regression"}
    columns = {"x": {"numeric": "x"}}
    if "group_by" in entry:
        features["query"] = {"dtype": "int64"}
    groups = {"deep": ["x"]}
    if "items" in entry:
        features["history"] = learning.DOCUMENT["features"]["history"]
        columns |= {name: learning.DOCUMENT["columns"][name] for name in ("seen", "seen_emb")}
        groups["steps"] = ["seen_emb"]
    return {
        "features": {"x": {"dtype": "float32"}, **features},
        "columns": columns, "groups": groups, "labels": labels, "objectives": objectives,
    }  # fmt: skip


def parsed(document):
    return feature_specs.parse(document)


def rows(head, missing):
    toy = toys.TOYS[head]
    columns = {n: make(CELL, NUMBER) for n, (_, make) in toy.features.items()}
    columns["y"] = toy.values(CELL, NUMBER % toys.IN_CELL)
    columns["query"] = (NUMBER // 4).tolist()
    columns["weight"] = (1.0 + NUMBER % 3).tolist()
    columns["x"] = CELL.astype(float).tolist()
    made = [dict(zip(columns, values)) for values in zip(*columns.values())]
    for number, row in enumerate(made):
        row["history"] = [number % toys.CELLS]
        if head == "next_item":
            row["y"] = [row["y"]]
        if number in WITHOUT:
            del row[missing]
            if head == "next_item" and missing == "y":  # A label has an item for each step.
                row["history"] = []
    return made


def losses_and_metrics(spec, *batches):
    """For each (records, logits): the loss of the batch, its gradient, and the metrics of `y`."""
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        objectives = {"y": make_heads(spec)["y"]}
        records = v1.placeholder(tf.string, [None])
        scores = v1.placeholder(tf.float32, [None, objectives["y"].logits_dimension])
        labels = joint.dense_labels(Transform(spec).features_and_labels(records)[1])
        given = objectives, {"y": scores}, labels, joint.weights_of(objectives, labels)
        loss, metrics = joint.losses_of(*given)["y"], joint.metrics_of(*given)
        (gradient,) = tf.gradients(loss, [scores])
        updates = [update for _, update in metrics.values()]
        values = {name: value for name, (value, _) in metrics.items()}
        session.run(v1.tables_initializer())
        for batch in batches:
            session.run(v1.local_variables_initializer())
            found = session.run((loss, gradient, updates), dict(zip((records, scores), batch)))
            yield (*found[:2], session.run(values))


@pytest.mark.parametrize(
    ("head", "loss", "missing"),
    [
        # The weight and the label itself of every head run at night, the other parts always.
        pytest.param(*case, marks=pytest.mark.nightly if case[2] in ("y", "weight") else ())
        for case in cases()
    ],
    ids=str,
)
def test_a_row_without_one_of_its_labels_counts_nowhere(head, loss, missing, tmp_path):
    spec = parsed(document(head, loss, missing))
    made = rows(head, missing)
    records = np.array([writing.example(row).SerializeToString() for row in made], object)
    dimension = make_heads(spec)["y"].logits_dimension
    logits = np.random.default_rng(5).normal(0, 1, (len(made), dimension)).astype("f")
    kept = np.setdiff1d(NUMBER, WITHOUT)
    (loss, gradient, metrics), expected = losses_and_metrics(
        spec, (records, logits), (records[kept], logits[kept])
    )
    assert loss == pytest.approx(expected[0], rel=1e-5) and np.isfinite(loss)
    np.testing.assert_allclose(gradient[kept], expected[1], rtol=1e-4, atol=1e-7)
    assert not gradient[list(WITHOUT)].any()
    assert metrics.keys() == expected[2].keys()
    for name, value in metrics.items():
        assert value == pytest.approx(expected[2][name], rel=1e-5, nan_ok=True), name

    if HEADS[head].answer is None:  # The gate and slices do not compare it.
        return
    path = f"{tmp_path}/rows.tfrecord"
    writing.write_examples(path, made)
    read = eval_rows.EvalRows(spec, [path], features=(), batch_size=7)
    labels, weights = read.labels("y"), read.weights("y")
    assert not weights[list(WITHOUT)].any() and weights[kept].all()
    output = HEADS[head].answer.output
    predictions = make_heads(spec)["y"].predictions(tf.constant(logits))[output].numpy()
    predictions = eval_rows.by_row(spec.objectives["y"], predictions)
    whole, of_kept = (
        row_metric(HEADS[head].main[0].name, head, labels[i], predictions[i], weights[i]).value()
        for i in (NUMBER, kept)
    )
    assert whole == pytest.approx(of_kept)


def test_parts_of_labels_are_among_the_cases():
    fields = {(head, field) for head, _, field in cases()}
    assert {("survival", "ended"), ("binary", "waited"), ("ranking", "weight")} <= fields
