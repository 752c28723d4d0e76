"""A metric of an evaluation depends on its rows, and not on `--eval_batch_size`.

Two kinds of losses cannot: the loss of `two_tower`, whose negatives are the other rows of a batch
(`models.two_tower`), and the loss of the head `ranking`, if a batch does not have all rows of a
group (`objectives.ranking`).
"""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import feature_specs
from estimator_kit.model.heads import joint, make_heads
from estimator_kit.model.names import TOTAL_LOSS
from estimator_kit.models import MODELS
from feature_specs.heads import HEADS
from input_pipelines.record_files import writing
from input_pipelines.transform.transforms import Transform
from tests.conformance import learning, toys
from tests.conformance.test_learning import one_of_each

# Batches end where groups of four rows end, as the input cuts them.
SIZES = (20, 52, toys.CELLS * toys.IN_CELL)


def all_metrics(head):
    """Every metric that the spec of a head can ask for, with a number where it needs one."""
    schema = HEADS[head].model_json_schema()["properties"].get("metrics")
    found = []
    for item in schema["items"]["anyOf"] if schema else ():
        found += item.get("enum", ())
        for name, number in item.get("properties", {}).items():
            found.append({name: 2 if number["type"] == "integer" else 0.5})
    return found


def batches(records, *others, size):
    for i in range(0, len(records), size):
        yield (records[i : i + size], *(other[i : i + size] for other in others))


def assert_equal(by_size, but=()):
    first, *rest = by_size.values()
    for values in rest:
        assert values.keys() == first.keys()
        for name in first.keys() - set(but):
            assert values[name] == pytest.approx(first[name], rel=2e-6, abs=1e-7, nan_ok=True), name
    return first


@pytest.mark.parametrize(
    "heads",
    [
        pytest.param(("ranking",), marks=pytest.mark.nightly),  # The losses that see other rows.
        pytest.param(tuple(HEADS), marks=pytest.mark.nightly),
    ],
)
def test_every_metric_of_every_head_with_every_loss(heads):
    v1 = tf.compat.v1
    cases = [(head, loss) for head in heads for loss in toys.losses_and_options(head)]
    case, seen = learning.pair("linear", cases), set()
    for _, entry in case.objectives.values():
        head, label_only = entry["head"], "delayed_feedback" not in entry.get("loss", ())
        chosen = all_metrics(head)
        # Metrics do not depend on the loss, unless it has another label.
        if chosen and (head, label_only) not in seen:
            seen.add((head, label_only))
            entry["metrics"] = chosen
            if head == "binary":
                entry["group_by"] = "query"
        elif head == "ranking":
            entry["metrics"] = []
    document, rows, _ = learning.document_and_rows(case)
    for name, label in document["labels"].items():
        document["labels"][name] = {**label, "weight": "weight"}
    document["features"]["weight"] = {"dtype": "float32"}
    for number, row in enumerate(rows):
        row["weight"] = float(number * 7 % 5) / 2
    spec = feature_specs.parse(document)
    records = np.array([writing.example(row).SerializeToString() for row in rows], object)
    rng = np.random.default_rng(8)
    with tf.Graph().as_default(), v1.Session() as session:
        objectives = make_heads(spec)
        given = v1.placeholder(tf.string, [None])
        scores = {
            name: v1.placeholder(tf.float32, [None, objective.logits_dimension])
            for name, objective in objectives.items()
        }
        labels = joint.dense_labels(Transform(spec).features_and_labels(given)[1])
        weights = joint.weights_of(objectives, labels)
        metrics = joint.metrics_of(objectives, scores, labels, weights)
        updates = [update for _, update in metrics.values()]
        values = {name: value for name, (value, _) in metrics.items()}
        # Rounded, so that rows of a group have equal scores.
        logits = [
            rng.normal(0, 1, (len(rows), o.logits_dimension)).round(1) for o in objectives.values()
        ]
        session.run(v1.tables_initializer())
        found = {}
        for size in SIZES:
            session.run(v1.local_variables_initializer())
            for records_of_batch, *parts in batches(records, *logits, size=size):
                feed = {given: records_of_batch, **dict(zip(scores.values(), parts))}
                session.run(updates, feed)
            found[size] = session.run(values)
    first = assert_equal(found)
    assert sum(name.startswith("loss/") for name in first) == len(cases)
    assert sum(np.isfinite(value) for value in first.values()) > 0.95 * len(first)


@pytest.mark.nightly
@pytest.mark.parametrize("model", MODELS)
def test_every_metric_of_every_model(model):
    v1 = tf.compat.v1
    document, rows, _ = learning.document_and_rows(one_of_each(model))
    for number, row in enumerate(rows):  # Lists of other lengths, which are padded.
        longer = [row["cell"]] * (1 + number % 5)
        for name, label in document["labels"].items():
            if label.get("shape") == "variable":
                row[name] = [-1] * (len(longer) - 1) + row[name][-1:]
        row["history"] = longer
    spec = feature_specs.parse(document)
    records = [writing.example(row).SerializeToString() for row in rows]
    with tf.Graph().as_default(), v1.Session() as session:
        v1.set_random_seed(3)
        given = v1.placeholder(tf.string, [None])
        made = MODELS[model](spec, learning.PARAMS.get(model, learning.SMALL))
        evaluated = made(*Transform(spec).features_and_labels(given), tf.estimator.ModeKeys.EVAL)
        metrics = evaluated.eval_metric_ops
        session.run([v1.global_variables_initializer(), v1.tables_initializer()])
        found = {}
        for size in SIZES:
            session.run(v1.local_variables_initializer())
            for (part,) in batches(records, size=size):
                session.run([update for _, update in metrics.values()], {given: part})
            found[size] = session.run({name: value for name, (value, _) in metrics.items()})
    in_batch = {TOTAL_LOSS, "example_loss/binary_0"} if model == "two_tower" else set()
    assert_equal(found, but=in_batch)
    for name in in_batch:  # More rows in a batch are more negatives.
        assert found[SIZES[0]][name] < found[SIZES[1]][name] < found[SIZES[2]][name]
