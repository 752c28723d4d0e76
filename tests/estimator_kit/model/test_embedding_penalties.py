"""The L2 penalty on embedding vectors, compared with NumPy, in training and in evaluation."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import estimator_kit as ek
import feature_specs
from estimator_kit.model import gathers, table_gradients
from estimator_kit.models import MODELS
from feature_specs.reference.columns import feature_columns
from tests.conftest import make_rows
from tests.estimator_kit.model.test_model_fn import build
from tests.estimator_kit.small_training import batch_of

ModeKeys = tf.estimator.ModeKeys
TABLE = np.array([[3.0, 4.0], [0.0, 1.0], [7.0, 7.0]], np.float32)


@pytest.mark.parametrize(
    ("ids", "expected", "counts"),
    [
        ([0, 1], 0.1 * (25 + 1) / 2, [1, 1, 0]),
        ([0, -1, 0, 1], 0.1 * (2 * 25 + 1) / 4, [2, 1, 0]),
        ([-1], 0, [0, 0, 0]),
        ([], 0, [0, 0, 0]),
        ([[0, 0, 1], [], [-1, 1]], 0.1 * (2 * 25 + 2) / 3, [2, 2, 0]),
    ],
)
def test_the_penalty_and_its_gradient_by_hand(ids, expected, counts):
    ragged = bool(ids) and isinstance(ids[0], list)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        table = tf.compat.v1.get_variable("table", initializer=TABLE, use_resource=True)
        given = tf.ragged.constant(ids, tf.int64) if ragged else tf.constant(ids, tf.int64)
        with table_gradients.collected(True) as found:
            table_gradients.add("a", table, given, 0.1, gathers._rows_of)
            table_gradients.add("a", table, given, 0.1, gathers._rows_of)
            table_gradients.add("b", table, given, None, gathers._rows_of)
        (penalty,) = found.values()
        (gradient,) = tf.gradients(penalty, [table])
        assert isinstance(gradient, tf.IndexedSlices)
        session.run(tf.compat.v1.global_variables_initializer())
        value, dense = session.run((penalty, tf.convert_to_tensor(gradient)))
    assert value == pytest.approx(expected, rel=1e-6)
    rows = max(len(ids), 1)
    np.testing.assert_allclose(dense, 0.2 * TABLE * np.array(counts)[:, None] / rows, rtol=1e-6)


@pytest.fixture
def spec(document):
    document["columns"]["user_emb"]["l2"] = 0.5
    document["columns"]["tag_emb"]["l2"] = 2.0
    return feature_specs.parse(document)


def penalty_by_hand(session, features):
    """0.5 of the users' vectors and 2 of the tags', per row."""
    tables = {v.op.name.split("/")[-2]: session.run(v) for v in tf.compat.v1.global_variables()
              if v.op.name.endswith("embedding_weights")}  # fmt: skip
    users, tags = session.run((features["user"], features["tag"]))
    squares = {name: (table**2).sum(axis=1) for name, table in tables.items()}
    of_users = squares["user_embedding"][users[users >= 0]].sum()
    of_tags = squares["tags_embedding"][tags.values[tags.values >= 0]].sum()
    return (0.5 * of_users + 2 * of_tags) / len(users)


@pytest.mark.parametrize("combine", ["weights", "pcgrad"])
def test_training_adds_the_penalty_and_moves_only_rows_of_the_batch(spec, combine):
    kept = {}

    class Kept(MODELS["dnn"]):
        def logits(self, features, mode):
            kept.update(features)
            return super().logits(features, mode)

    with tf.Graph().as_default() as graph, tf.compat.v1.Session() as session:
        params = {"hidden_units": [4], "combine": combine, "optimizer": "sgd"}
        params["learning_rate"] = 0.05
        made = build(Kept(spec, params), ModeKeys.TRAIN, rows=20)
        session.run(tf.compat.v1.global_variables_initializer())
        session.run(tf.compat.v1.tables_initializer())
        (table,) = (v for v in tf.compat.v1.trainable_variables() if "user_emb" in v.op.name)
        penalty, before = penalty_by_hand(session, kept), session.run(table)
        read = set(session.run(kept["user"])) - {-1}
        heads = [graph.get_tensor_by_name(f"estimator_kit/losses/{n}:0") for n in ("click", "buy")]
        (click, buy), loss = session.run((heads, made.loss))
        (wanted,) = session.run([tf.convert_to_tensor(tf.gradients(made.loss, [table])[0])])
        session.run(made.train_op)
        change = session.run(table) - before
    assert loss == pytest.approx(click + 0.5 * buy + penalty, rel=1e-5) and penalty > 0.1
    assert set(np.flatnonzero(change.any(axis=1))) == read
    if combine == "weights":
        np.testing.assert_allclose(change, -0.05 * wanted, rtol=1e-4, atol=1e-7)


@pytest.mark.ci
def test_an_evaluation_averages_the_penalty_over_rows(spec):
    """Over uneven batches, which have other ids."""
    batches = [make_rows(30, seed=1), make_rows(7, seed=2)]

    def input_fn():
        first, second = (batch_of(spec, rows)().take(1) for rows in batches)
        return first.concatenate(second)

    model = tf.estimator.Estimator(MODELS["dnn"](spec, {"hidden_units": [4]}))
    model.train(input_fn, steps=1)
    found = model.evaluate(input_fn)
    parts = []
    for rows in batches:
        one = model.evaluate(batch_of(spec, rows), steps=1)
        heads = one["loss/click"] + 0.5 * one["loss/buy"]
        parts.append(one["total_loss"] - heads)
    heads = found["loss/click"] + 0.5 * found["loss/buy"]
    mean = (30 * parts[0] + 7 * parts[1]) / 37
    assert parts[0] != pytest.approx(parts[1], rel=1e-3)
    # A difference of float32 losses of about 1.
    assert found["total_loss"] - heads == pytest.approx(mean, rel=1e-4, abs=1e-6)


def test_a_prediction_has_no_penalty(spec):
    with tf.Graph().as_default() as graph:
        build(MODELS["dnn"](spec, {"hidden_units": [4]}), ModeKeys.PREDICT)
        assert not [op.name for op in graph.get_operations() if "l2/" in op.name]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"l2": 0}, "columns.user_emb.l2: got 0, expected greater than 0"),
        ({"l2": 0.1, "trainable": False, "initializer": "zeros"},
         "columns.user_emb: trainable: false freezes the table, so l2 has no effect. Remove l2."),
    ],
)  # fmt: skip
def test_what_a_spec_may_not_say(document, change, message):
    document["columns"]["user_emb"].update(change)
    with pytest.raises(ek.SpecError) as error:
        feature_specs.parse(document)
    assert message in str(error.value)


def test_tf_feature_column_has_no_such_penalty(spec):
    with pytest.raises(ValueError) as error:
        feature_columns(spec, "deep")
    assert str(error.value) == (
        "<dict>: column 'user_emb' has l2, and tf.feature_column has no such penalty. Train it "
        "with a ModelFn, or remove l2."
    )
