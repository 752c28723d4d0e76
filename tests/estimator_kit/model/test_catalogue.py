"""The catalogue of a retrieval model: its items, and the metrics over all of them, in NumPy."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
import tensorflow as tf

import estimator_kit as ek
import feature_specs
from estimator_kit.model import catalogue, catalogue_ranks
from estimator_kit.model.catalogue import Catalogue
from estimator_kit.model.catalogue_ranks import Ranked
from estimator_kit.models import MODELS
from input_pipelines.record_files import writing
from input_pipelines.transform.transforms import Transform
from tests.conftest import make_rows

RNG = np.random.default_rng(3)


def ranks_in_numpy(users, items, targets, left_out):
    """The rank of each target, ties in the worst order, and the order of the items."""
    ranks, orders = [], []
    for user, target, gone in zip(users, targets, left_out):
        scores = items @ user
        order = [i for i in np.argsort(-scores, kind="stable") if i not in gone]
        orders.append(order)
        if target < 0 or target in gone:
            ranks.append(math.inf)
        else:
            ranks.append(sum(scores[i] >= scores[target] for i in order))
    return np.array(ranks), orders


def metrics_in_numpy(ranks, orders, targets, weights, k, items):
    hits = ranks <= k
    first = {i for order, weight in zip(orders, weights) if weight for i in order[:k]}
    total = weights.sum()
    return {
        f"recall_at_{k}": (weights * hits).sum() / total,
        f"ndcg_at_{k}": (weights * hits / np.log2(1 + ranks)).sum() / total,
        f"coverage_at_{k}": len(first) / items,
        "unknown_item_share": (weights * (targets < 0)).sum() / total,
    }


@pytest.mark.parametrize("block", [2**24, 30], ids=["one block", "blocks of two rows"])
def test_ranks_and_metrics_equal_numpy(monkeypatch, block):
    monkeypatch.setattr(catalogue_ranks, "_SCORES", block)
    # Small integers make equal scores, which float32 computes without an error.
    users = RNG.integers(-2, 3, size=(25, 3)).astype(np.float32)
    items = RNG.integers(-2, 3, size=(13, 3)).astype(np.float32)
    ids = RNG.integers(-1, 16, size=25)  # -1, 14 and 15 are not among the items; 3 has no row.
    place = np.array([0, 1, 2, -1, *range(3, 13)])
    taken = [{0, 1}, set(), {5, 6, 7, 8}, set(range(13)), set()]
    of_user = RNG.integers(-1, 6, size=25)  # -1, 4 and 5 are unknown users.
    weights = RNG.choice([0.0, 0.5, 1.0], size=25).astype(np.float32)
    known = Catalogue(
        place,
        [{"x/0": items[:8]}, {"x/0": items[8:]}],
        np.cumsum([0, *map(len, taken)]),
        np.array([i for each in taken for i in sorted(each)]),
    )
    with tf.Graph().as_default() as graph, tf.compat.v1.Session() as session:
        ranked = Ranked(known, {"x": tf.constant(items[:2])}, lambda fed: 1.0 * fed["x"])
        targets = ranked.targets(tf.constant(ids))
        rank, first = ranked.ranks(tf.constant(users), targets, tf.constant(of_user), 20)
        metrics = ranked.metrics(targets, rank, first, tf.constant(weights), (1, 5))
        session.run(tf.compat.v1.local_variables_initializer())
        (hook,) = catalogue_ranks.take_hooks(graph)
        hook.after_create_session(session, None)
        for _ in range(2):  # A second batch of the same rows changes no mean.
            session.run([update for _, update in metrics.values()])
        found_ranks, found = session.run([rank, {n: value for n, (value, _) in metrics.items()}])
        assert catalogue_ranks.take_hooks(graph) == []
    places = np.array([place[i] if 0 <= i < 14 else -1 for i in ids])
    gone = [taken[u] if 0 <= u < 4 else set() for u in of_user]
    expected, orders = ranks_in_numpy(users, items, places, gone)
    np.testing.assert_array_equal(found_ranks, expected)
    assert np.isinf(expected).any() and (expected == 1).any() and (places < 0).any()
    for k in (1, 5):
        for name, value in metrics_in_numpy(expected, orders, places, weights, k, 13).items():
            assert found[name] == pytest.approx(value, rel=1e-6), name


def test_metrics_without_a_row_are_undefined():
    known = Catalogue(np.arange(2), [{"x/0": np.eye(2, dtype=np.float32)}], np.zeros(2, int),
                      np.zeros(0, int))  # fmt: skip
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        ranked = Ranked(known, {"x": tf.eye(2)}, lambda fed: 1.0 * fed["x"])
        targets = ranked.targets(tf.constant([0, 1], tf.int64))
        rank, first = ranked.ranks(tf.eye(2), targets, None, 10)
        metrics = ranked.metrics(targets, rank, first, tf.zeros(2), (10,))
        session.run(tf.compat.v1.local_variables_initializer())
        session.run([update for _, update in metrics.values()])
        found = session.run({name: value for name, (value, _) in metrics.items()})
    assert all(math.isnan(value) for value in found.values()) and len(found) == 4


@pytest.fixture
def model_of(document):
    """two_tower: the items are hashed names with tags, and the users are cities."""
    document["groups"] = {"user": ["price", "city_hot"], "item": ["user_emb", "tag_emb"]}
    del document["columns"]["city_x_tag"]

    def make(**params):
        params = {"item_id": "user", "hidden_units": [4], "dimension": 3, **params}
        return MODELS["two_tower"](feature_specs.parse(document), params)

    return make


def rows_of(count, seed):
    rng = random.Random(seed)
    rows = make_rows(count, seed)
    for row in rows:
        row["user"] = rng.choice([None, *(f"item {i}" for i in range(14))])
    return rows


def written(folder, name, rows):
    path = str(folder / name)
    with tf.io.TFRecordWriter(path) as writer:
        for row in rows:
            writer.write(writing.example(row).SerializeToString())
    return path


def features_of(spec, rows):
    records = [writing.example(row).SerializeToString() for row in rows]
    return Transform(spec).features(tf.constant(records))


def test_the_items_of_files(tmp_path, model_of):
    model, train, later = model_of(user_id="city"), rows_of(40, 1), rows_of(30, 2)
    files = [written(tmp_path, "train", train)], [written(tmp_path, "eval", later)]
    found = catalogue.read(model.spec, model.catalogue_columns, *files)
    rows = [*train, *later]
    features = features_of(model.spec, rows)
    ids, cities = features["user"].numpy(), features["city"].numpy()
    order = list(dict.fromkeys(i for i in ids if i >= 0))
    assert found.size == len(order) and (ids < 0).any()
    assert [int(found.place[i]) for i in order] == list(range(len(order)))
    assert set(np.flatnonzero(found.place < 0)) == set(range(20)) - set(order)
    (batch,) = found.batches
    np.testing.assert_array_equal(batch["user/0"], order)
    first = [int(np.flatnonzero(ids == i)[0]) for i in order]
    tags = tf.gather(features["tag"], first)
    np.testing.assert_array_equal(batch["tag/0"], tags.values)
    np.testing.assert_array_equal(batch["tag/1"], tags.row_splits)
    for city in (0, 1):  # `click` or `buy`, of the training rows alone.
        took = {int(found.place[ids[i]]) for i, row in enumerate(train)
                if cities[i] == city and row["click"] and ids[i] >= 0}  # fmt: skip
        assert set(found.taken[found.splits[city] : found.splits[city + 1]]) == took and took
    assert len(found.splits) == 4 and found.splits[2] == found.splits[3] == len(found.taken)


def test_it_is_stored_for_later_evaluations(tmp_path, model_of):
    model = model_of(user_id="city")
    columns, files = model.catalogue_columns, [written(tmp_path, "rows", rows_of(40, 1))]
    assert catalogue.load(str(tmp_path), model.spec, columns) is None
    found = catalogue.read(model.spec, columns, files, [])
    found.save(str(tmp_path))
    again = catalogue.load(str(tmp_path), model.spec, columns)
    assert again.digest == found.digest and again.size == found.size
    assert catalogue.read(model.spec, columns, [], files).digest != found.digest  # No history.
    alone = model_of()
    catalogue.read(alone.spec, alone.catalogue_columns, files, []).save(str(tmp_path))
    path = tmp_path / "catalogue.npz"
    with pytest.raises(ek.ConfigError) as error:
        catalogue.load(str(tmp_path), model.spec, columns)
    assert str(error.value) == (
        f"{path}: it was stored with another user_id. Train with --model_params=user_id=..., or "
        "evaluate with the value of the training."
    )
    path.write_bytes(b"PK no archive")
    with pytest.raises(ek.ConfigError, match=r"catalogue\.npz: it cannot be read \(.*Remove it"):
        catalogue.load(str(tmp_path), model.spec, columns)


def test_files_without_an_item(tmp_path, model_of):
    model, rows = model_of(), rows_of(5, 1)
    for row in rows:
        row["user"] = None
    with pytest.raises(ek.ConfigError) as error:
        catalogue.read(model.spec, model.catalogue_columns, [written(tmp_path, "rows", rows)], [])
    assert str(error.value) == (
        "no row of the training and evaluation files has an id of the column 'user' (model "
        "parameter item_id), so nothing can be ranked. Check its vocabulary."
    )


@pytest.mark.parametrize("user_id", [None, "city"])
def test_an_evaluation_equals_numpy(tmp_path, model_of, user_id):
    model, train, later = model_of(user_id=user_id, recall_at=[3]), rows_of(60, 1), rows_of(30, 2)
    later[0]["user"] = None  # A miss.
    later[0]["click"], later[0]["buy"] = 1, 1
    files = [written(tmp_path, "train", train)], [written(tmp_path, "eval", later)]
    known = catalogue.read(model.spec, model.catalogue_columns, *files)
    records = [writing.example(row).SerializeToString() for row in later]

    def input_fn():
        parse = Transform(model.spec).features_and_labels
        batches = tf.data.Dataset.from_tensor_slices(records).batch(7)
        return batches.map(tf.autograph.experimental.do_not_convert(parse))

    def item_fn():
        return input_fn().map(lambda features, labels: features)

    config = tf.estimator.RunConfig(model_dir=str(tmp_path / "model"), tf_random_seed=7)
    made = tf.estimator.Estimator(model, config=config)
    made.train(input_fn, steps=2)
    before = made.evaluate(input_fn)
    assert not any(name.startswith(("recall_at", "unknown_item")) for name in before)
    model.catalogue = known
    found = made.evaluate(input_fn)
    assert {name: found[name] for name in before} == pytest.approx(before, nan_ok=True)

    of_eval = [p["user_vector"] for p in made.predict(item_fn)]
    rows = [*train, *later]
    records = [writing.example(row).SerializeToString() for row in rows]
    vectors = np.array([p["item_vector"] for p in made.predict(item_fn)])
    ids = features_of(model.spec, rows)["user"].numpy()
    order = list(dict.fromkeys(i for i in ids if i >= 0))
    items = vectors[[int(np.flatnonzero(ids == i)[0]) for i in order]]
    targets = known.place[ids[60:]] * (ids[60:] >= 0) - (ids[60:] < 0)
    gone = [set()] * 30
    if user_id is not None:
        cities = features_of(model.spec, later)["city"].numpy()
        taken = [set(known.taken[known.splits[u] : known.splits[u + 1]]) for u in (0, 1)]
        gone = [taken[u] if u < 2 else set() for u in cities]
    ranks, orders = ranks_in_numpy(np.array(of_eval), items, targets, gone)
    # The label `buy` has the weight `click`.
    for name in ("click", "buy"):
        weights = np.array([float(row[name] * row["click"]) for row in later])
        expected = metrics_in_numpy(ranks, orders, targets, weights, 3, len(order))
        assert {n: found[f"{n}/{name}"] for n in expected} == pytest.approx(expected, rel=1e-5)
        assert f"calibration/{name}" not in found
