"""The best items of a row against NumPy, ties, options, and the names of ids."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import feature_specs
from estimator_kit.model.heads import top_items
from estimator_kit.model.heads.top_items import NO_SCORE, Options

RNG = np.random.default_rng(2)


def best(scores, k, seen=None, *, exclude_seen=True, default_k=3):
    """One k and one `exclude_seen` for all rows, or a list with one for each."""
    count = len(scores)
    hidden = np.zeros(np.shape(scores), bool) if seen is None else seen
    each = [v if isinstance(v, list) else [v] * count for v in (k, exclude_seen)]
    chosen = Options(tf.constant(each[0], tf.int32), tf.constant(each[1], tf.bool))
    ids, found = top_items.top_items(tf.constant(scores), tf.constant(hidden), chosen, default_k)
    return ids.numpy(), found.numpy()


def test_the_best_items_equal_numpys():
    scores = RNG.integers(0, 6, (30, 12)).astype("f")  # With ties.
    seen = RNG.random((30, 12)) < 0.3
    for hidden, exclude in ((seen, True), (seen, False), (None, True)):
        ids, found = best(scores, 5, hidden, exclude_seen=exclude)
        gone = hidden if hidden is not None and exclude else np.zeros_like(seen)
        masked = np.where(gone, -np.inf, scores)
        order = np.argsort(-masked, axis=1, kind="stable")[:, :5]
        np.testing.assert_array_equal(ids, order)
        np.testing.assert_array_equal(found, np.take_along_axis(scores, order, 1))


def test_more_items_than_there_are():
    """All items for a large k; places without an item for a row that has seen too many."""
    scores = np.array([[1.0, 3.0, 2.0], [4.0, 5.0, 6.0]], "f")
    ids, found = best(scores, 99)
    assert ids.tolist() == [[1, 2, 0], [2, 1, 0]]
    seen = np.array([[False, True, True], [False, False, False]])
    ids, found = best(scores, 2, seen)
    assert ids.tolist() == [[0, -1], [2, 1]]
    assert found.tolist() == [[1.0, NO_SCORE], [6.0, 5.0]]


def test_each_row_has_its_options():
    """As in a batch that TensorFlow Serving makes of several requests."""
    scores = np.array([[1.0, 3.0, 2.0, 0.0]] * 4, "f")
    seen = np.array([[False, True, True, False]] * 4)
    ids, found = best(scores, [1, 4, 0, 2], seen, exclude_seen=[False, True, True, False])
    assert ids.tolist() == [[1, -1, -1, -1], [0, 3, -1, -1], [0, 3, -1, -1], [1, 2, -1, -1]]
    low = NO_SCORE
    assert found.tolist() == [
        [3.0, low, low, low], [1.0, 0.0, low, low], [1.0, 0.0, low, low], [3.0, 2.0, low, low],
    ]  # fmt: skip
    # The answers of a row do not depend on its neighbors.
    for row, (k, exclude) in enumerate([(1, False), (4, True), (3, True), (2, False)]):
        alone, _ = best(scores[:1], k, seen[:1], exclude_seen=exclude)
        assert ids[row, : alone.shape[1]].tolist() == alone[0].tolist()


def test_a_request_without_rows():
    ids, found = best(np.zeros((0, 3), "f"), [])
    assert ids.shape == found.shape == (0, 0)


def test_a_k_of_0_is_the_one_of_the_objective():
    ids, _ = best(np.array([[1.0, 3.0, 2.0]], "f"), 0, default_k=2)
    assert ids.tolist() == [[1, 2]]
    message = "the input k must be 1 or more, or 0 for the top_k of the objective."
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        best(np.zeros((1, 3), "f"), -1)


@pytest.mark.parametrize(
    ("k", "exclude_seen", "message"),
    [
        ([1], [True, True], "the tensors differ in their number of rows: examples, k, exclude_see"),
        ([1, 1], [True], "the tensors differ in their number of rows: examples, k, exclude_seen"),
        (1, [True, True], "not compatible with expected shape"),
    ],
)
def test_options_that_do_not_fit_the_rows(k, exclude_seen, message):
    zeros = tf.zeros([2, 3])
    chosen = Options(tf.constant(k, tf.int32), tf.constant(exclude_seen))

    @tf.function
    def ask(k, exclude_seen):
        return top_items.top_items(zeros, zeros > 0, Options(k, exclude_seen), 3)

    shapes = [tf.TensorSpec(None, value.dtype) for value in chosen]
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        ask.get_concrete_function(*shapes)(*chosen)


@pytest.mark.parametrize(
    ("column", "dtype", "names"),
    [
        ({"vocabulary": "item", "list": ["a", "b"], "oov_buckets": 1}, "string", [b"b", b"", b"a"]),
        ({"vocabulary": "item", "list": [70, 8]}, "int64", [b"8", b"", b"70"]),
        ({"identity": "item", "size": 9}, "int64", [b"1", b"", b"0"]),
        ({"hash_bucket": "item", "size": 9}, "string", [b"1", b"", b"0"]),
    ],
)
def test_names_of_ids(column, dtype, names):
    spec = feature_specs.parse(
        {
            "features": {"item": {"dtype": dtype, "shape": "variable"}},
            "columns": {"item": {**column, "sequence": True}, "hot": {"indicator": "item"}},
            "groups": {"steps": ["hot"]},
            "labels": {"next": {"dtype": dtype, "shape": "variable"}},
            "objectives": {"next": {"head": "next_item", "items": "item"}},
        }
    )
    found = top_items.names_of(spec, "item", tf.constant([1, -1, 0], tf.int64))
    assert found.numpy().tolist() == names
