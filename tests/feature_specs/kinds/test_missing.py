"""Columns that know a missing number: what a spec says about them, and its errors."""

from __future__ import annotations

import pytest

import feature_specs
from feature_specs.kinds import IsMissing

pytestmark = pytest.mark.no_tensorflow


def parsed(column, **feature):
    spec = {
        "features": {"x": {"dtype": "float32", **feature}},
        "columns": {"c": column},
        "groups": {"deep": ["c"]},
        "labels": {"y": {"dtype": "int64"}},
        "objectives": {"y": {"head": "binary"}},
    }
    return feature_specs.parse(spec)


def test_what_the_columns_say():
    spec = parsed({"is_missing": "x"}, default=0.1)
    assert spec.columns["c"] == IsMissing(is_missing="x")
    assert (spec.size_of("c"), spec.columns["c"].width(spec)) == (2, 1)
    # As the records have it.
    assert spec.missing_value("x") == 0.10000000149011612
    filled = parsed({"numeric": "x", "missing": 3}, dtype="int64", default=-1)
    assert filled.columns["c"].replaced(filled) == (-1, 3)
    assert filled.missing_value("x") == -1
    own = parsed({"bucketized": "x", "boundaries": [1, 2], "missing": "own_bucket"}, default=-1)
    assert (own.size_of("c"), own.missing_value("x")) == (4, -1)
    plain = parsed({"bucketized": "x", "boundaries": [1, 2]}, default=-1)
    assert (plain.size_of("c"), plain.missing_value("x")) == (3, None)


@pytest.mark.parametrize(
    ("column", "feature", "message"),
    [
        ({"is_missing": "z"}, {}, "columns.c.is_missing: got 'z', expected the name of a feature"),
        ({"is_missing": "x"}, {},
         "columns.c.is_missing: feature 'x' has no default, so a record without it is an error. "
         "Give it a default that no record has, such as -1."),
        ({"is_missing": "x"}, {"shape": "variable"},
         "columns.c.is_missing: feature 'x' is a list, which has no default: a record without it "
         "has an empty list. Read a feature of one value."),
        ({"is_missing": "x"},
         {"dtype": "string", "decode": {"raw": {"dtype": "uint8", "shape": [2]}}},
         "columns.c.is_missing: feature 'x' is decoded to numbers, and none of them means missing. "
         "Read a separate feature that says whether it is missing."),
        ({"numeric": "x", "missing": 2}, {},
         "columns.c.missing: feature 'x' has no default, so a record without it is an error. Give "
         "it a default that no record has, such as -1."),
        ({"numeric": "x", "missing": 0.5}, {"dtype": "int64", "default": -1},
         "columns.c.missing: feature 'x' is int64, got 0.5, expected an integer that fits into an "
         "int64"),
        ({"numeric": "x", "missing": -2, "normalizer": "log1p"}, {"default": -1},
         "columns.c.missing: got -2.0, which is not a finite float32 after the normalizers. Choose "
         "a usual number of the feature, such as the median."),
        ({"bucketized": "x", "boundaries": [1], "missing": "own_bucket"}, {},
         "columns.c.missing: feature 'x' has no default, so a record without it is an error. Give "
         "it a default that no record has, such as -1."),
    ],
)  # fmt: skip
def test_what_cannot_be_known(column, feature, message):
    with pytest.raises(feature_specs.SpecError) as error:
        parsed(column, **feature)
    assert message in str(error.value)
