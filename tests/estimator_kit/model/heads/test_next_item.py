"""The head next_item against NumPy: losses, gradients, masks, ranks and metrics."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from estimator_kit.model.heads import item_metrics, next_item, sampled_items
from estimator_kit.model.heads.base import Batch
from estimator_kit.model.heads.item_metrics import NO_STEP
from estimator_kit.model.heads.steps import StepScores
from feature_specs.heads import NextItem
from input_pipelines.transform.labels import NO_ITEM, NO_LABEL
from tests.estimator_kit.model.heads.test_objectives import make

LABEL = {"dtype": "int64", "shape": "variable"}
ITEMS = 20
RNG = np.random.default_rng(5)


def objective(loss="softmax_cross_entropy", **fields):
    return make({"head": "next_item", "items": "item", "loss": loss, **fields}, LABEL)


def loss_entry(loss):
    return NextItem.model_validate({"head": "next_item", "items": "item", "loss": loss}).loss


def softmax(values):
    shifted = np.exp(values - values.max(axis=-1, keepdims=True))
    return shifted / shifted.sum(axis=-1, keepdims=True)


def sigmoid(values):
    return 1 / (1 + np.exp(-values))


# --- Sampling ------------------------------------------------------------------------------------


@pytest.mark.parametrize("negatives", ["log_uniform", "uniform", "in_batch", "mixed"])
def test_the_gradient_of_the_sampled_softmax_equals_numpys(negatives):
    """With the correction log q, for the states, the table and the bias."""
    n, width, samples = 6, 4, 5
    states = RNG.normal(size=(n, width)).astype("f")
    table = RNG.normal(size=(ITEMS + 3, width)).astype("f")  # With out-of-vocabulary rows.
    bias = RNG.normal(size=ITEMS).astype("f")
    targets = np.array([0, 3, 3, 7, 19, 1])
    loss = loss_entry({"sampled_softmax": {"samples": samples, "negatives": negatives}})
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.compat.v1.set_random_seed(3)
        tf.compat.v1.train.get_or_create_global_step()
        given = [tf.constant(x) for x in (states, table, bias)]
        drawn = {}

        def remember(*arguments):
            drawn["sampled"] = original(*arguments)
            return drawn["sampled"]

        original, sampled_items.draw = sampled_items.draw, remember
        try:
            scores = StepScores(given[0][:, tf.newaxis], tf.ones(n, tf.int64), *given[1:])
            losses = next_item.step_losses(
                loss, scores, given[0], tf.constant(targets), ITEMS, "scope"
            )
        finally:
            sampled_items.draw = original
        dense = [tf.convert_to_tensor(g) for g in tf.gradients(tf.reduce_sum(losses), given)]
        reference = tf.nn.sampled_softmax_loss(
            given[1][:ITEMS], given[2], targets[:, None], given[0], samples, ITEMS,
            sampled_values=(
                drawn["sampled"].ids,
                tf.exp(drawn["sampled"].log_q_targets)[:, None],
                tf.exp(drawn["sampled"].log_q),
            ),
        )  # fmt: skip
        session.run(tf.compat.v1.global_variables_initializer())
        for v in tf.compat.v1.global_variables():  # Items of earlier batches; p from 1/5 to 1.
            known = np.r_[[1] * 15, [0] * 6] * (np.arange(ITEMS + 1) % 5 + 1)
            v.load(known if "item_frequency" in v.op.name else 9, session)
        found, gradients, theirs, (ids, log_q, log_q_targets) = session.run(
            [losses, dense, reference, drawn["sampled"]]
        )
    assert len(ids) == samples
    if negatives == "mixed":
        assert len(set(log_q)) > 2
    else:
        assert len(set(ids)) == samples
    columns = np.concatenate([targets[:, None], np.tile(ids, (n, 1))], axis=1)
    log_qs = np.concatenate([log_q_targets[:, None], np.tile(log_q, (n, 1))], axis=1)
    logits = np.einsum("nw,nkw->nk", states, table[columns]) + bias[columns] - log_qs
    logits[:, 1:][columns[:, 1:] == targets[:, None]] = -np.inf
    p = softmax(logits)
    np.testing.assert_allclose(found, -np.log(p[:, 0]), rtol=1e-4)
    np.testing.assert_allclose(found, theirs, rtol=1e-4)
    p[:, 0] -= 1  # Now the gradient of the logits.
    of_table, of_bias = np.zeros_like(table), np.zeros_like(bias)
    for i in range(n):
        np.add.at(of_table, columns[i], p[i][:, None] * states[i])
        np.add.at(of_bias, columns[i], p[i])
    of_states = np.einsum("nk,nkw->nw", p, table[columns])
    for ours, expected in zip(gradients, (of_states, of_table, of_bias)):
        np.testing.assert_allclose(ours, expected, atol=1e-5)


def test_log_q_is_the_expected_number_of_samples():
    """The samplers draw until they have enough different items: q = 1 - (1 - p)^tries."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.compat.v1.set_random_seed(4)
        targets = tf.constant([0, 5], tf.int64)
        many = loss_entry({"sampled_softmax": {"samples": 999}})
        few = loss_entry({"sampled_softmax": {"samples": 12}})
        all_of_them, some = session.run(
            [
                sampled_items.draw(many.sampled_softmax, targets, ITEMS, "a"),
                sampled_items.draw(few.sampled_softmax, targets, ITEMS, "b"),
            ]
        )
    assert sorted(all_of_them.ids) == list(range(ITEMS))  # Not more samples than items.
    p = (np.log(np.arange(ITEMS) + 2) - np.log(np.arange(ITEMS) + 1)) / np.log(ITEMS + 1)
    # TensorFlow does not report the number of tries, but it is the same for all items.
    tries = np.log1p(-np.exp(some.log_q_targets)) / np.log1p(-p[[0, 5]])
    assert tries[0] == pytest.approx(tries[1], rel=1e-3)
    expected = 1 - (1 - p[some.ids]) ** tries[0]
    np.testing.assert_allclose(np.exp(some.log_q), expected, rtol=1e-3)


def test_items_in_the_batch_are_corrected_by_how_often_batches_have_them():
    """Item 2 is in every batch, item 9 in every second one, and no item counts twice."""
    options = loss_entry({"sampled_softmax": {"negatives": "in_batch"}}).sampled_softmax
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        step = tf.compat.v1.train.get_or_create_global_step()
        targets = tf.compat.v1.placeholder(tf.int64, [None])
        drawn = sampled_items.draw(options, targets, ITEMS, "objectives/next")
        updates = tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.UPDATE_OPS)
        with tf.control_dependencies(updates):
            trained = tf.compat.v1.assign_add(step, 1)
        names = [v.op.name for v in tf.compat.v1.global_variables()]
        session.run(tf.compat.v1.global_variables_initializer())
        for i in range(40):
            batch = [2, 2, 9] if i % 2 else [2, 4 + i % 3]
            found = session.run([drawn, trained], {targets: batch})[0]
    assert "objectives/next/item_frequency/gap" in names
    by_id = dict(zip(found.ids, found.log_q))
    assert sorted(by_id) == [2, 9]
    assert by_id[2] == pytest.approx(0, abs=0.3)
    assert by_id[9] == pytest.approx(np.log(0.5), abs=0.1)
    np.testing.assert_array_equal(found.log_q_targets, [by_id[2], by_id[2], by_id[9]])


def test_half_of_a_mixed_sample_is_from_the_batch():
    """The example of `sampled_items._mixed`: q of both halves together."""
    options = loss_entry({"sampled_softmax": {"samples": 20, "negatives": "mixed"}})
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        step = tf.compat.v1.train.get_or_create_global_step()
        targets = tf.compat.v1.placeholder(tf.int64, [None])
        drawn = sampled_items.draw(options.sampled_softmax, targets, 1000, "objectives/next")
        session.run(tf.compat.v1.global_variables_initializer())
        gaps = np.zeros(1001)
        gaps[:45] = 2  # Each is in every second batch, and now too.
        for v in tf.compat.v1.global_variables():
            if v is not step:
                v.load(gaps if v.op.name.endswith("gap") else (gaps > 0) * 5, session)
        step.load(6, session)
        batch = np.repeat(np.arange(40), 2)  # 40 items: a quarter stays.
        found, other = session.run(drawn, {targets: batch}), session.run(drawn, {targets: [3, 3]})
        none = session.run(drawn, {targets: []})
    assert set(found.ids[:10]) <= set(range(40)) and len(set(found.ids[:10])) == 10
    assert len(set(found.ids[10:])) == 10 and found.ids[10:].max() > 45
    q = np.where(found.ids < 45, 0.5 / 4 + 0.01, 0.01)
    np.testing.assert_allclose(np.exp(found.log_q), q, rtol=1e-5)
    np.testing.assert_allclose(np.exp(found.log_q_targets), 0.135, rtol=1e-5)
    # A batch with few items has fewer samples, which all stay.
    assert other.ids[0] == 3 and len(other.ids) == 11
    np.testing.assert_allclose(np.exp(other.log_q_targets), 0.51, rtol=1e-5)
    assert len(none.ids) == 10
    np.testing.assert_allclose(np.exp(none.log_q), 0.01, rtol=1e-5)


def test_q_of_a_mixed_sample_is_the_expected_number_of_times():
    """Over many batches of Zipf items. The sums of 1 / q estimate the number of items."""
    items, rng = 30, np.random.default_rng(3)
    options = loss_entry({"sampled_softmax": {"samples": 8, "negatives": "mixed"}})
    popular = 1 / (np.arange(items) + 1.0)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.compat.v1.set_random_seed(3)
        step = tf.compat.v1.train.get_or_create_global_step()
        targets = tf.compat.v1.placeholder(tf.int64, [None])
        drawn = sampled_items.draw(options.sampled_softmax, targets, items, "objectives/next")
        updates = tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.UPDATE_OPS)
        with tf.control_dependencies([drawn.log_q, *updates]):
            trained = tf.compat.v1.assign_add(step, 1)
        session.run(tf.compat.v1.global_variables_initializer())
        sums = []
        for _ in range(1500):
            batch = rng.choice(items, 12, p=popular / popular.sum())
            found = session.run([drawn, trained], {targets: batch})[0]
            sums.append(np.bincount(found.ids, np.exp(-found.log_q), items))
    # Each item counts 1 on average: what the correction promises.
    np.testing.assert_allclose(np.mean(sums[500:], axis=0), 1, atol=0.2)


# --- Losses --------------------------------------------------------------------------------------


def by_hand(name, own, others):
    if name == "bpr":
        return np.mean(-np.log(sigmoid(own - others)))
    if name == "bpr_max":
        w = softmax(others)
        return -np.log(np.sum(w * sigmoid(own - others))) + 1.0 * np.sum(w * others**2)
    return -np.log(np.exp(own) / (np.exp(own) + np.exp(others).sum()))


@pytest.mark.parametrize("name", ["softmax_cross_entropy", "sampled_softmax", "bpr", "bpr_max"])
def test_evaluation_uses_all_other_items_as_negatives(name):
    logits = RNG.normal(size=(3, ITEMS)).astype("f")
    labels = np.array([[4, 9, NO_STEP], [0, 1, 2], [5, -1, NO_STEP]])
    found = objective(name).row_losses(tf.constant(logits), tf.constant(labels))
    expected = [
        by_hand(name, logits[i, own], np.delete(logits[i], own)) for i, own in ((0, 9), (1, 2))
    ]
    np.testing.assert_allclose(found, [*expected, 0], rtol=1e-5)


@pytest.mark.parametrize("name", ["bpr", "bpr_max", "sampled_softmax"])
def test_a_loss_without_a_negative_is_finite_and_has_a_gradient(name):
    own, others = tf.constant([2.0, 1.0]), tf.constant([[2.0, 0.0], [1.0, 1.0]])
    there = tf.constant([[False, True], [False, False]])
    with tf.GradientTape() as tape:
        tape.watch([own, others])
        losses = next_item.negatives_loss(loss_entry(name), own, others, there)
    gradients = tape.gradient(losses, [own, others])
    assert np.isfinite(np.concatenate([losses, *(np.ravel(g) for g in gradients)])).all()
    assert losses.numpy()[0] == pytest.approx(np.log1p(np.exp(-2)), rel=1e-5)
    assert losses.numpy()[1] == 0
    assert gradients[1].numpy()[0, 0] == 0  # The item is not its own negative.


# --- Masks ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["softmax_cross_entropy", "bpr_max"])
def test_masked_steps_have_no_influence(name):
    """Neither padding, nor a step without an item in the catalogue, nor a row of weight 0."""
    hidden = RNG.normal(size=(3, 4, 5)).astype("f")
    table = RNG.normal(size=(ITEMS, 5)).astype("f")
    labels = np.array([[3, -1, 7, NO_STEP], [1, NO_STEP, NO_STEP, NO_STEP], [2, 2, 2, 2]])
    made = objective(
        {"bpr_max": {"samples": 50, "negatives": "uniform"}} if "bpr" in name else name
    )

    def loss_and_gradient(states):
        states = tf.constant(states)
        with tf.GradientTape() as tape:
            tape.watch(states)
            scores = StepScores(states, tf.constant([3, 1, 4], tf.int64), tf.constant(table))
            loss = made.loss(scores, tf.constant(labels), tf.constant([1.0, 2.0, 0.0]))
        return float(loss), tape.gradient(loss, states).numpy()

    loss, gradient = loss_and_gradient(hidden)
    logits = hidden[[0, 0, 1], [0, 2, 0]] @ table.T
    kind = "softmax" if name == "softmax_cross_entropy" else name
    steps = [
        by_hand(kind, logits[i, own], np.delete(logits[i], own)) for i, own in enumerate((3, 7, 1))
    ]
    assert loss == pytest.approx((steps[0] + steps[1] + 2 * steps[2]) / 4, rel=1e-5)
    masked = (labels < 0) | (np.arange(3) == 2)[:, None]
    assert (gradient[masked] == 0).all() and (gradient[~masked] != 0).all()
    other = np.where(masked[:, :, None], hidden + 9, hidden)
    assert loss_and_gradient(other)[0] == pytest.approx(loss, rel=1e-5)


def test_a_batch_without_a_label_has_the_loss_0():
    scores = StepScores(tf.ones([2, 1, 5]), tf.ones(2, tf.int64), tf.ones([ITEMS, 5]))
    for loss in ("softmax_cross_entropy", "bpr"):
        options = loss if loss != "bpr" else {"bpr": {"negatives": "uniform"}}
        found = objective(options).loss(
            scores, tf.constant([[-1], [NO_STEP]], tf.int64), tf.ones(2)
        )
        assert float(found) == 0


def test_the_last_step_is_scored():
    hidden, table = RNG.normal(size=(3, 2, 4)).astype("f"), RNG.normal(size=(7, 4)).astype("f")
    bias = RNG.normal(size=5).astype("f")
    scores = StepScores(tf.constant(hidden), tf.constant([2, 1, 0], tf.int64), table, bias)
    states = np.stack([hidden[0, 1], hidden[1, 0], np.zeros(4)])
    np.testing.assert_allclose(scores.last(5), states @ table[:5].T + bias, atol=1e-5)


# --- Ranks and metrics ---------------------------------------------------------------------------


def ranks_by_hand(scores, targets, seen=None):
    found = []
    for i, target in enumerate(targets):
        hidden = set() if seen is None else {s for s in seen[i] if s >= 0}
        order = [j for j in np.lexsort((np.arange(ITEMS), -scores[i])) if j not in hidden]
        found.append(order.index(target) + 1 if target in order else np.inf)
    return np.array(found)


def stream(made, batches):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        holders = [
            tf.compat.v1.placeholder(tf.float32, [None, ITEMS]),
            tf.compat.v1.placeholder(tf.int64, [None, None]),
            tf.compat.v1.placeholder(tf.float32, [None]),
            tf.compat.v1.placeholder(tf.int64, [None, None]),
        ]
        seen = holders[3] if made.config.reads_seen else None
        metrics = made.metrics(Batch(*holders[:3], seen=seen))
        session.run(tf.compat.v1.local_variables_initializer())
        for batch in batches:
            session.run([update for _, update in metrics.values()], dict(zip(holders, batch)))
        return session.run({name: value for name, (value, _) in metrics.items()})


@pytest.mark.parametrize("exclude_seen", [False, True])
def test_metrics_over_the_whole_catalogue_equal_numpys(exclude_seen):
    rows, steps = 40, 3
    scores = RNG.integers(0, 9, (rows, ITEMS)).astype("f")  # With many ties.
    labels = RNG.integers(-1, ITEMS, (rows, steps))
    labels[::9] = NO_LABEL
    lengths = RNG.integers(0, steps + 1, rows)
    labels[np.arange(steps) >= lengths[:, None]] = NO_STEP
    seen = RNG.integers(0, ITEMS, (rows, steps))
    seen[np.arange(steps) >= lengths[:, None]] = NO_STEP
    weights = RNG.integers(0, 3, rows).astype("f")
    last = np.array([row[n - 1] if n else NO_STEP for row, n in zip(labels, lengths)])
    made = objective(
        metrics=["mrr", {"recall": 3}, {"hit_rate": 3}, {"ndcg": 5}], exclude_seen=exclude_seen
    )
    batch = [scores, labels, weights, seen]
    found = stream(made, [[x[:13] for x in batch], [x[13:] for x in batch]])
    known = last >= 0
    rank = ranks_by_hand(scores[known], last[known], seen[known] if exclude_seen else None)
    w, all_rows = weights[known], weights[(last >= 0) | (last == NO_ITEM)].sum()
    expected = {
        "weight_sum": w.sum(),
        "mrr": w @ (1 / rank) / all_rows,
        "recall_at_3": w @ (rank <= 3) / all_rows,
        "hit_rate_at_3": w @ (rank <= 3) / all_rows,
        "ndcg_at_5": w @ np.where(rank <= 5, 1 / np.log2(1 + rank), 0) / all_rows,
        "loss": w @ -np.log(softmax(scores[known])[np.arange(known.sum()), last[known]]) / w.sum(),
        "unknown_item_share": weights[last == NO_ITEM].sum() / all_rows,
    }
    assert np.isinf(rank).any() == exclude_seen
    assert set(found) == set(expected)
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, rel=1e-5), name


def spread_by_hand(k, scores, weights, seen, *, exclude_seen):
    """The coverage and the popularity lift at k, with Python's sets."""
    best, taken = [], [{s for s in row if s >= 0} for row in seen]
    for row, own in zip(scores, taken):
        order = [
            j for j in np.lexsort((np.arange(ITEMS), -row)) if not exclude_seen or j not in own
        ]
        best.append(set(order[:k]))
    counted = [i for i, weight in enumerate(weights) if weight > 0]
    coverage = len(set().union(*(best[i] for i in counted))) / ITEMS
    users = [i for i in counted if taken[i]]
    popularity = np.zeros(ITEMS)
    for i in users:
        popularity[list(taken[i])] += weights[i]

    def average(sets):
        return sum(weights[i] * popularity[list(sets[i])].mean() for i in users)

    return coverage, average(best) / average(taken) - 1


@pytest.mark.parametrize("exclude_seen", [False, True])
def test_coverage_and_popularity_lift_equal_sets_of_items(exclude_seen):
    rows, steps = 40, 5
    scores = RNG.integers(0, 9, (rows, ITEMS)).astype("f") - np.arange(ITEMS)  # The first ids.
    labels = RNG.integers(-1, ITEMS, (rows, steps))
    lengths = RNG.integers(1, steps + 1, rows)
    labels[np.arange(steps) >= lengths[:, None]] = NO_STEP
    # With repeated items, items outside of the catalogue, and rows without an item.
    seen = np.minimum(RNG.integers(-1, 2 * ITEMS, (rows, steps)) // 2, ITEMS - 1)
    seen[np.arange(steps) >= lengths[:, None]] = NO_STEP
    seen[3:6] = -1
    weights = RNG.integers(0, 3, rows).astype("f")
    chosen = [{"coverage": 2}, {"coverage": 7}, {"popularity_lift": 2}, {"popularity_lift": 7}]
    made = objective(metrics=chosen, exclude_seen=exclude_seen)
    batch = [scores, labels, weights, seen]
    found = stream(made, [[x[:13] for x in batch], [x[13:] for x in batch]])
    for k in (2, 7):
        coverage, lift = spread_by_hand(k, scores, weights, seen, exclude_seen=exclude_seen)
        assert found[f"coverage_at_{k}"] == pytest.approx(coverage, rel=1e-12)
        assert found[f"popularity_lift_at_{k}"] == pytest.approx(lift, rel=1e-9)
    nothing = stream(made, [[x[:0] for x in batch]])
    assert np.isnan(nothing["coverage_at_2"]) and np.isnan(nothing["popularity_lift_at_2"])


def test_the_example_of_the_docstring_of_item_spread():
    scores = np.zeros((3, ITEMS), "f")  # Of equal scores, the smaller id comes first.
    labels, seen = np.full((3, 2), 4), np.array([[0, NO_STEP], [0, 1], [0, 2]])
    made = objective(metrics=[{"coverage": 1}, {"popularity_lift": 1}])
    found = stream(made, [[scores, labels, np.ones(3, "f"), seen]])
    assert found["popularity_lift_at_1"] == pytest.approx(9 / 7 - 1, rel=1e-12)
    assert found["coverage_at_1"] == pytest.approx(1 / ITEMS)
    np.testing.assert_array_equal(
        item_metrics.once(tf.constant([[7, 2, 7, -2]], tf.int64)), [[-1, 2, 7, -1]]
    )


def test_seen_items_of_a_row():
    found = item_metrics.seen_mask(tf.constant([[2, 2, NO_STEP], [-1, 0, 3]], tf.int64), 4)
    np.testing.assert_array_equal(found, [[0, 0, 1, 0], [1, 0, 0, 1]])
