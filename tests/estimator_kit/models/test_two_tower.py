"""Two towers: the in-batch softmax and its correction, compared with NumPy; errors."""

from __future__ import annotations

import math

import numpy as np
import pytest
import tensorflow as tf

import estimator_kit as ek
import feature_specs
from estimator_kit.model import own_losses
from estimator_kit.model.heads.sampled_items import log_probability
from estimator_kit.models import MODELS
from estimator_kit.models.two_tower import in_batch_losses, in_batch_scores
from input_pipelines.record_files import writing
from input_pipelines.transform.transforms import Transform
from tests.conftest import make_rows

RNG = np.random.default_rng(6)


@pytest.fixture
def spec_of(document):
    def make(**groups):
        document["groups"] = {
            "user": ["price", "tag_emb"], "item": ["user_emb", "city_hot"], **groups,
        }  # fmt: skip
        document["ignored"] = []
        del document["columns"]["city_x_tag"]
        del document["labels"]["buy"], document["objectives"]["buy"]
        return feature_specs.parse(document)

    return make


def test_the_loss_by_hand():
    losses = in_batch_losses(tf.constant([[1.0, 0.0], [0.0, 1.0]]))
    np.testing.assert_allclose(losses, [math.log1p(math.exp(-1))] * 2, rtol=1e-6)


def test_the_loss_is_a_softmax_over_the_items_of_a_batch():
    users, items = RNG.normal(size=(2, 5, 3)).astype(np.float32)
    ids = np.array([7, 3, 7, 1, 3])
    log_p = np.log(np.float32([0.5, 0.1, 0.5, 0.01, 0.1]))
    scores = in_batch_scores(*map(tf.constant, (users, items, ids, log_p)))
    expected = []
    for i in range(5):
        negatives = [j for j in range(5) if j == i or ids[j] != ids[i]]
        row = [users[i] @ items[j] - log_p[j] for j in negatives]
        own = users[i] @ items[i] - log_p[i]
        expected.append(np.log(np.exp(row).sum()) - own)
    np.testing.assert_allclose(in_batch_losses(scores), expected, rtol=1e-4)


def test_frequencies_follow_the_algorithm():
    batches = [[0, 0, 2], [0, 1, -1], [0, 2, 2], [0, 1, 1], [0, 0, 0]]
    last, gap = {}, {}
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        ids = tf.compat.v1.placeholder(tf.int64, [None])
        log_p = log_probability(ids, 3, rate=0.25)
        step = tf.compat.v1.train.get_global_step()
        updates = tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.UPDATE_OPS)
        with tf.control_dependencies([log_p, *updates]):
            count = tf.compat.v1.assign_add(step, 1)
        session.run(tf.compat.v1.global_variables_initializer())
        for t, batch in enumerate(batches, start=1):
            found = session.run((log_p, count), {ids: batch})[0]
            for i in set(batch):
                waited = t - last.get(i, 0)
                gap[i] = 0.75 * gap[i] + 0.25 * waited if i in last else waited
                last[i] = t
            np.testing.assert_allclose(np.exp(found), [1 / gap[i] for i in batch], rtol=1e-5)
        kept = {v.op.name: session.run(v) for v in tf.compat.v1.global_variables()}
    np.testing.assert_array_equal(kept["last_step"], [5, 4, 3, 2])
    np.testing.assert_allclose(kept["gap"], [gap[0], gap[1], gap[2], gap[-1]], rtol=1e-6)


def test_several_batches_of_one_step_have_no_infinite_frequency():
    """Of tasks that step together."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.compat.v1.train.get_or_create_global_step()
        log_p = log_probability(tf.constant([0, 1], tf.int64), 3, rate=1.0)
        updates = tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.UPDATE_OPS)
        session.run(tf.compat.v1.global_variables_initializer())
        for _ in range(3):
            found, _ = session.run([log_p, updates])
            assert found.tolist() == [0, 0]


@pytest.mark.parametrize("item_id", ["user", None])
def test_a_step_trains_both_towers_by_the_sampled_loss(spec_of, item_id):
    params = {"item_id": item_id, "hidden_units": [4], "activation": "tanh"}
    model = MODELS["two_tower"](spec_of(), params)
    rows = make_rows(12)
    records = [writing.example(row).SerializeToString() for row in rows]
    vectors, add_output = {}, model.add_output
    model.add_output = lambda name, value: (
        vectors.__setitem__(name, value), add_output(name, value),
    )  # fmt: skip
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.compat.v1.train.get_or_create_global_step()
        features, labels = Transform(model.spec).features_and_labels(tf.constant(records))
        result = model(features, labels, "train")
        session.run(tf.compat.v1.global_variables_initializer())
        session.run(tf.compat.v1.tables_initializer())
        users, items, ids, loss = session.run(
            (vectors["user_vector"], vectors["item_vector"], features["user"], result.loss)
        )
        names = [v.op.name for v in tf.compat.v1.trainable_variables()]
        before = session.run(tf.compat.v1.trainable_variables())
        session.run(result.train_op)
        after = session.run(tf.compat.v1.trainable_variables())
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.compat.v1.train.get_or_create_global_step()
        features, labels = Transform(model.spec).features_and_labels(tf.constant(records))
        evaluated = model(features, labels, "eval")
        restored = dict(zip(names, before))
        session.run(tf.compat.v1.global_variables_initializer())
        session.run(tf.compat.v1.local_variables_initializer())
        session.run(tf.compat.v1.tables_initializer())
        for v in tf.compat.v1.trainable_variables():
            v.load(restored[v.op.name], session)
        value, update = evaluated.eval_metric_ops["total_loss"]
        session.run(update)
        # An evaluation of the same rows has the loss of the first step, where each log p is 0.
        assert session.run(value) == pytest.approx(loss, rel=1e-5)
    np.testing.assert_allclose((users**2).sum(1), 1, rtol=1e-5)
    assert all((a != b).any() for a, b in zip(after, before)) and len(names) == 10
    scores = users @ items.T / 0.1  # in the first step every item has the probability 1
    expected = []
    for i, row in enumerate(rows):
        keep = [j for j in range(12) if item_id is None or j == i or ids[j] != ids[i]]
        if row["click"]:
            expected.append(np.log(np.exp(scores[i, keep]).sum()) - scores[i, i])
    assert loss == pytest.approx(np.mean(expected), rel=1e-4)


def test_predictions_have_the_vectors(spec_of):
    model = MODELS["two_tower"](spec_of(), {"item_id": "user", "dimension": 5})
    records = [writing.example(row).SerializeToString() for row in make_rows(3)]
    with tf.Graph().as_default():
        features = Transform(model.spec).features(tf.constant(records))
        result = model(features, mode="infer")
    assert result.predictions["user_vector"].shape.as_list() == [3, 5]
    assert {"user_vector", "item_vector", "predict/click"} < set(result.export_outputs)


@pytest.mark.parametrize(
    ("groups", "params", "message"),
    [
        ({}, {}, "item_id: got 'item', expected a categorical column with one id per record that "
                 "group 'item' reads: user, city. null trains without a correction for popular "
                 "items."),
        ({}, {"item_id": "tag"}, "item_id: got 'tag', expected a categorical column with one id "
                                 "per record that group 'item' reads: user, city. null trains "
                                 "without a correction for popular items."),
        ({"user": ["price", "tag_emb", "city_hot"]}, {},
         "groups 'user' and 'item' share the columns city_hot. Put the columns of the user and of "
         "the item into separate groups."),
    ],
)  # fmt: skip
def test_what_two_towers_refuse(spec_of, groups, params, message):
    with pytest.raises(ek.ConfigError) as error:
        MODELS["two_tower"](spec_of(**groups), params)
    assert str(error.value) == message


@pytest.fixture
def objectives(document):
    """Clicks, purchases of the rows with a click, and the click among the rows of a city."""
    document["groups"] = {"user": ["price", "tag_emb"], "item": ["user_emb", "city_hot"]}
    del document["columns"]["city_x_tag"]
    document["labels"]["taken"] = {"dtype": "int64"}
    document["objectives"]["taken"] = {
        "head": "ranking", "group_by": "city", "loss": "softmax", "loss_weight": 0.3
    }  # fmt: skip
    params = {"item_id": "user", "hidden_units": [4], "activation": "tanh"}
    return MODELS["two_tower"](feature_specs.parse(document), params)


def test_the_losses_of_objectives_by_hand(objectives):
    """The example of the module."""
    found, rows = {"taken": tf.constant(0.0)}, tf.constant([0.2, 0.4, 0.6])
    for name, labels in {"click": [1.0, 1.0, 0.0], "buy": [1.0, 0.0, 0.0]}.items():
        objective = objectives.heads[name]
        found[name] = own_losses.example_loss(objective, (rows, tf.constant(labels)))
    assert float(objectives.loss(found)) == pytest.approx((0.2 + 0.4) / 2 + 0.5 * 0.2)


def test_the_loss_of_hard_negatives_by_hand(objectives):
    """The example of the module, and a group without a positive, which does not count."""
    logits, groups = tf.constant([[1.0], [0.0], [3.0]]), tf.constant([7, 7, 8], tf.int64)
    found = objectives.heads["taken"].loss(
        logits, tf.constant([1, 0, 0], tf.int64), tf.ones(3), groups
    )
    assert float(found) == pytest.approx(math.log1p(math.exp(-1)), rel=1e-5)


def test_a_step_of_several_objectives_with_hard_negatives(objectives):
    model, rows = objectives, make_rows(30)
    for row in rows:
        row["taken"] = row["click"]
    records = [writing.example(row).SerializeToString() for row in rows]
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.compat.v1.train.get_or_create_global_step()
        features, labels = Transform(model.spec).features_and_labels(tf.constant(records))
        outputs, add_output = {}, model.add_output
        model.add_output = lambda name, value: (
            outputs.__setitem__(name, value), add_output(name, value),
        )  # fmt: skip
        result = model(features, labels, "train")
        session.run(tf.compat.v1.global_variables_initializer())
        session.run(tf.compat.v1.tables_initializer())
        # Every second item was in one of five batches. The other items are new in step 10.
        for v in tf.compat.v1.global_variables():
            if "item_frequency" in v.op.name:
                v.load(np.arange(21) % 2 * 5, session)
            elif v.op.name == "global_step":
                v.load(9, session)
        found, ids, loss = session.run((outputs, features["user"], result.loss))
    scores = found["user_vector"] @ found["item_vector"].T / 0.1
    log_p = found["item_log_probability"]
    assert len(set(log_p)) > 1

    def in_batch(label):
        losses = []
        for i in np.flatnonzero([row[label] for row in rows]):
            others = [j for j in range(30) if ids[j] != ids[i]]
            total = np.exp(scores[i, [i, *others]] - log_p[[i, *others]]).sum()
            losses.append(np.log(total) - scores[i, i] + log_p[i])
        return np.mean(losses)

    def among_shown():
        losses = []
        for city in ("rome", "oslo", "lima"):
            shown = [i for i, row in enumerate(rows) if row["city"] == city]
            taken = np.array([rows[i]["click"] for i in shown])
            own = scores[shown, shown]
            log_softmax = own - np.log(np.exp(own).sum())
            losses.append(-(taken * log_softmax).sum() / taken.sum())
        return np.mean(losses)

    expected = in_batch("click") + 0.5 * in_batch("buy") + 0.3 * among_shown()
    assert loss == pytest.approx(expected, rel=1e-4)


def test_hard_negatives_alone_are_refused(document):
    document["groups"] = {"user": ["price", "tag_emb"], "item": ["user_emb", "city_hot"]}
    del document["columns"]["city_x_tag"], document["labels"]["buy"], document["objectives"]["buy"]
    document["objectives"]["click"] = {"head": "ranking", "group_by": "city"}
    with pytest.raises(ek.ConfigError) as error:
        MODELS["two_tower"](feature_specs.parse(document), {"item_id": "user"})
    assert str(error.value) == (
        "two_tower needs an objective with the head binary, got only ranking. Add one: without "
        "negatives from other rows, the model cannot find items among all."
    )


def test_a_metric_within_groups_and_of_all_items(document):
    document["groups"] = {"user": ["price", "tag_emb"], "item": ["user_emb", "city_hot"]}
    del document["columns"]["city_x_tag"]
    document["objectives"]["buy"].update(metrics=[{"ndcg": 10}], group_by="city")
    spec = feature_specs.parse(document)
    with pytest.raises(ek.ConfigError) as error:
        MODELS["two_tower"](spec, {"item_id": "user"})
    assert str(error.value) == (
        "objective 'buy' has the metric ndcg_at_10 within groups, and recall_at=[10] makes a "
        "metric of this name for all items. Use another number for one of the two."
    )
    MODELS["two_tower"](spec, {"item_id": "user", "recall_at": [20]})
    MODELS["two_tower"](spec, {"item_id": None})


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"head": "regression"}, "regression"),
        ({"head": "binary", "steps": 2}, "binary with steps"),
    ],
)
def test_heads_that_two_towers_do_not_learn(document, changes, found):
    document["groups"] = {"user": ["price", "tag_emb"], "item": ["user_emb", "city_hot"]}
    del document["columns"]["city_x_tag"]
    del document["labels"]["buy"]["weight"]
    document["objectives"]["buy"] = changes
    if "steps" in changes:
        document["labels"]["buy"]["shape"] = [2]
    with pytest.raises(ek.ConfigError) as error:
        MODELS["two_tower"](feature_specs.parse(document), {"item_id": "user"})
    assert str(error.value) == (
        f"two_tower learns objectives with the head binary or ranking, got {found} for 'buy'. "
        "Remove the objective."
    )
