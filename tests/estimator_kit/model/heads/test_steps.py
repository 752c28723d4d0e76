"""Objectives with `steps`: padded steps are in no loss, no metric and no mean."""

from __future__ import annotations

import math

import numpy as np
import pytest
import tensorflow as tf

import feature_specs
from estimator_kit.model.heads import StepHead, make_heads
from estimator_kit.model.heads.base import Batch
from input_pipelines.record_files import writing
from input_pipelines.transform.transforms import Transform

v1 = tf.compat.v1


def document(steps=3, **objective):
    return {
        "features": {
            "x": {"dtype": "float32"}, "real": {"dtype": "float32", "shape": [steps]},
            "row": {"dtype": "float32", "default": 1.0},
        },
        "columns": {"x": {"numeric": "x"}},
        "groups": {"deep": ["x"]},
        "labels": {
            "turn": {"dtype": "float32", "shape": [steps, 2], "weight": "real"},
            "bought": {"dtype": "int64", "shape": [steps], "weight": "real"},
        },
        "objectives": {
            "turn": {"head": "cosine", "dimension": 2, "steps": steps},
            "bought": {
                "head": "binary", "steps": steps, "loss": "squared", "positive_penalty": 5,
                **objective,
            },
        },
        "ignored": ["row"],
    }  # fmt: skip


# Two rows with 2 and 1 real steps. The behind of a row must not count, whatever is there.
MASK = [[1, 1, 0], [1, 0, 0]]
TURN_LOGITS = [[[1, 0], [0, 2], [9, 9]], [[1, 1], [-3, 4], [5, 5]]]
TURN = [[[1, 0], [1, 0], [0, 0]], [[1, 0], [0, 0], [0, 0]]]
LOG_3 = math.log(3)
BOUGHT_LOGITS = [[0, LOG_3, 50], [-LOG_3, -7, 7]]
BOUGHT = [[0, 1, 0], [0, 0, 0]]
# 1 - cosine of right, a right angle, 45 degrees; and of 1/2, 3/4, 1/4 as probabilities of 0, 1, 0.
TURN_LOSS = (0 + 1 + (1 - math.sqrt(0.5))) / 3
BOUGHT_LOSS = (0.25 + 5 * 0.0625 + 0.0625) / 3


def run(objective, logits, labels, weights):
    """(loss, metrics, predictions) of arrays."""
    logits = np.reshape(np.array(logits, np.float32), [len(logits), -1])
    with tf.Graph().as_default(), v1.Session() as session:
        arrays = [logits, np.array(labels), np.array(weights, np.float32)]
        inputs = [v1.placeholder(a.dtype, [None, *a.shape[1:]]) for a in arrays]
        loss = objective.loss(*inputs)
        metrics = objective.metrics(Batch(*inputs))
        predictions = objective.predictions(inputs[0])
        assert objective.export_outputs(predictions) == {}
        session.run([v1.local_variables_initializer(), v1.tables_initializer()])
        feed = dict(zip(inputs, arrays))
        loss, predictions, _ = session.run(
            [loss, predictions, [update for _, update in metrics.values()]], feed
        )
        return loss, session.run({n: value for n, (value, _) in metrics.items()}), predictions


@pytest.fixture
def objectives():
    return make_heads(feature_specs.parse(document()))


def test_losses_and_metrics_are_over_the_real_steps(objectives):
    assert all(isinstance(objective, StepHead) for objective in objectives.values())
    assert {n: o.logits_dimension for n, o in objectives.items()} == {"turn": 6, "bought": 3}
    loss, metrics, predictions = run(
        objectives["turn"], TURN_LOGITS, np.array(TURN, np.float32), MASK
    )
    assert loss == pytest.approx(TURN_LOSS) == metrics["loss"]
    assert metrics["weight_sum"] == 3
    assert metrics["cosine_similarity"] == pytest.approx(1 - TURN_LOSS)
    assert predictions["predictions"].shape == (2, 3, 2)
    np.testing.assert_allclose(predictions["predictions"][1, 1], [-0.6, 0.8], atol=1e-6)

    loss, metrics, predictions = run(objectives["bought"], BOUGHT_LOGITS, BOUGHT, MASK)
    assert loss == pytest.approx(BOUGHT_LOSS) == metrics["loss"]
    assert metrics["weight_sum"] == 3 and metrics["label_mean"] == pytest.approx(1 / 3)
    assert metrics["prediction_mean"] == pytest.approx((0.5 + 0.75 + 0.25) / 3)
    assert predictions["logistic"].shape == (2, 3, 1) == predictions["logits"].shape
    assert predictions["probabilities"].shape == (2, 3, 2)
    np.testing.assert_allclose(predictions["logistic"][0, :2, 0], [0.5, 0.75], atol=1e-6)


@pytest.mark.parametrize("wider", [3, 5])
def test_padding_never_changes_a_loss(wider):
    """Other values behind the rows, and more steps behind them."""
    rng = np.random.default_rng(0)
    objectives = make_heads(feature_specs.parse(document(wider)))
    mask = np.zeros([2, wider])
    mask[:, :3] = MASK
    for name, logits, labels in (("turn", TURN_LOGITS, TURN), ("bought", BOUGHT_LOGITS, BOUGHT)):
        real = mask[..., None] if name == "turn" else mask
        found = []
        for values in (logits, labels):
            padded = rng.integers(0, 2, [2, wider, *np.shape(values)[2:]]).astype(np.float32)
            padded[:, :3] = np.where(real[:, :3], values, padded[:, :3])
            found.append(padded)
        labels = found[1] if name == "turn" else found[1].astype(np.int64)
        loss, metrics, _ = run(objectives[name], found[0], labels, mask)
        expected = TURN_LOSS if name == "turn" else BOUGHT_LOSS
        assert loss == pytest.approx(expected) == metrics["loss"]


def test_a_weight_of_the_row_and_no_real_step(objectives):
    loss, metrics, _ = run(objectives["bought"], BOUGHT_LOGITS, BOUGHT, [0, 2])
    losses = [(1 / (1 + math.exp(-z))) ** 2 for z in BOUGHT_LOGITS[1]]
    assert loss == pytest.approx(sum(losses) / 3) and metrics["weight_sum"] == 6
    assert run(objectives["bought"], BOUGHT_LOGITS, BOUGHT, np.zeros([2, 3]))[0] == 0


def test_labels_and_weights_of_records():
    changed = document()
    changed["labels"]["turn"]["missing"] = "mask"
    rows = [
        {"x": 1.0, "real": [1.0, 0.5, 0.0], "turn": [1, 2, 3, 4, 5, 6.0], "bought": [0, 1, 0]},
        {"x": 1.0, "real": [1.0, 1.0, 1.0], "bought": [1, 1, 1]},
    ]
    with tf.Graph().as_default(), v1.Session() as session:
        records = tf.constant([writing.example(row).SerializeToString() for row in rows])
        _, labels = Transform(feature_specs.parse(changed)).features_and_labels(records)
        session.run(v1.tables_initializer())
        labels = session.run(labels)
    assert labels["turn"].tolist() == [[[1, 2], [3, 4], [5, 6]], [[0, 0]] * 3]
    assert labels["turn/weight"].tolist() == [[1, 0.5, 0], [0, 0, 0]]
    assert labels["bought"].tolist() == [[0, 1, 0], [1, 1, 1]]
    assert labels["bought/weight"].tolist() == [[1, 0.5, 0], [1, 1, 1]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d["labels"]["turn"].update(shape=[6]),
         "objectives.turn: label 'turn' has the shape [6], expected shape: [3, 2] for steps: 3"),
        (lambda d: d["labels"]["bought"].update(shape=[3, 1]),
         "objectives.bought: label 'bought' has the shape [3, 1], expected shape: [3] for steps: "),
        (lambda d: d["features"]["real"].update(shape=[4]),
         "labels.bought.weight: 'real' must be a single number or a list of 3 numbers"),
        (lambda d: d["objectives"]["bought"].update(steps=1),
         "objectives.bought.steps: "),
        (lambda d: d["objectives"]["bought"].update(head="multi_class", num_classes=3),
         "objectives.bought.steps: "),
        (lambda d: (d.update(ignored=[]), d["objectives"]["bought"].update(
            metrics=["gauc"], group_by="row")),
         "objectives.bought: group_by groups rows, so it cannot be combined with steps. Remove "
         "one of the two."),
        (lambda d: (d.update(ignored=[]), d["labels"]["bought"].update(true_probability="row")),
         "objectives.bought: label 'bought' has a true_probability, which cannot be combined with "
         "steps. Remove it."),
        (lambda d: d["labels"]["turn"].update(shape=[3, 2, 1]),
         "labels.turn: the shape is [3, 2, 1], expected [], [n], or [steps, n] for a label"),
    ],
)  # fmt: skip
def test_what_a_spec_cannot_say(change, message):
    changed = document()
    change(changed)
    with pytest.raises(feature_specs.SpecError) as caught:
        feature_specs.parse(changed)
    assert message in str(caught.value)
