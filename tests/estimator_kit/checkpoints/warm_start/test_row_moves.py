"""How rows and logits of an older model move, computed by hand."""

from __future__ import annotations

import numpy as np
import pytest

import estimator_kit as ek
from estimator_kit.checkpoints.warm_start.row_moves import (
    ColumnsOfTables,
    MeaningError,
    changed_objectives,
    is_new_column,
    logit_move,
    moved,
    row_move,
)

pytestmark = pytest.mark.no_tensorflow


@pytest.fixture
def specs(document, tmp_path):
    """Makes the usual spec, and the spec after `change` has changed its document."""

    def make(change):
        old = ek.parse_spec(document, directory=tmp_path)
        change(document)
        return old, ek.parse_spec(document, directory=tmp_path)

    return make


def city(**fields):
    def change(document):
        document["columns"]["city"] = {"vocabulary": "city", "oov_buckets": 1, **fields}
        document["columns"].pop("city_x_tag")
        document["groups"]["wide"].remove("city_x_tag")

    return change


@pytest.mark.parametrize(
    ("fields", "rows"),
    [
        ({"list": ["oslo", "rome"]}, [1, 0, 2]),
        ({"list": ["lima", "oslo", "bern"]}, [-1, 1, -1, 2]),
        ({"list": ["rome"]}, [0, 2]),
        ({"list": ["rome", "oslo"], "oov_buckets": 3}, [0, 1, -1, -1, -1]),
        ({"list": ["rome", "oslo"], "oov_buckets": 0, "default_id": 1}, [0, 1]),
        ({"list": ["rome", "oslo"]}, None),
        ({"file": "cities.txt"}, [1, -1, 0, 2]),
        ({"file": "cities.txt", "size": 2}, [1, -1, 2]),
    ],
)
def test_words_take_their_rows_along(specs, tmp_path, fields, rows):
    (tmp_path / "cities.txt").write_text("oslo\nbern\nrome\n")
    old, new = specs(city(**fields))
    move = row_move(old, "city", new, "city")
    assert rows is None if move is None else move.tolist() == rows


def test_what_has_no_words_must_be_made_alike(specs):
    def change(document):
        document["columns"]["user"]["size"] = 21
        document["columns"]["tag_emb"]["combiner"] = "sum"
        document["columns"]["user_emb"].update(trainable=False, initializer={"zeros": True})
        document["columns"]["city"]["list"] = ["rome", "oslo", "lima"]
        document["columns"]["price"].pop("normalizer")

    old, new = specs(change)
    for name, sentence in {
        "user": "columns.user: was {'hash_bucket': 'user', 'size': 20}, is {'hash_bucket': "
                "'user', 'size': 21}",
        "user_emb": "columns.user: was {'hash_bucket': 'user', 'size': 20}, is {'hash_bucket': "
                    "'user', 'size': 21}",
        "city_x_tag": "columns.city: was {'vocabulary': 'city', 'list': ['rome', 'oslo'], "
                      "'oov_buckets': 1}, is {'vocabulary': 'city', 'list': ['rome', 'oslo', "
                      "'lima'], 'oov_buckets': 1}",
        "price": "columns.price: was {'numeric': 'price', 'normalizer': [{'log1p': True}]}, is "
                 "{'numeric': 'price'}",
    }.items():  # fmt: skip
        with pytest.raises(MeaningError) as error:
            row_move(old, name, new, name)
        assert str(error.value) == sentence
    for name in ("tag", "tag_emb"):  # A combiner is another function of the same rows.
        assert row_move(old, name, new, name) is None


def test_buckets_of_a_feature_are_no_affair_of_a_column_of_its_name(specs):
    def change(document):
        document["columns"]["age"] = {"hash_bucket": "age", "size": 10}

    def with_buckets(document):
        document["features"]["age"] = {"dtype": "int64"}
        document["columns"]["age"] = {"identity": "age", "size": 100}
        document["columns"]["level"] = {"bucketized": "age", "boundaries": [30]}
        document["groups"]["wide"] += ["age", "level"]

    _, old = specs(with_buckets)
    _, new = specs(change)
    assert row_move(old, "level", new, "level") is None
    with pytest.raises(MeaningError):
        row_move(old, "age", new, "age")


def test_columns_of_variables(specs):
    columns = ColumnsOfTables(specs(lambda document: None)[0])
    for variable, column in {
        "linear/linear_model/city/weights": "city",
        "linear/linear_model/city_X_tags/weights": "city_x_tag",
        "dnn/input_from_feature_columns/input_layer/user_embedding/embedding_weights": "user_emb",
        "dnn/hiddenlayer_0/kernel": None,
        "city/hiddenlayer_0/kernel": None,
        "linear/linear_model/bias_weights": None,
    }.items():
        assert columns.of(variable) == column


def test_logits_move_with_what_they_stand_for(document):
    def of(**objectives):
        document["labels"] = {name: label for name, (label, _) in objectives.items()}
        document["objectives"] = {name: entry for name, (_, entry) in objectives.items()}
        return ek.parse_spec(document)

    def kind(*words):
        label = {"dtype": "string", "vocabulary": [*words]}
        if len(words) == 2:
            return label, {"head": "binary"}
        return label, {"head": "multi_class", "num_classes": len(words)}

    number = {"dtype": "float32"}
    click = ({"dtype": "int64"}, {"head": "binary"})
    old = of(click=click, kind=kind("a", "b", "c"), sure=kind("no", "yes"))
    new = of(
        sure=kind("yes", "no"),
        kind=kind("c", "d", "a", "b"),
        click=click,
        amount=(number, {"head": "regression"}),
    )
    assert logit_move(old, new, "kind").tolist() == [2, -1, 0, 1]
    assert logit_move(old, new, "click").tolist() == [0]
    assert logit_move(old, new, "amount").tolist() == [-1]
    with pytest.raises(MeaningError) as error:
        logit_move(old, new, "sure")
    assert str(error.value) == (
        "objectives.sure: its logits were: yes and not no; and are: no and not yes"
    )
    assert changed_objectives(old, new) == {"kind", "sure"}
    # Another head is another objective.
    new = of(click=(number, {"head": "regression"}), kind=kind("a", "b", "c"))
    assert logit_move(old, new, "click").tolist() == [-1]
    assert changed_objectives(old, new) == set()


def test_items_move_with_their_words():
    """The scores of a dense layer, and the bias and the second table of models for the head."""

    def of(words, **column):
        return ek.parse_spec(
            {
                "features": {"item_id": {"dtype": "string", "shape": "variable"}},
                "columns": {
                    "item": {"vocabulary": "item_id", "list": words, "sequence": True, **column},
                    "item_emb": {"embedding": "item", "dimension": 4},
                },
                "groups": {"steps": ["item_emb"]},
                "labels": {"next": {"dtype": "string", "shape": "variable"}},
                "objectives": {"next": {"head": "next_item", "items": "item"}},
            }
        )

    old, new = of(["a", "b", "c"], oov_buckets=1), of(["c", "d", "a"], oov_buckets=1)
    assert logit_move(old, new, "next").tolist() == [2, -1, 0]
    assert changed_objectives(old, old) == set()
    grown = of(["a", "b", "c", "d"])
    assert logit_move(old, grown, "next").tolist() == [0, 1, 2, -1]
    for variable in ("items/item_id/bias", "items/item_id/vectors"):
        assert ColumnsOfTables(new).of(variable) == "item"
    assert row_move(old, "item", new, "item").tolist() == [2, -1, 0, 3]


def test_moved_values():
    found = np.arange(6.0).reshape(3, 2)
    now = np.full((4, 3), 9.0)
    rows, logits = np.array([2, -1, 0, 1]), np.array([1, -1, 0])
    assert moved(now, found, {0: rows, 1: logits}).tolist() == [
        [5, 9, 4], [9, 9, 9], [1, 9, 0], [3, 9, 2],
    ]  # fmt: skip
    assert moved(now[:, :2], found, {0: rows}).tolist() == [[4, 5], [9, 9], [0, 1], [2, 3]]
    assert moved(now[:3], found, {1: logits}).tolist() == [[1, 9, 0], [3, 9, 2], [5, 9, 4]]
    assert moved(now[0], found[0], {0: logits}).tolist() == [1, 9, 0]


def test_a_column_is_new_if_no_group_that_has_it_had_it(specs):
    def change(document):
        document["columns"]["cheap"] = {"bucketized": "price", "boundaries": [1.0]}
        document["groups"]["deep"].append("cheap")
        document["groups"]["more"] = ["tag_emb"]

    old, new = specs(change)
    found = [n for n in ("cheap", "user_emb", "tag_emb", "tag") if is_new_column(old, new, n)]
    assert found == ["cheap"]
