"""The protocol buffer messages that a client of TensorFlow Serving sends and receives.

TensorFlow's classes of these messages need all of TensorFlow, and so do the classes of
`tensorflow-serving-api`. This module makes classes from the table below in a separate descriptor
pool, so that they can be in one process with TensorFlow's classes. Their encoding is the same, and
a test compares each field with the official one. Enumerations are int32, which has the same
encoding. Fields that a client does not need are left out; protobuf keeps unknown fields.

`BatchingParameters` and `MonitoringConfig` are configuration files of TensorFlow Serving. No
package contains their classes. `PredictionLog` is a record of TensorFlow Serving's request logs.

    request = messages.message("tensorflow.serving.PredictRequest")()
"""

from __future__ import annotations

import functools
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

# One message in each paragraph: its name, then one field in each line as `type name = number`.
# `repeated` and `map<string, type>` are as in a .proto file. `oneof group:` marks fields of which a
# message has only one.
_TABLE = """
google.protobuf.Int64Value
  int64 value = 1
google.protobuf.BoolValue
  bool value = 1
google.protobuf.StringValue
  string value = 1
google.protobuf.Any
  string type_url = 1
  bytes value = 2

tensorflow.TensorShapeProto
  repeated tensorflow.TensorShapeProto.Dim dim = 2
  bool unknown_rank = 3
tensorflow.TensorShapeProto.Dim
  int64 size = 1
  string name = 2
tensorflow.TensorProto
  int32 dtype = 1
  tensorflow.TensorShapeProto tensor_shape = 2
  int32 version_number = 3
  bytes tensor_content = 4
  repeated float float_val = 5
  repeated double double_val = 6
  repeated int32 int_val = 7
  repeated bytes string_val = 8
  repeated int64 int64_val = 10
  repeated bool bool_val = 11
  repeated int32 half_val = 13
  repeated uint32 uint32_val = 16
  repeated uint64 uint64_val = 17

tensorflow.BytesList
  repeated bytes value = 1
tensorflow.FloatList
  repeated float value = 1
tensorflow.Int64List
  repeated int64 value = 1
tensorflow.Feature
  oneof kind: tensorflow.BytesList bytes_list = 1
  oneof kind: tensorflow.FloatList float_list = 2
  oneof kind: tensorflow.Int64List int64_list = 3
tensorflow.Features
  map<string, tensorflow.Feature> feature = 1
tensorflow.Example
  tensorflow.Features features = 1
tensorflow.FeatureList
  repeated tensorflow.Feature feature = 1
tensorflow.FeatureLists
  map<string, tensorflow.FeatureList> feature_list = 1
tensorflow.SequenceExample
  tensorflow.Features context = 1
  tensorflow.FeatureLists feature_lists = 2

tensorflow.TensorInfo
  oneof encoding: string name = 1
  int32 dtype = 2
  tensorflow.TensorShapeProto tensor_shape = 3
tensorflow.SignatureDef
  map<string, tensorflow.TensorInfo> inputs = 1
  map<string, tensorflow.TensorInfo> outputs = 2
  string method_name = 3
tensorflow.MetaGraphDef
  map<string, tensorflow.SignatureDef> signature_def = 5
tensorflow.SavedModel
  repeated tensorflow.MetaGraphDef meta_graphs = 2
tensorflow.NamedTensorProto
  string name = 1
  tensorflow.TensorProto tensor = 2

tensorflow.serving.ModelSpec
  string name = 1
  oneof version_choice: google.protobuf.Int64Value version = 2
  oneof version_choice: string version_label = 4
  string signature_name = 3
tensorflow.serving.PredictRequest
  tensorflow.serving.ModelSpec model_spec = 1
  map<string, tensorflow.TensorProto> inputs = 2
  repeated string output_filter = 3
tensorflow.serving.PredictResponse
  map<string, tensorflow.TensorProto> outputs = 1
  tensorflow.serving.ModelSpec model_spec = 2

tensorflow.serving.ExampleList
  repeated tensorflow.Example examples = 1
tensorflow.serving.ExampleListWithContext
  repeated tensorflow.Example examples = 1
  tensorflow.Example context = 2
tensorflow.serving.Input
  oneof kind: tensorflow.serving.ExampleList example_list = 1
  oneof kind: tensorflow.serving.ExampleListWithContext example_list_with_context = 2

tensorflow.serving.ClassificationRequest
  tensorflow.serving.ModelSpec model_spec = 1
  tensorflow.serving.Input input = 2
tensorflow.serving.Class
  string label = 1
  float score = 2
tensorflow.serving.Classifications
  repeated tensorflow.serving.Class classes = 1
tensorflow.serving.ClassificationResult
  repeated tensorflow.serving.Classifications classifications = 1
tensorflow.serving.ClassificationResponse
  tensorflow.serving.ClassificationResult result = 1
  tensorflow.serving.ModelSpec model_spec = 2

tensorflow.serving.RegressionRequest
  tensorflow.serving.ModelSpec model_spec = 1
  tensorflow.serving.Input input = 2
tensorflow.serving.Regression
  float value = 1
tensorflow.serving.RegressionResult
  repeated tensorflow.serving.Regression regressions = 1
tensorflow.serving.RegressionResponse
  tensorflow.serving.RegressionResult result = 1
  tensorflow.serving.ModelSpec model_spec = 2

tensorflow.serving.InferenceTask
  tensorflow.serving.ModelSpec model_spec = 1
  string method_name = 2
tensorflow.serving.InferenceResult
  tensorflow.serving.ModelSpec model_spec = 1
  oneof result: tensorflow.serving.ClassificationResult classification_result = 2
  oneof result: tensorflow.serving.RegressionResult regression_result = 3
tensorflow.serving.MultiInferenceRequest
  repeated tensorflow.serving.InferenceTask tasks = 1
  tensorflow.serving.Input input = 2
tensorflow.serving.MultiInferenceResponse
  repeated tensorflow.serving.InferenceResult results = 1

tensorflow.serving.SessionRunRequest
  tensorflow.serving.ModelSpec model_spec = 1
  repeated tensorflow.NamedTensorProto feed = 2
  repeated string fetch = 3
  repeated string target = 4
  bool tensor_name_is_alias = 6
tensorflow.serving.SessionRunResponse
  repeated tensorflow.NamedTensorProto tensor = 1
  tensorflow.serving.ModelSpec model_spec = 3

tensorflow.serving.SamplingConfig
  double sampling_rate = 1
tensorflow.serving.LogMetadata
  tensorflow.serving.ModelSpec model_spec = 1
  tensorflow.serving.SamplingConfig sampling_config = 2
  repeated string saved_model_tags = 3
  int64 timestamp_secs = 4
tensorflow.serving.ClassifyLog
  tensorflow.serving.ClassificationRequest request = 1
  tensorflow.serving.ClassificationResponse response = 2
tensorflow.serving.RegressLog
  tensorflow.serving.RegressionRequest request = 1
  tensorflow.serving.RegressionResponse response = 2
tensorflow.serving.PredictLog
  tensorflow.serving.PredictRequest request = 1
  tensorflow.serving.PredictResponse response = 2
tensorflow.serving.PredictStreamedLog
  repeated tensorflow.serving.PredictRequest request = 1
  repeated tensorflow.serving.PredictResponse response = 2
tensorflow.serving.MultiInferenceLog
  tensorflow.serving.MultiInferenceRequest request = 1
  tensorflow.serving.MultiInferenceResponse response = 2
tensorflow.serving.SessionRunLog
  tensorflow.serving.SessionRunRequest request = 1
  tensorflow.serving.SessionRunResponse response = 2
tensorflow.serving.PredictionLog
  tensorflow.serving.LogMetadata log_metadata = 1
  oneof log_type: tensorflow.serving.ClassifyLog classify_log = 2
  oneof log_type: tensorflow.serving.RegressLog regress_log = 3
  oneof log_type: tensorflow.serving.MultiInferenceLog multi_inference_log = 4
  oneof log_type: tensorflow.serving.SessionRunLog session_run_log = 5
  oneof log_type: tensorflow.serving.PredictLog predict_log = 6
  oneof log_type: tensorflow.serving.PredictStreamedLog predict_streamed_log = 7

tensorflow.serving.GetModelMetadataRequest
  tensorflow.serving.ModelSpec model_spec = 1
  repeated string metadata_field = 2
tensorflow.serving.GetModelMetadataResponse
  tensorflow.serving.ModelSpec model_spec = 1
  map<string, google.protobuf.Any> metadata = 2
tensorflow.serving.SignatureDefMap
  map<string, tensorflow.SignatureDef> signature_def = 1

tensorflow.serving.GetModelStatusRequest
  tensorflow.serving.ModelSpec model_spec = 1
tensorflow.serving.StatusProto
  int32 error_code = 1
  string error_message = 2
tensorflow.serving.ModelVersionStatus
  int64 version = 1
  int32 state = 2
  tensorflow.serving.StatusProto status = 3
tensorflow.serving.GetModelStatusResponse
  repeated tensorflow.serving.ModelVersionStatus model_version_status = 1

tensorflow.serving.BatchingParameters
  google.protobuf.Int64Value max_batch_size = 1
  google.protobuf.Int64Value batch_timeout_micros = 2
  google.protobuf.Int64Value max_enqueued_batches = 3
  google.protobuf.Int64Value num_batch_threads = 4
  google.protobuf.StringValue thread_pool_name = 5
  repeated int64 allowed_batch_sizes = 6
  bool pad_variable_length_inputs = 7
  google.protobuf.BoolValue enable_large_batch_splitting = 8
  google.protobuf.Int64Value max_execution_batch_size = 9
tensorflow.serving.PrometheusConfig
  bool enable = 1
  string path = 2
tensorflow.serving.MonitoringConfig
  tensorflow.serving.PrometheusConfig prometheus_config = 1
"""

_Field = descriptor_pb2.FieldDescriptorProto


def message(name: str) -> Any:
    """The class of the message with this full name."""
    return message_factory.GetMessageClass(_pool().FindMessageTypeByName(name))


def names() -> list[str]:
    """Full names of all messages, in the order of the table."""
    return [line for line in _TABLE.splitlines() if line and not line.startswith(" ")]


@functools.cache
def _pool() -> Any:
    pool = descriptor_pool.DescriptorPool()
    packages: dict[str, Any] = {}
    # Each package refers only to those before it: google.protobuf, tensorflow, tensorflow.serving.
    for package in ("google.protobuf", "tensorflow", "tensorflow.serving"):
        packages[package] = descriptor_pb2.FileDescriptorProto(
            name=f"{package}.proto",
            package=package,
            syntax="proto3",
            dependency=[file.name for file in packages.values()],
        )
    messages: dict[str, Any] = {}
    current = ""
    for line in filter(None, _TABLE.splitlines()):
        if line.startswith(" "):
            _add_field(messages[current], current, line.strip())
            continue
        current = line
        outer, _, name = line.rpartition(".")
        place = messages[outer].nested_type if outer in messages else packages[outer].message_type
        messages[line] = place.add(name=name)
    for file in packages.values():
        pool.AddSerializedFile(file.SerializeToString())
    return pool


def _add_field(of: Any, full_name: str, line: str) -> None:
    before, _, number = line.rpartition(" = ")
    group, _, before = before.rpartition(": ")
    kind, _, name = before.rpartition(" ")
    field = of.field.add(name=name, number=int(number), label=_Field.LABEL_OPTIONAL)
    if group:
        group = group.partition(" ")[2]
        oneofs = [oneof.name for oneof in of.oneof_decl]
        if group not in oneofs:
            of.oneof_decl.add(name=group)
            oneofs.append(group)
        field.oneof_index = oneofs.index(group)
    if kind.startswith("map<"):
        value = kind.partition(", ")[2].rstrip(">")
        entry = of.nested_type.add(name=f"{name.title().replace('_', '')}Entry")
        entry.options.map_entry = True
        _add_field(entry, full_name, "string key = 1")
        _add_field(entry, full_name, f"{value} value = 2")
        kind = f"repeated {full_name}.{entry.name}"
    if kind.startswith("repeated "):
        field.label = _Field.LABEL_REPEATED
        kind = kind.partition(" ")[2]
    if "." in kind:
        field.type, field.type_name = _Field.TYPE_MESSAGE, f".{kind}"
    else:
        field.type = getattr(_Field, f"TYPE_{kind.upper()}")
