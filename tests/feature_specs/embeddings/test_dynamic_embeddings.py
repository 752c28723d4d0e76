"""Dynamic embeddings in a spec and in the input pipeline, which do not need their package."""

from __future__ import annotations

import copy

import pytest
import tensorflow as tf

import feature_specs
from input_pipelines.record_files import writing
from input_pipelines.transform.transforms import Transform

DOCUMENT = {
    "features": {
        "user": {"dtype": "string", "default": ""},
        "item": {"dtype": "int64", "default": -1},
        "words": {"dtype": "string", "shape": "variable"},
        "seen": {"dtype": "int64", "shape": "variable"},
    },
    "columns": {
        "u": {"dynamic_embedding": "user", "dimension": 2, "min_count": 3, "max_rows": 9},
        "i": {"dynamic_embedding": "item", "dimension": 2},
        "w": {"dynamic_embedding": "words", "dimension": 2, "combiner": "sqrtn"},
        "s": {"dynamic_embedding": "seen", "dimension": 2, "initializer": "zeros", "shards": 4},
    },
    "groups": {"deep": ["u", "i", "w", "s"]},
    "labels": {"y": {"dtype": "int64"}},
    "objectives": {"y": {"head": "binary"}},
}


@pytest.fixture
def spec():
    return feature_specs.parse(DOCUMENT)


def test_a_spec_comes_back_from_its_document(spec):
    assert feature_specs.parse(spec.to_dict()) == spec
    assert spec.to_dict()["columns"]["u"] == DOCUMENT["columns"]["u"]


def test_the_keys_of_values(spec):
    rows = [
        {"user": "ann", "item": 2**62, "words": ["a", "", "a"], "seen": [7, -3, -1], "y": 0},
        {"user": "", "item": -1, "words": [], "seen": [], "y": 0},
        {"user": None, "item": -5, "words": ["b"], "seen": [0], "y": 0},
    ]
    records = tf.constant([writing.example(row).SerializeToString() for row in rows])
    found = Transform(spec).features(records)
    ann, a, empty, b = tf.strings.to_hash_bucket_fast(["ann", "a", "", "b"], 2**63 - 1).numpy()
    assert found["u"].numpy().tolist() == [ann, -1, -1]
    assert found["i"].numpy().tolist() == [2**62, -1, -5]
    assert found["w"].to_list() == [[a, empty, a], [], [b]]
    assert found["s"].to_list() == [[7, -3, -1], [], [0]]


def test_what_is_missing(spec):
    assert [spec.missing_value(name) for name in spec.features] == ["", -1, None, None]


def test_tables_are_named_after_columns(spec):
    assert [spec.canned_name(name) for name in spec.columns] == ["u", "i", "w", "s"]


def test_a_list_of_lists_is_refused():
    document = copy.deepcopy(DOCUMENT)
    document["features"]["words"]["row_lengths"] = "seen"
    with pytest.raises(feature_specs.SpecError) as error:
        feature_specs.parse(document)
    assert [problem.text("spec") for problem in error.value.problems] == [
        "spec: columns.w.dynamic_embedding: feature 'words' is a list of lists, which only ragged "
        "columns read"
    ]
