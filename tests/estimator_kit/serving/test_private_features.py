"""Which values are removed from requests."""

from __future__ import annotations

import json
import types

import numpy as np
import pytest
import tensorflow as tf

import feature_specs
from estimator_kit.client import tensors
from estimator_kit.serving import private_features
from estimator_kit.serving.private_features import PrivateFeatures
from input_pipelines.record_files import writing

classification_pb2 = pytest.importorskip("tensorflow_serving.apis.classification_pb2")
predict_pb2 = pytest.importorskip("tensorflow_serving.apis.predict_pb2")

ROW = {"name": "ann", "class": "a", "price": 2.0}
SEQUENCE = ({"city": "oslo"}, {"seen": ["a", "b"], "notes": ["c"]})


def info(op):
    return types.SimpleNamespace(name=f"{op}:0")


def serialized(row):
    return writing.example(row).SerializeToString()


def predict_request(**inputs):
    request = predict_pb2.PredictRequest()
    for name, values in inputs.items():
        tensors.fill(request.inputs[name], tensors.as_array(values))
    return request


def features_of(record):
    read = tf.train.SequenceExample.FromString(record)
    return sorted(read.context.feature), sorted(read.feature_lists.feature_list)


def test_the_private_features_of_an_export(tmp_path):
    folder = tmp_path / "assets.extra" / "feature_spec"
    folder.mkdir(parents=True)
    assert private_features.of_export(str(tmp_path)) is None
    spec = feature_specs.parse({
        "features": {
            "name": {"dtype": "string", "default": "", "private": True},
            "class": {"dtype": "string", "private": True},
            "price": {"dtype": "float32"},
            "clicks": {"dtype": "int64", "private": True},
        },
        "columns": {
            **{n: {"hash_bucket": n, "size": 5} for n in ("name", "class")},
            **{f"{n}_hot": {"indicator": n} for n in ("name", "class")},
            "price": {"numeric": "price"}, "clicks": {"numeric": "clicks"},
        },
        "groups": {"deep": ["name_hot", "class_hot", "price", "clicks"]},
        "labels": {"y": {"dtype": "float32"}},
        "objectives": {"y": {"head": "binary"}},
    })  # fmt: skip
    (folder / "spec.json").write_text(json.dumps(spec.to_dict(defaults=True)))
    assert private_features.of_export(str(tmp_path)) == PrivateFeatures(
        names=frozenset({"name", "class", "clicks"}),
        # `class` cannot be the name of an input.
        tensor_names=frozenset({"name", "class_", "clicks"}),
        public_tensor_names=frozenset({"price"}),
    )


PRIVATE = PrivateFeatures(
    frozenset({"name", "class", "notes"}), frozenset({"name", "class_"}), frozenset({"price"})
)


def test_examples_of_classify():
    request = classification_pb2.ClassificationRequest()
    request.input.example_list.examples.add().ParseFromString(serialized(ROW))
    sequence = writing.sequence_example(*SEQUENCE).SerializeToString()
    request.input.example_list.examples.add().ParseFromString(sequence)
    PRIVATE.clean(request, {"inputs": info("input_example_tensor")})
    records = [each.SerializeToString() for each in request.input.example_list.examples]
    assert list(map(features_of, records)) == [(["price"], []), (["city"], ["seen"])]
    assert records[0] == serialized({"price": 2.0})


def test_examples_with_a_context():
    request = classification_pb2.ClassificationRequest()
    both = request.input.example_list_with_context
    both.context.ParseFromString(serialized({"name": "ann", "city": "oslo"}))
    both.examples.add().ParseFromString(serialized({"class": "a", "price": 2.0}))
    PRIVATE.clean(request, {"inputs": info("input_example_tensor")})
    assert both.context.SerializeToString() == serialized({"city": "oslo"})
    assert both.examples[0].SerializeToString() == serialized({"price": 2.0})


@pytest.mark.parametrize("alias", ["examples", "inputs", "price"])
def test_serialized_records(alias):
    """Also if the input has the name of a feature that is not private."""
    sequence = writing.sequence_example(*SEQUENCE).SerializeToString()
    request = predict_request(**{alias: [serialized(ROW), sequence, b""]})
    PRIVATE.clean(request, {alias: info("input_example_tensor")})
    records = tensors.to_array(request.inputs[alias])
    assert [features_of(each) for each in records] == [(["price"], []), (["city"], ["seen"]),
                                                       ([], [])]  # fmt: skip


def test_the_fields_of_string_values_are_read_too():
    request = predict_pb2.PredictRequest()
    tensors.fill_fields(request.inputs["examples"], tensors.as_array([serialized(ROW)]))
    PRIVATE.clean(request, {})
    (record,) = tensors.to_array(request.inputs["examples"])
    assert features_of(record) == (["price"], [])


def test_tensors_of_features():
    request = predict_request(name=["ann"], class_=["a"], price=[2.0], k=np.int32([3]))
    PRIVATE.clean(request, {name: info(f"raw_inputs/{name}") for name in request.inputs})
    assert sorted(request.inputs) == ["k", "price"]
    assert tensors.to_array(request.inputs["price"]).tolist() == [2.0]


def test_a_string_that_is_neither_a_feature_nor_a_record_is_refused():
    request = predict_request(comment=["my name is ann"])
    with pytest.raises(ValueError, match="a record cannot be read"):
        PRIVATE.clean(request, {"comment": info("comment")})


def test_bytes_that_no_field_of_a_record_has_are_removed():
    unknown = b"\x7a\x03ann"  # Field 15.
    request = predict_request(examples=[serialized(ROW) + unknown])
    PRIVATE.clean(request, {})
    assert tensors.to_array(request.inputs["examples"]).tolist() == [serialized({"price": 2.0})]


def test_outputs_with_the_name_of_a_private_feature():
    response = predict_pb2.PredictResponse()
    for name in ("name", "class_", "price", "probability"):
        tensors.fill(response.outputs[name], tensors.as_array(["ann"]))
    PRIVATE.clean_answer(response)
    assert sorted(response.outputs) == ["price", "probability"]
    PRIVATE.clean_answer(classification_pb2.ClassificationResponse())


def test_without_private_features_nothing_changes():
    request = predict_request(comment=["no record"], name=["ann"])
    before = request.SerializeToString()
    PrivateFeatures(frozenset()).clean(request, {})
    assert request.SerializeToString() == before
