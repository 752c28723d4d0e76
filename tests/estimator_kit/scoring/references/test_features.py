"""How features become numbers for scikit-learn, with values computed by hand."""

from __future__ import annotations

import numpy as np
import pytest

from estimator_kit.scoring.references import features
from estimator_kit.scoring.references.features import Category, Encoder, LabelMeans
from estimator_kit.scoring.references.rows import Values

NAN = float("nan")


def values(rows, *, single=True, words=False, names=False, dtype=np.int64):
    """Values from a list of lists."""
    flat = [value for row in rows for value in row]
    return Values(np.array(flat, dtype), np.array([len(r) for r in rows]), single, words, names)


def test_codes_begin_with_the_most_frequent_value():
    category = Category(values([[7], [5], [7], [], [9], [5], [7]]))
    assert category.counts.tolist() == [3, 2, 1]
    codes = category.codes(values([[9], [7], [4], []]))
    assert codes.flat.tolist() == [2, 0, -1]  # 4 is new.
    assert features.one_a_row(codes.flat, codes.lengths).tolist()[:3] == [2, 0, -1]
    assert np.isnan(features.one_a_row(codes.flat, codes.lengths)[3])


def test_a_category_without_values():
    category = Category(values([[], []]))
    assert category.codes(values([[3]])).flat.tolist() == [-1]


def test_label_means_leave_out_the_fold_of_the_row():
    """The rows 0 to 4 have the code 0, with the targets 1, 1, 0, 0, 1 in the folds 0 to 4."""
    train = values([[7], [7], [7], [7], [7], [8]])
    codes = Category(train).codes(train)
    target = np.array([1.0, 1, 0, 0, 1, 0])
    folds = np.array([0, 1, 2, 3, 4, 0])
    found = LabelMeans(codes, target, np.ones(6), folds)
    prior = 20 * 0.5  # The mean of all rows, as if 20 rows had it.
    assert found.of_training() == pytest.approx(
        [(2 + prior) / 24, (2 + prior) / 24, (3 + prior) / 24, (3 + prior) / 24, (2 + prior) / 24,
         prior / 20]
    )  # fmt: skip
    others = Category(train).codes(values([[7], [8], [9]]))
    assert found.of_others(others) == pytest.approx([(3 + prior) / 25, prior / 21, 0.5])


def test_columns_of_trees(monkeypatch):
    monkeypatch.setattr(features, "MOST_VALUES", 2)
    train = {
        "price": values([[2.5], []], dtype=np.float64),
        "small": values([[7], [9]], names=True),
        "large": values([[1], [2]], names=True),
        "count": values([[10], [20]]),
        "tags": values([[5, 6], []], single=False, words=True, names=True),
        "vector": values([[1.0, 2.0], [3.0, 4.0]], single=False, dtype=np.float64),
        "curve": values([[1.0, 2.0], []], single=False, dtype=np.float64),
    }
    evaluated = {
        "price": values([[4.0]], dtype=np.float64),
        "small": values([[8]], names=True),
        "large": values([[2]], names=True),
        "count": values([[30]]),
        "tags": values([[6, 9]], single=False, words=True, names=True),
        "vector": values([[5.0, 6.0]], single=False, dtype=np.float64),
        "curve": values([[8.0]], single=False, dtype=np.float64),
    }
    del train["large"], evaluated["large"]
    columns, categories = Encoder(train, evaluated).for_trees(np.ones((2, 1)), np.ones(2))
    # price; small as number and category; count; length and label mean of tags; vector; length and
    # mean of curve.
    assert categories.tolist() == [False, False, True, *[False] * 7]
    np.testing.assert_array_equal(
        columns.train,
        np.array([
            [2.5, 7, 0, 10, 2, 1, 1, 2, 2, 1.5],
            [NAN, 9, 1, 20, 0, NAN, 3, 4, 0, NAN],
        ], np.float32),
    )  # fmt: skip
    np.testing.assert_array_equal(
        columns.evaluated, np.array([[4, 8, NAN, 30, 2, 1, 5, 6, 1, 8]], np.float32)
    )


def test_a_large_category_becomes_its_rank_and_a_label_mean(monkeypatch):
    monkeypatch.setattr(features, "MOST_VALUES", 1)
    train = {"shop": values([[4], [4], [9]], names=True), "count": values([[1], [2], [3]])}
    columns, categories = Encoder(train, train).for_trees(np.ones((3, 1)), np.ones(3))
    # Integers that no column reads as names are only numbers.
    assert not categories.any()
    assert columns.train.tolist() == [[4, 0, 1, 1], [4, 0, 1, 2], [9, 1, 1, 3]]


def test_columns_of_a_linear_model():
    train = {
        "price": values([[1.0], [3.0], []], dtype=np.float64),
        "city": values([[7], [7], [8]], words=True, names=True),
        "tags": values([[5, 6], [5], [6, 5]], single=False, words=True, names=True),
    }
    evaluated = {
        "price": values([[400.0]], dtype=np.float64),
        "city": values([[7]], words=True, names=True),
        "tags": values([[6]], single=False, words=True, names=True),
    }
    found = Encoder(train, evaluated).for_linear()
    # price scaled, and whether it is missing; 7 (8 is there once); the number of tags scaled, not
    # missing; 5 and 6.
    length = (np.array([2, 1, 2]) - 5 / 3) / np.std([2, 1, 2])
    np.testing.assert_allclose(
        found.train.toarray(),
        [
            [-1, 0, 1, length[0], 0, 1, 1],
            [1, 0, 1, length[1], 0, 1, 0],
            [0, 1, 0, length[2], 0, 1, 1],
        ],
    )
    # A number far outside of the training rows counts as 10 deviations.
    np.testing.assert_allclose(found.evaluated.toarray(), [[10, 0, 1, length[1], 0, 0, 1]])


def test_no_feature():
    with pytest.raises(ValueError, match="read no feature that a reference model can use"):
        Encoder({}, {}).for_trees(np.ones((1, 1)), np.ones(1))
