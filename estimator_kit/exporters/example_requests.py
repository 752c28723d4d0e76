"""Requests with real rows that an export keeps: for clients, and for a server that warms up.

  client_examples/
    request.json           for REST, with one tensor for each feature (predict_raw)
    request_examples.json  for REST, with a serialized record (predict_examples)
    curl.sh                sends both
    request.pb             the second one as a serialized PredictRequest
    predict_grpc.py        sends it with gRPC
  assets.extra/tf_serving_warmup_requests
                           `tensorflow.serving.PredictionLog`s, one for each signature, which a
                           server sends to a new version first

The row of a client has only the features that the model reads: no labels, and nothing else from its
record. All inputs of a request to warm up have the same number of rows, as batching needs.

The few messages are written field by field, with the field numbers of TensorFlow Serving's
prediction_log.proto, predict.proto, classification.proto, regression.proto, input.proto and
model.proto. So an export does not need the package `tensorflow-serving-api`. A test reads the file
with that package.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from estimator_kit.exporters.signatures import defaults_of, options_of
from estimator_kit.model.names import PREDICT_EXAMPLES, PREDICT_RAW
from feature_specs.spec import FeatureSpec
from input_pipelines.record_files.framing import message
from input_pipelines.transform.serving_inputs import EXAMPLES

NAME = "tf_serving_warmup_requests"

_CLASSIFY_LOG, _REGRESS_LOG, _PREDICT_LOG = 2, 3, 6


def write(
    path: str,
    signatures: Mapping[str, Any],
    records: Sequence[bytes],
    raw: Mapping[str, np.ndarray],
    *,
    spec: FeatureSpec,
    model: str,
) -> int:
    """Writes one request for each signature; returns the number of requests.

    Args:
      path: the path of the file.
      signatures: `{name: SignatureDef}`.
      records: serialized rows, for signatures that take records.
      raw: the rows as tensors, for signatures that take one tensor for each feature. Without rows,
        these signatures get no request.
      spec: the feature spec. If records are SequenceExamples, which classify and regress requests
        cannot hold, these signatures get predict requests.
      model: the name of the model in the requests; servers replace it.
    """
    logs = []
    sequence_examples = spec.sequence_examples
    for name, signature in sorted(signatures.items()):
        method = signature.method_name
        if not sequence_examples and method == tf.saved_model.CLASSIFY_METHOD_NAME:
            logs.append((_CLASSIFY_LOG, _of_examples(model, name, records)))
        elif not sequence_examples and method == tf.saved_model.REGRESS_METHOD_NAME:
            logs.append((_REGRESS_LOG, _of_examples(model, name, records)))
        else:
            inputs: Mapping[str, Any] = raw
            options = {
                key: np.repeat(value, len(records), axis=0)
                for key, value in options_of(name, signatures, spec).items()
            }
            needed = set(signature.inputs) - set(options)
            if len(needed) == 1 and needed <= {"examples", "inputs"}:
                (key,) = needed
                inputs = raw if key in raw else {key: np.array(records, object), **options}
            elif set(signature.inputs) == set(signature.defaults):
                inputs = defaults_of(signature)
            if inputs and len(next(iter(inputs.values()))):
                logs.append((_PREDICT_LOG, predict_request(model, name, inputs)))
    with tf.io.TFRecordWriter(path) as writer:
        for kind, request in logs:
            writer.write(message([(kind, message([(1, request)]))]))
    return len(logs)


def predict_request(model: str, signature: str, inputs: Mapping[str, Any]) -> bytes:
    """A serialized `tensorflow.serving.PredictRequest`."""
    tensors = (
        message([(1, key), (2, tf.make_tensor_proto(value).SerializeToString())])
        for key, value in sorted(inputs.items())
    )
    return message([(1, _model_spec(model, signature)), *((2, tensor) for tensor in tensors)])


def _of_examples(model: str, signature: str, records: Sequence[bytes]) -> bytes:
    """A ClassificationRequest or RegressionRequest, which have the same fields."""
    examples = message((1, record) for record in records)
    return message([(1, _model_spec(model, signature)), (2, message([(1, examples)]))])


def _model_spec(model: str, signature: str) -> bytes:
    return message([(1, model), (3, signature)])


_CURL = """\
#!/bin/sh
# Sends a request of one row to a server: ./curl.sh [http://localhost:8501 [name of the model]]
# Exits with curl's status if a request fails. --fail-with-body needs curl 7.76 or later.
cd "$(dirname "$0")" || exit
url="${{1:-http://localhost:8501}}/v1/models/${{2:-{model}}}:predict"
status=0
for request in {requests}; do
  curl --fail-with-body -d "@$request" "$url" || status=$?
done
exit $status
"""

_GRPC = '''\
"""Sends request.pb to a server: python predict_grpc.py [localhost:8500 [name of the model]]

Needs tensorflow-serving-api.
"""

import pathlib
import sys

import grpc
from google.protobuf import text_format
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

request = predict_pb2.PredictRequest()
request.ParseFromString(pathlib.Path(__file__).with_name("request.pb").read_bytes())
if len(sys.argv) > 2:
    request.model_spec.name = sys.argv[2]
with grpc.insecure_channel(sys.argv[1] if len(sys.argv) > 1 else "localhost:8500") as channel:
    stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
    # Not str(), which does not escape quotes in protobuf 5.
    print(text_format.MessageToString(stub.Predict(request, timeout=10)))
'''


def files(
    spec: FeatureSpec, record: bytes, raw: Mapping[str, np.ndarray], *, model: str
) -> dict[str, bytes]:
    """The files of the folder, as `{name: content}`.

    Args:
      spec: the feature spec.
      record: a serialized row.
      raw: the row as the tensors of a request; empty if the row cannot be sent as tensors.
      model: the default name of the model on the server.
    """
    record = without_others(spec, record)
    by_record = {"signature_name": PREDICT_EXAMPLES, "inputs": {EXAMPLES: [_json(record)]}}
    logs = {
        "request_examples.json": _text(by_record),
        "request.pb": predict_request(
            model, PREDICT_EXAMPLES, {EXAMPLES: np.array([record], object)}
        ),
        "predict_grpc.py": _GRPC.encode(),
    }
    if raw:
        inputs = {name: _json(value.tolist()) for name, value in raw.items()}
        logs["request.json"] = _text({"signature_name": PREDICT_RAW, "inputs": inputs})
    requests = sorted(name for name in logs if name.endswith(".json"))
    logs["curl.sh"] = _CURL.format(model=model, requests=" ".join(requests)).encode()
    return logs


def without_others(spec: FeatureSpec, record: bytes) -> bytes:
    """The record with only the features that a group reads."""
    used = set(spec.used_features())
    if not spec.sequence_examples:
        example = tf.train.Example.FromString(record)
        _keep(example.features.feature, used)
        return bytes(example.SerializeToString(deterministic=True))
    sequence = tf.train.SequenceExample.FromString(record)
    _keep(sequence.context.feature, used)
    _keep(sequence.feature_lists.feature_list, used)
    return bytes(sequence.SerializeToString(deterministic=True))


def _keep(entries: Any, names: set[str]) -> None:
    for name in list(entries):
        if name not in names:
            del entries[name]


def _json(value: Any) -> Any:
    """A value for TensorFlow Serving's REST; bytes that are not text are in base64."""
    if isinstance(value, list):
        return [_json(item) for item in value]
    if isinstance(value, bytes):
        try:
            text = value.decode()
        except UnicodeDecodeError:
            text = "\0"
        if text.isprintable() or not text:
            return text
        return {"b64": base64.b64encode(value).decode()}
    assert not (isinstance(value, float) and math.isinf(value))
    return value


def _text(value: Any) -> bytes:
    return (json.dumps(value, indent=2, sort_keys=True) + "\n").encode()
