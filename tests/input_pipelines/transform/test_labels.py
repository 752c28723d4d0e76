"""How stored labels are read: lists of classes, vectors, masks, groups."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import feature_specs
from input_pipelines.integrity import diagnosis
from input_pipelines.record_files import writing
from input_pipelines.transform.transforms import Transform
from tests.conftest import place


def spec_of(label, objective, **features):
    return feature_specs.parse(
        {
            "features": {"x": {"dtype": "float32"}, **features},
            "columns": {"x": {"numeric": "x"}},
            "groups": {"deep": ["x"]},
            "labels": {"y": label},
            "objectives": {"y": objective},
        }
    )


def read(spec, rows):
    records = [writing.example({"x": 0.0, **row}).SerializeToString() for row in rows]
    labels = Transform(spec).features_and_labels(tf.constant(records))[1]
    return {name: value.numpy().tolist() for name, value in labels.items()}


TOPICS = {"head": "multi_label", "num_classes": 3}


@pytest.mark.parametrize(
    ("label", "values"),
    [
        ({"dtype": "int64", "shape": "variable"}, [[0, 2], [1], [2, 2]]),
        ({"dtype": "string", "shape": "variable", "vocabulary": ["a", "b", "c"]},
         [["a", "c"], ["b"], ["c", "c"]]),
        ({"dtype": "int64", "shape": [3]}, [[1, 0, 1], [0, 1, 0], [0, 0, 1]]),
        ({"dtype": "float32", "shape": [3]}, [[1.0, 0.0, 1.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]),
    ],
)  # fmt: skip
def test_classes_in_every_form_are_the_same(label, values):
    got = read(spec_of(label, TOPICS), [{"y": value} for value in values])
    assert got == {"y": [[1, 0, 1], [0, 1, 0], [0, 0, 1]]}


def test_a_list_without_a_class_is_an_error_or_what_the_spec_says(tmp_path):
    rows = [{"y": [1]}, {"y": []}, {}]
    label = {"dtype": "int64", "shape": "variable"}
    got = read(spec_of({**label, "missing": "no_class"}, TOPICS), rows)
    assert got == {"y": [[0, 1, 0], [0, 0, 0], [0, 0, 0]]}
    got = read(spec_of({**label, "missing": "mask"}, TOPICS), rows)
    assert got["y/weight"] == [1, 0, 0]
    spec = spec_of(label, TOPICS)
    with pytest.raises(tf.errors.InvalidArgumentError, match="label 'y' is missing"):
        read(spec, rows)
    path = f"{tmp_path}/a.tfrecord"
    writing.write_examples(path, [{"x": 0.0, **row} for row in rows])
    assert diagnosis.find_bad_record(spec, [path]) == (
        f"{path}: {place(path, 1)}: label 'y' is missing or an empty list; say missing: no_class "
        "in the spec if that means no class, or missing: mask to give such rows no weight"
    )


@pytest.mark.parametrize(
    ("label", "objective", "value", "filled"),
    [
        ({"dtype": "int64"}, {"head": "binary"}, 1, 0),
        ({"dtype": "float32"}, {"head": "regression"}, 2.5, 0),
        ({"dtype": "string", "vocabulary": ["a", "b"]}, {"head": "binary"}, "b", 0),
        ({"dtype": "float32", "shape": [2]}, {"head": "cosine", "dimension": 2}, [1.0, 2.0],
         [0, 0]),
    ],
)  # fmt: skip
def test_a_masked_label_has_no_weight(label, objective, value, filled):
    spec = spec_of({**label, "missing": "mask"}, objective)
    got = read(spec, [{"y": value}, {}])
    assert got["y"][1] == filled and got["y/weight"] == [1, 0]
    weighted = spec_of({**label, "missing": "mask", "weight": "w"}, objective,
                       w={"dtype": "float32"})  # fmt: skip
    got = read(weighted, [{"y": value, "w": 3.0}, {"w": 2.0}])
    assert got["y/weight"] == [3, 0]


def test_without_mask_a_missing_label_stays_an_error():
    with pytest.raises(tf.errors.InvalidArgumentError, match="y"):
        read(spec_of({"dtype": "int64"}, {"head": "binary"}), [{}])


@pytest.mark.parametrize(
    ("dtype", "values", "missing"), [("string", ["a", "b", "a"], ""), ("int64", [7, 8, 7], -1)]
)
def test_groups_are_hashes_and_a_missing_group_is_minus_one(dtype, values, missing):
    spec = spec_of({"dtype": "int64"},
                   {"head": "binary", "group_by": "user", "metrics": ["gauc"]},
                   user={"dtype": dtype, "default": missing})  # fmt: skip
    rows = [{"y": 1, "user": value} for value in values] + [{"y": 1}]
    got = read(spec, rows)["y/group"]
    assert got[0] == got[2] != got[1] and got[3] == -1
    assert all(0 <= group < 2**62 for group in got[:3])


@pytest.mark.parametrize(
    ("objective", "label", "bad"),
    [
        ({"head": "poisson"}, {"dtype": "int64"}, -1),
        ({"head": "poisson"}, {"dtype": "float32"}, -0.5),
        ({"head": "logistic_regression"}, {"dtype": "float32"}, 1.01),
        (TOPICS, {"dtype": "int64", "shape": "variable"}, [3]),
        (TOPICS, {"dtype": "int64", "shape": [3]}, [0, 0, 2]),
        ({"head": "cosine", "dimension": 2}, {"dtype": "float32", "shape": [2]}, [np.inf, 1.0]),
    ],
)
def test_the_graph_itself_refuses_labels_outside_the_domain(objective, label, bad):
    with pytest.raises(tf.errors.InvalidArgumentError, match="label 'y' must be"):
        read(spec_of(label, objective), [{"y": bad}])


def test_canned_estimators_get_lists_as_sparse_tensors():
    from feature_specs.reference.columns import make_parse_example_spec

    spec = spec_of({"dtype": "int64", "shape": "variable"}, TOPICS)
    assert make_parse_example_spec(spec)["y"] == tf.io.VarLenFeature(tf.int64)


SURVIVAL = {"head": "survival", "event": "gone", "boundaries": [7.0]}


def test_the_event_of_a_time_is_a_part_of_the_label(tmp_path):
    spec = spec_of({"dtype": "int64"}, SURVIVAL, gone={"dtype": "int64"})
    assert read(spec, [{"y": 3, "gone": 1}, {"y": 9, "gone": 0}]) == {"y": [[3, 1], [9, 0]]}
    rows = [{"y": 3, "gone": 1}, {"y": 9, "gone": 2}]
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"event 'gone' must be in \[0, 1\]"):
        read(spec, rows)
    path = f"{tmp_path}/a.tfrecord"
    writing.write_examples(path, [{"x": 0.0, **row} for row in rows])
    assert diagnosis.find_bad_record(spec, [path]) == (
        f"{path}: {place(path, 1)}: event 'gone' of label 'y' is 2, expected 0 or 1 for the event "
        "of 'y'"
    )
    writing.write_examples(path, [{"x": 0.0, "y": 3}])
    assert "event 'gone' of label 'y' is missing" in diagnosis.find_bad_record(spec, [path])


def test_the_event_may_be_another_label_and_a_time_may_be_missing():
    spec = feature_specs.parse(
        {
            **spec_of({"dtype": "int64"}, {"head": "binary"}).to_dict(),
            "labels": {
                "y": {"dtype": "float32", "missing": "mask"},
                "gone": {"dtype": "int64"},
            },
            "objectives": {"y": SURVIVAL, "gone": {"head": "binary"}},
        }
    )
    assert read(spec, [{"y": 3.5, "gone": 1}, {"gone": 1}]) == {
        "y": [[3.5, 1], [0, 1]], "y/weight": [1, 0], "gone": [1, 1],
    }  # fmt: skip
