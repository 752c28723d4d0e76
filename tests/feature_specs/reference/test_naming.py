"""naming: the variable names of tf.feature_column, written by hand.

test_two_readings compares the names with TensorFlow. These tests fail if a name changes, because
existing checkpoints could then no longer be read.
"""

from __future__ import annotations

import pytest

import feature_specs

pytestmark = pytest.mark.no_tensorflow

DOCUMENT = {
    "features": {
        "age": {"dtype": "int64"},
        "price": {"dtype": "float32"},
        "city": {"dtype": "string"},
        "Town": {"dtype": "string"},
        "tags": {"dtype": "string", "shape": "variable"},
    },
    "columns": {
        "cost": {"numeric": "price", "normalizer": "log1p"},
        "cost_level": {"bucketized": "cost", "boundaries": [1, 2]},
        "age_level": {"bucketized": "age", "boundaries": [30]},
        "age_id": {"identity": "age", "size": 100},
        "place": {"vocabulary": "city", "list": ["rome", "oslo"]},
        "tag": {"hash_bucket": "tags", "size": 10},
        # Sorted by the names of the parts, capitals first, independent of the order in the spec.
        "of_features": {"crossed": ["tags", "city"], "size": 9},
        "of_three": {"crossed": ["tags", "city", "Town"], "size": 9},
        "of_columns": {"crossed": ["place", "cost_level", "age_id"], "size": 9},
        "mixed": {"crossed": ["tags", "age_level"], "size": 9},
        "place_vector": {"embedding": "place", "dimension": 2},
        "level_vector": {"embedding": "cost_level", "dimension": 2},
        "cross_vector": {"embedding": "of_columns", "dimension": 2},
        "tag_counts": {"indicator": "tag"},
        "cross_counts": {"indicator": "mixed"},
    },
    "groups": {
        "all": [
            "cost", "age_id", "place", "tag", "of_features", "of_three", "of_columns", "mixed",
            "place_vector", "level_vector", "cross_vector", "tag_counts", "cross_counts",
        ],
    },
    "labels": {"y": {"dtype": "int64"}},
    "objectives": {"y": {"head": "binary"}},
}  # fmt: skip

NAMES = {
    "cost": "price",
    "cost_level": "price_bucketized",
    "age_level": "age_bucketized",
    "age_id": "age",
    "place": "city",
    "tag": "tags",
    "of_features": "city_X_tags",
    "of_three": "Town_X_city_X_tags",
    "of_columns": "age_X_city_X_price_bucketized",
    "mixed": "age_bucketized_X_tags",
    "place_vector": "city_embedding",
    "level_vector": "price_bucketized_embedding",
    "cross_vector": "age_X_city_X_price_bucketized_embedding",
    "tag_counts": "tags_indicator",
    "cross_counts": "age_bucketized_X_tags_indicator",
}


@pytest.mark.parametrize("column", DOCUMENT["columns"])
def test_the_name_of_a_column_comes_from_its_features(column):
    assert feature_specs.parse(DOCUMENT).canned_name(column) == NAMES[column]


def test_a_cross_key_that_is_column_and_feature_is_the_column(document):
    # In this spec `city` is both a feature and a vocabulary column of it.
    document["features"]["town"] = {"dtype": "string"}
    document["columns"]["city"]["vocabulary"] = "town"
    document["ignored"] = ["city"]
    spec = feature_specs.parse(document)
    assert spec.canned_name("city_x_tag") == "tags_X_town"


@pytest.mark.parametrize(
    "same", [{"hash_bucket": "city", "size": 9}, {"vocabulary": "city", "list": ["a"]}]
)
def test_columns_of_one_name_may_be_in_different_groups_only(document, same):
    document["columns"]["city_again"] = same
    document["groups"]["other"] = ["city_again"]
    feature_specs.parse(document)
    document["groups"]["wide"].append("city_again")
    with pytest.raises(feature_specs.SpecError) as error:
        feature_specs.parse(document)
    assert [problem.path for problem in error.value.problems] == [("groups", "wide")]
