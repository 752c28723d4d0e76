"""Which features name persons, queries and items: by name, count, and what belongs to them."""

from __future__ import annotations

import numpy as np
import pytest

from feature_specs.statistics import Cardinality, FeatureStatistics, Lengths, Statistics
from input_pipelines.prepare.analyze import roles

pytestmark = pytest.mark.no_tensorflow

ROWS = 1000


def statistics(counts, dtype="int64", rows=ROWS):
    """Statistics of features with these numbers of different values."""
    features = {
        name: FeatureStatistics(
            dtype=dtype, missing=0, values=rows,
            lengths=Lengths(min=1, max=1, mean=1.0, counts={"1": rows}),
            cardinality=Cardinality(value=count, exact=True), numbers=None, words=None,
        )
        for name, count in counts.items()
    }  # fmt: skip
    return Statistics(version=1, rows=rows, files=1, features=features)


@pytest.mark.parametrize(
    "role, names, others",
    [
        ("person", "user_id userID uid customerID session_id user", "used_id member_since pid"),
        ("query", "qid query_id srch_id SearchId", "query equipment_id"),
        ("item", "item_id movie_id sku adId item", "items broad_id"),
        ("time", "ts timestamp click_time created_at date position", "times lifetime daylight"),
    ],
)
def test_names(role, names, others):
    assert [name for name in names.split() if not roles.named(role, name)] == []
    assert [name for name in others.split() if roles.named(role, name)] == []


@pytest.mark.parametrize(
    "count, person",
    [(2, None), (19, None), (20, "user_id"), (666, "user_id"), (700, None), (1000, None)],
)  # fmt: skip
def test_an_id_has_many_values_and_several_rows_for_each(count, person):
    assert roles.recognized(statistics({"user_id": count, "click": 2}), ["click"]).person == person


def test_floats_and_labels_have_no_role():
    assert roles.recognized(statistics({"user_id": 50}, "float32"), []) == roles.Roles()
    assert roles.recognized(statistics({"user_id": 50}), ["user_id"]) == roles.Roles()


def test_what_belongs_to_an_id():
    rng = np.random.default_rng(0)
    user, item = rng.integers(0, 50, ROWS), rng.integers(0, 40, ROWS)
    age = user % 7
    sample = {
        "user_id": user, "item_id": item, "age": age, "price": item // 3, "click": user % 2,
        "noise": rng.integers(0, 9, ROWS), "always": np.zeros(ROWS, np.int64),
        # 5 of 1,000 rows differ, which may be mistakes.
        "city": np.where(np.arange(ROWS) % 200 == 199, 99, user % 5),
    }  # fmt: skip
    counts = {name: len(np.unique(values)) for name, values in sample.items()}
    found = roles.recognized(statistics(counts), ["click"], sample)
    assert found == roles.Roles(
        person="user_id", item="item_id", group="user_id", of_person=("age", "city"),
        of_item=("price",), of_group=("age", "city"), shared_labels=("click",),
    )  # fmt: skip
    # Without a sample, names and counts still decide.
    found = roles.recognized(statistics(counts), ["click"])
    assert (found.person, found.of_person, found.shared_labels) == ("user_id", (), ())


def test_an_id_without_a_name_has_many_features():
    rng = np.random.default_rng(0)
    iid = rng.integers(0, 50, ROWS)
    sample = {"iid": iid, **{f"f{i}": iid % (i + 2) for i in range(5)}}
    counts = {name: len(np.unique(values)) for name, values in sample.items()}
    found = roles.recognized(statistics(counts), [], sample)
    assert (found.group, found.of_group, found.person) == (
        "iid", ("f0", "f1", "f2", "f3", "f4"), None,
    )  # fmt: skip
    del sample["f0"]
    assert roles.recognized(statistics(counts), [], sample).group is None


def test_rows_without_the_id_belong_to_nothing():
    user = np.where(np.arange(ROWS) % 2, np.arange(ROWS) % 50, -1)
    sample = {"user_id": user, "age": np.where(user < 0, np.arange(ROWS), user % 7)}
    found = roles.recognized(statistics({"user_id": 50, "age": 100}), [], sample)
    assert found.of_person == ("age",)
