"""`client_examples/` of an export: requests with a real row, ready to send.

  request.json           for REST, with one tensor for each feature (predict_raw)
  request_examples.json  for REST, with a serialized record (predict_examples)
  curl.sh                sends both
  request.pb             the second one as a serialized PredictRequest
  predict_grpc.py        sends it with gRPC

The row has only the features that the model reads: no labels, and nothing else from its record.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from estimator_kit.exporters import warm_up
from estimator_kit.model.names import PREDICT_EXAMPLES, PREDICT_RAW
from feature_specs.spec import FeatureSpec
from input_pipelines.transform.serving_inputs import EXAMPLES

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
    found = {
        "request_examples.json": _text(by_record),
        "request.pb": warm_up.predict_request(
            model, PREDICT_EXAMPLES, {EXAMPLES: np.array([record], object)}
        ),
        "predict_grpc.py": _GRPC.encode(),
    }
    if raw:
        inputs = {name: _json(value.tolist()) for name, value in raw.items()}
        found["request.json"] = _text({"signature_name": PREDICT_RAW, "inputs": inputs})
    requests = sorted(name for name in found if name.endswith(".json"))
    found["curl.sh"] = _CURL.format(model=model, requests=" ".join(requests)).encode()
    return found


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
