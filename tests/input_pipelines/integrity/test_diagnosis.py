"""A bad record is found and described: file, number, feature, value, expected value."""

from __future__ import annotations

import pytest
import tensorflow as tf

import feature_specs
from input_pipelines.integrity import diagnosis
from input_pipelines.record_files import writing
from input_pipelines.transform.transforms import Transform
from tests.conftest import make_rows, place

NAN = float("nan")


@pytest.fixture
def spec(document):
    document["features"]["age"] = {"dtype": "int64", "default": -1}
    document["features"]["ids"] = {"dtype": "int64", "shape": "variable"}
    document["features"]["pair"] = {"dtype": "float32", "shape": [2], "default": 0.0}
    document["features"]["importance"] = {"dtype": "float32", "default": 1.0}
    document["columns"]["age"] = {"identity": "age", "size": 100}
    document["columns"]["ids"] = {"identity": "ids", "size": 5}
    document["columns"]["pair"] = {"numeric": "pair"}
    document["groups"]["wide"] += ["age", "ids", "pair"]
    document["labels"]["click"]["weight"] = "importance"
    document["labels"]["kind"] = {"dtype": "string", "vocabulary": ["x", "y"]}
    document["objectives"]["kind"] = {"head": "binary"}
    return feature_specs.parse(document)


def good_rows():
    return [{**row, "kind": "x"} for row in make_rows(1500)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"city": None}, "feature 'city' is missing, and it has no default in the spec; "
                         "give it one if records may lack it"),
        ({"price": 3}, "feature 'price' is int64, expected float32"),
        ({"city": 1.5}, "feature 'city' is float32, expected string"),
        ({"tags": [1]}, "feature 'tags' is int64, expected string"),
        ({"city": ["a", "b"]}, "feature 'city' has 2 values, expected 1"),
        ({"pair": [1.0]}, "feature 'pair' has 1 value, expected 2"),
        ({"price": NAN}, "feature 'price' is nan, expected a finite number"),
        ({"price": float("inf")}, "feature 'price' is inf, expected a finite number"),
        ({"age": 100}, "feature 'age' is 100, expected 0 to 99; raise the column's size or give "
                       "it a default_id"),
        ({"ids": [1, -1]}, "feature 'ids' is -1, expected 0 to 4; raise the column's size or give "
                           "it a default_id"),
        ({"click": None}, "label 'click' is missing; if records may lack it, say missing: mask in "
                          "the spec, to give them no weight"),
        ({"click": 2}, "label 'click' is 2, expected 0 or 1 for the binary head of "
                       "objective 'click'"),
        ({"click": -1}, "label 'click' is -1, expected 0 or 1 for the binary head of "
                        "objective 'click'"),
        ({"click": 1.0}, "label 'click' is float32, expected int64"),
        ({"kind": "z"}, "label 'kind' is b'z', expected one of x, y"),
        ({"importance": -0.5}, "weight 'importance' of label 'click' is -0.5, expected 0 or more"),
    ],
)  # fmt: skip
def test_the_record_is_named(spec, tmp_path, change, message):
    rows = good_rows()
    rows[1100].update(change)
    files = [f"{tmp_path}/a.tfrecord", f"{tmp_path}/b.tfrecord"]
    writing.write_examples(files[0], good_rows())
    writing.write_examples(files[1], rows)
    found = diagnosis.find_bad_record(spec, files)
    assert found == f"{files[1]}: {place(files[1], 1100)}: {message}"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"city": None}, "feature 'city' is missing. Use an old record."),
        ({"age": 100}, "feature 'age' is 100, expected 0 to 99. Use an old record."),
        ({"click": None}, "label 'click' is missing. Use an old record."),
        ({"price": 3}, "feature 'price' is int64, expected float32"),
    ],
)
def test_another_remedy_replaces_a_change_of_the_spec(spec, change, message):
    record = writing.example({**good_rows()[0], **change}).SerializeToString()
    assert diagnosis.explain(spec, record, remedy="Use an old record.") == message


def test_what_the_normalizer_makes_infinite_is_named_too(spec, tmp_path):
    rows = good_rows()
    rows[3]["price"] = -1.0
    writing.write_examples(f"{tmp_path}/a.tfrecord", rows)
    found = diagnosis.find_bad_record(spec, [f"{tmp_path}/a.tfrecord"])
    assert found is not None
    assert found.startswith(f"{tmp_path}/a.tfrecord: {place(f'{tmp_path}/a.tfrecord', 3)}: ")
    assert found.endswith(
        ": feature 'price' is -1.0, expected a number that column 'price' normalizes to a finite "
        "number"
    )


def test_a_record_that_is_not_an_example(spec, tmp_path):
    path = f"{tmp_path}/a.tfrecord"
    with tf.io.TFRecordWriter(path) as writer:
        writer.write(b"no example at all")
    found = diagnosis.find_bad_record(spec, [path])
    assert found == f"{path}: record 0 at byte 0: is not a serialized tf.train.Example"


def test_good_files_have_no_bad_record(spec, tmp_path):
    writing.write_examples(f"{tmp_path}/a.tfrecord", good_rows())
    assert diagnosis.find_bad_record(spec, [f"{tmp_path}/a.tfrecord"]) is None


def test_prediction_does_not_check_labels(spec, tmp_path):
    path = f"{tmp_path}/a.tfrecord"
    writing.write_examples(path, [{"city": "rome"}])
    assert diagnosis.find_bad_record(spec, [path], with_labels=False) is None
    found = diagnosis.find_bad_record(spec, [path])
    assert found == (
        f"{path}: record 0 at byte 0: label 'click' is missing; if records may lack it, say "
        "missing: mask in the spec, to give them no weight"
    )


@pytest.mark.parametrize("bad", [-0.5, NAN])
def test_the_graph_itself_refuses_a_bad_weight(spec, bad):
    row = {**good_rows()[0], "importance": bad}
    record = writing.example(row).SerializeToString()
    with pytest.raises(tf.errors.InvalidArgumentError, match="the weight of label 'click'"):
        Transform(spec).features_and_labels(tf.constant([record]))
