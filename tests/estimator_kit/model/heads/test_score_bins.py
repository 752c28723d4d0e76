"""AUC and average precision are functions of the order of scores alone, against scikit-learn."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
import tensorflow as tf
from sklearn import metrics as sk

from estimator_kit.model.heads import score_bins
from estimator_kit.model.heads.score_bins import Bins

# The bounds of the docstring, where bins are joined.
LARGEST_AUC_ERROR = 1e-3
LARGEST_RELATIVE_ERROR_OF_PRECISION = 1e-3

# Strictly increasing functions of float32 numbers that keep them different: of the numbers, and of
# their places in the order.
TRANSFORMATIONS = {
    "tiny": lambda scores, places: scores * np.float32(2**-99),
    "huge": lambda scores, places: scores * np.float32(2**99),
    "beyond_20": lambda scores, places: 20 + places,
    "cubes": lambda scores, places: np.sign(places - 99.0) * np.abs(places - 99.0) ** 3,
    # Each is the float32 number after the one before it.
    "closest": lambda scores, places: np.float32(1).view(np.int32) + places,
    "closest_below_0": lambda scores, places: np.float32(-1).view(np.int32) - places,
}


def transformed(name, scores):
    different, places = np.unique(scores, return_inverse=True)
    made = TRANSFORMATIONS[name](scores, places.reshape(-1))
    if name.startswith("closest"):
        return made.astype(np.int32).view(np.float32)
    made = made.astype(np.float32)
    assert len(np.unique(made)) == len(different)
    return made


class Streamed:
    """One graph and session, for many evaluations with bins of a small capacity."""

    def __init__(self, capacity):
        with tf.Graph().as_default() as graph:
            self._scores = tf.compat.v1.placeholder(tf.float32, [None])
            self._rows = tf.compat.v1.placeholder(tf.float64, [None, 2])
            self._bins, self._update = score_bins.streaming_bins(
                self._scores, self._rows, "bins", capacity=capacity
            )
            counts = self._bins.counts
            self._values = {
                "auc": score_bins.area_under_roc(counts),
                "precision": score_bins.average_precision(counts),
                "recall_at": score_bins.recall_at_precision(counts, 0.5),
            }
            self._begin = tf.compat.v1.local_variables_initializer()
        self._session = tf.compat.v1.Session(graph=graph)

    def bins(self, scores, labels, weights, *, batch=1000):
        rows = np.stack([labels * weights, (1 - labels) * weights], axis=1)
        self._session.run(self._begin)
        for i in range(0, len(scores), batch):
            part = slice(i, i + batch)
            self._session.run(self._update, {self._scores: scores[part], self._rows: rows[part]})
        return self._session.run(self._bins)

    def values(self, *rows, **options):
        self.bins(*rows, **options)
        return self._session.run(self._values)


@pytest.fixture(scope="module")
def small():
    return Streamed(2**12)


@pytest.fixture(scope="module")
def usual():
    return Streamed(score_bins.CAPACITY)


def drawn(count, share, *, seed=0, distance=1.5):
    """Scores, labels and weights. A quarter of the scores are equal to others."""
    random = np.random.default_rng(seed)
    labels = (random.random(count) < share).astype(np.float64)
    labels[:2] = 0, 1
    scores = (random.normal(size=count) + distance * labels).astype(np.float32)
    scores[: count // 4] = np.round(scores[: count // 4], 2)
    weights = np.where(random.random(count) < 0.1, 0, random.exponential(size=count))
    return scores, labels, np.maximum(weights, labels * 0.01)


def by_scikit_learn(scores, labels, weights):
    return {
        "auc": sk.roc_auc_score(labels, scores, sample_weight=weights),
        "precision": sk.average_precision_score(labels, scores, sample_weight=weights),
    }


@pytest.mark.parametrize("share", [0.001, 0.02, 0.5])
def test_up_to_the_capacity_they_equal_scikit_learns(usual, share):
    scores, labels, weights = drawn(20_000, share)
    expected = by_scikit_learn(scores, labels, weights)
    found = [
        usual.values(transformed(name, scores), labels, weights, batch=batch)
        for name, batch in zip(TRANSFORMATIONS, (20_000, 37_000, 4_999, 777, 9_000, 1_234))
    ]
    for values in found:
        assert values["auc"] == pytest.approx(expected["auc"], rel=1e-12)
        assert values["precision"] == pytest.approx(expected["precision"], rel=1e-12)
        assert values == pytest.approx(found[0], rel=1e-12)


def ordered(order, scores, labels, weights):
    """The rows in an order that is hard for bins which follow the data."""
    by = {
        "drawn": np.arange(len(scores)),
        "negatives_first": np.argsort(labels, kind="stable"),
        "positives_first": np.argsort(-labels, kind="stable"),
        "rising": np.argsort(scores, kind="stable"),
        "falling": np.argsort(-scores, kind="stable"),
        # The best scores come last, when all bins have been made of other scores.
        "best_last": np.argsort(scores > np.quantile(scores, 0.99), kind="stable"),
    }[order]
    return scores[by], labels[by], weights[by]


ORDERS = ("drawn", "negatives_first", "positives_first", "rising", "falling", "best_last")


@pytest.mark.parametrize("order", ORDERS)
def test_beyond_the_capacity_they_depend_on_the_order_alone(usual, order):
    """With 2^17 bins and 300,000 rows, most of which have different scores."""
    scores, labels, weights = ordered(order, *drawn(300_000, 0.003))
    expected = by_scikit_learn(scores, labels, weights)
    names = list(TRANSFORMATIONS)[ORDERS.index(order) % 3 :: 3]
    first, second = (usual.values(transformed(n, scores), labels, weights, batch=50_000)
                     for n in names)  # fmt: skip
    assert first == second  # Not only close: the values of the scores decide nothing.
    assert first["auc"] == pytest.approx(expected["auc"], abs=1e-5)
    assert first["precision"] == pytest.approx(expected["precision"], rel=1e-3)


# Cases with 4,096 bins, which are joined a hundred times, so errors are like the errors of 2^17
# bins and some 10 million rows, and 16 times larger.
@pytest.mark.parametrize("share", [0.001, 0.5])
@pytest.mark.parametrize("order", ["drawn", "best_last"])
def test_many_joins_stay_within_the_bounds(small, share, order):
    rows = ordered(order, *drawn(200_000, share))
    expected, found = by_scikit_learn(*rows), small.values(*rows, batch=2_000)
    assert found["auc"] == pytest.approx(expected["auc"], abs=LARGEST_AUC_ERROR)
    limit = 16 * LARGEST_RELATIVE_ERROR_OF_PRECISION
    assert found["precision"] == pytest.approx(expected["precision"], rel=limit)


@pytest.mark.nightly
@pytest.mark.parametrize("share", [0.001, 0.5])
@pytest.mark.parametrize("distance", [0.5, 5.0])
@pytest.mark.parametrize("order", ORDERS)
def test_millions_of_rows_stay_within_the_bounds(usual, share, distance, order):
    rows = ordered(order, *drawn(2_000_000, share, seed=1, distance=distance))
    expected, found = by_scikit_learn(*rows), usual.values(*rows, batch=20_000)
    assert found["auc"] == pytest.approx(expected["auc"], abs=1e-4)
    limit = LARGEST_RELATIVE_ERROR_OF_PRECISION
    assert found["precision"] == pytest.approx(expected["precision"], rel=limit)


def test_few_scores_are_never_joined(small):
    """However many rows have them, and however rare the positives are."""
    random = np.random.default_rng(3)
    scores = random.integers(-1000, 1000, 100_000).astype(np.float32)
    labels = (random.random(100_000) < 0.001).astype(np.float64)
    weights = random.integers(0, 3, 100_000).astype(np.float64)
    bins = small.bins(scores, labels, weights)
    different = np.unique(scores[weights > 0])
    np.testing.assert_array_equal(bins.scores, different)
    at = np.searchsorted(different, scores[weights > 0])
    kept = (labels * weights)[weights > 0]
    np.testing.assert_allclose(bins.sums[:, 0], np.bincount(at, kept))
    assert small.values(scores, labels, weights)["auc"] == pytest.approx(
        sk.roc_auc_score(labels, scores, sample_weight=weights), rel=1e-12
    )


def test_joined_bins_by_hand():
    """Eight rows with the scores 1 to 8, of which at most 4 bins are left."""
    scores = tf.constant([5.0, 1.0, 2.0, 3.0, 7.0, 6.0, 4.0, 8.0])
    found = score_bins.joined(
        Bins(scores, tf.ones([8, 1], tf.float64)), shares=1, exact=4, most=4
    )  # fmt: skip
    # Shares end at 1/8, 2/8, ..., 1, and logarithms at log(8/7) / log 8, log(8/6) / log 8, ..., 1.
    # The means are 0.09, 0.19, 0.30, 0.42, 0.55, 0.71, 0.94 and 1, in units of 0.5: the first four
    # scores are in the first unit. The fifth crosses its end, and the eighth the second unit's.
    assert found.scores.numpy().tolist() == [2, 5, 6, 8]
    assert found.sums.numpy().tolist() == [[4], [1], [2], [1]]


@pytest.mark.parametrize("most", [4, 10, 64, 1000])
def test_joined_bins_keep_sums_and_limits(most):
    random = np.random.default_rng(most)
    scores = random.normal(size=5_000).astype(np.float32)
    sums = random.exponential(size=(5_000, 2)) * (random.random((5_000, 2)) < [0.01, 1])
    bins = Bins(tf.constant(scores), tf.constant(sums))
    found = score_bins.joined(bins, shares=2, exact=most, most=most)
    assert most // 4 <= len(found.scores) <= most
    np.testing.assert_allclose(found.sums.numpy().sum(axis=0), sums.sum(axis=0))
    # A joined bin has at most 3 units of the share of each sum; a single score may have more.
    order = np.sort(scores)
    shares = found.sums.numpy() / sums.sum(axis=0)
    largest = (sums / sums.sum(axis=0)).max(axis=0)
    assert (shares <= np.maximum(3 / (most // 2), largest) + 1e-12).all()
    assert np.isin(found.scores, order).all()


def test_bins_of_two_evaluators_can_be_joined(usual):
    """Each has half of the rows. Together they have the AUC of all rows."""
    scores, labels, weights = drawn(300_000, 0.01)
    halves = [usual.bins(*(each[i::2] for each in (scores, labels, weights))) for i in (0, 1)]
    both = Bins(*(tf.concat(parts, axis=0) for parts in zip(*halves)))
    found = score_bins.area_under_roc(score_bins.merged(both).counts)
    expected = by_scikit_learn(scores, labels, weights)["auc"]
    assert float(found) == pytest.approx(expected, abs=1e-5)


def test_without_rows_nothing_is_defined(small):
    nothing = np.zeros(0)
    assert all(np.isnan(v) for v in small.values(nothing, nothing, nothing).values())
    zeros = np.zeros(5_000)
    values = small.values(zeros.astype("f"), zeros, zeros)
    assert all(np.isnan(value) for value in values.values())


def test_infinite_scores_have_an_order(small):
    scores = np.array([-np.inf, -1, -0.0, 0.0, 3, np.inf], "f")
    labels = np.array([0.0, 1, 0, 1, 0, 1])
    places = np.array([0.0, 1, 2, 2, 3, 4])
    expected = by_scikit_learn(places, labels, np.ones(6))
    found = small.values(scores, labels, np.ones(6))
    assert (found["auc"], found["precision"]) == pytest.approx(tuple(expected.values()))


def test_a_graph_does_not_outlive_its_evaluation():
    """Otherwise a training that evaluates often keeps the graph of each evaluation."""
    with tf.Graph().as_default() as graph:
        score_bins.streaming_bins(tf.constant([0.5]), tf.ones([1, 2]), "bins", capacity=64)
    left = weakref.ref(graph)
    del graph
    gc.collect()
    assert left() is None
