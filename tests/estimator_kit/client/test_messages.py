"""Compares the client's messages with the official ones: names, numbers, types, bytes."""

from __future__ import annotations

import pytest
import tensorflow as tf
from google.protobuf import any_pb2, wrappers_pb2
from google.protobuf.descriptor import FieldDescriptor
from tensorflow.core.framework import tensor_pb2, tensor_shape_pb2
from tensorflow.core.protobuf import meta_graph_pb2, named_tensor_pb2, saved_model_pb2
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    inference_pb2,
    input_pb2,
    logging_pb2,
    model_pb2,
    predict_pb2,
    prediction_log_pb2,
    regression_pb2,
    session_service_pb2,
    status_pb2,
)
from tensorflow_serving.config import logging_config_pb2

from estimator_kit.client import messages, tensors

_MODULES = (
    classification_pb2, get_model_metadata_pb2, get_model_status_pb2, inference_pb2, input_pb2,
    logging_pb2, logging_config_pb2, model_pb2, predict_pb2, prediction_log_pb2, regression_pb2,
    session_service_pb2, status_pb2, any_pb2, wrappers_pb2, tensor_pb2, tensor_shape_pb2,
    meta_graph_pb2, named_tensor_pb2, saved_model_pb2, tf.train,
)  # fmt: skip

# Configuration files. No package has their messages; TensorFlow Serving's sources define them.
_WITHOUT_OFFICIAL = {"BatchingParameters", "PrometheusConfig", "MonitoringConfig"}

_NAMES = [n for n in messages.names() if n.rpartition(".")[2] not in _WITHOUT_OFFICIAL]


def official(name):
    short = name.removeprefix("tensorflow.serving.").removeprefix("tensorflow.")
    outer, _, inner = short.removeprefix("google.protobuf.").partition(".")
    (found, *_) = [getattr(module, outer) for module in _MODULES if hasattr(module, outer)]
    return getattr(found, inner) if inner else found


def wire_type(field):
    return FieldDescriptor.TYPE_INT32 if field.enum_type is not None else field.type


@pytest.mark.parametrize("name", _NAMES)
def test_each_field_is_the_official_one(name):
    ours = messages.message(name).DESCRIPTOR
    theirs = official(name).DESCRIPTOR
    assert ours.full_name == theirs.full_name == name
    assert ours.fields
    for field in ours.fields:
        other = theirs.fields_by_number[field.number]
        assert field.name == other.name
        assert field.type == wire_type(other), field.name
        assert is_repeated(field) == is_repeated(other), field.name
        # The same fields exclude each other in both. The official oneof may have more fields.
        groups = [f.containing_oneof and f.containing_oneof.name for f in (field, other)]
        assert groups[0] == groups[1], field.name
        if field.message_type is not None:
            ours_entry = field.message_type.GetOptions().map_entry
            assert ours_entry == other.message_type.GetOptions().map_entry
            if ours_entry:
                types = [[wire_type(f) for f in d.message_type.fields] for d in (field, other)]
                assert types[0] == types[1], field.name
            else:
                assert field.message_type.full_name == other.message_type.full_name


def is_repeated(field):
    # protobuf 6 renamed it, and the old name warns since protobuf 7.
    if hasattr(type(field), "is_repeated"):
        return field.is_repeated
    return field.label == field.LABEL_REPEATED


def test_bytes_are_those_of_the_official_messages():
    request = messages.message("tensorflow.serving.PredictRequest")()
    request.model_spec.name = "ads"
    request.model_spec.version.value = 7
    request.output_filter.append("y")
    tensors.fill(request.inputs["x"], tensors.as_array([["a", b"\xff"], ["", "b"]]))
    read = predict_pb2.PredictRequest.FromString(request.SerializeToString())
    assert read.model_spec.version.value == 7
    assert tf.make_ndarray(read.inputs["x"]).tolist() == [[b"a", b"\xff"], [b"", b"b"]]
    again = messages.message("tensorflow.serving.PredictRequest").FromString(
        read.SerializeToString()
    )
    assert again == request


def test_a_record_of_a_request_log_is_the_official_one():
    log = messages.message("tensorflow.serving.PredictionLog")()
    log.log_metadata.model_spec.name = "ads"
    log.log_metadata.model_spec.version.value = 7
    log.log_metadata.sampling_config.sampling_rate = 0.25
    log.log_metadata.saved_model_tags.append("serve")
    log.log_metadata.timestamp_secs = 1_767_619_800
    tensors.fill(log.predict_log.request.inputs["x"], tensors.as_array([["a"], ["b"]]))
    tensors.fill(log.predict_log.response.outputs["y"], tensors.as_array([0.5, 1.5]))
    read = prediction_log_pb2.PredictionLog.FromString(log.SerializeToString())
    assert read.WhichOneof("log_type") == log.WhichOneof("log_type") == "predict_log"
    assert read.log_metadata.model_spec.version.value == 7
    assert read.log_metadata.sampling_config.sampling_rate == 0.25
    assert read.log_metadata.timestamp_secs == 1_767_619_800
    assert tf.make_ndarray(read.predict_log.response.outputs["y"]).tolist() == [0.5, 1.5]
    again = messages.message("tensorflow.serving.PredictionLog").FromString(
        read.SerializeToString()
    )
    assert again == log


def test_numbers_of_types_are_tensorflows():
    for number, name in tensors.NAMES.items():
        dtype = tf.dtypes.as_dtype(number)
        assert {"float": "float32", "double": "float64", "half": "float16"}.get(
            name, name
        ) == dtype.name
        assert tensors.numpy_type(number) == dtype.as_numpy_dtype
