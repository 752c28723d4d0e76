"""`assets.extra/tf_serving_warmup_requests`: requests that a server sends to a new version first.

A TFRecord file of `tensorflow.serving.PredictionLog`s, one for each signature, with real rows. All
inputs of a request have the same number of rows, as batching needs.

This module writes the few messages field by field, with the field numbers of TensorFlow Serving's
prediction_log.proto, predict.proto, classification.proto, regression.proto, input.proto and
model.proto. So an export does not need the package `tensorflow-serving-api`. A test reads the file
with that package.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from estimator_kit.exporters.signatures import defaults_of, options_of
from feature_specs.spec import FeatureSpec

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
            logs.append(_field(_CLASSIFY_LOG, _field(1, _of_examples(model, name, records))))
        elif not sequence_examples and method == tf.saved_model.REGRESS_METHOD_NAME:
            logs.append(_field(_REGRESS_LOG, _field(1, _of_examples(model, name, records))))
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
                request = predict_request(model, name, inputs)
                logs.append(_field(_PREDICT_LOG, _field(1, request)))
    with tf.io.TFRecordWriter(path) as writer:
        for log in logs:
            writer.write(log)
    return len(logs)


def predict_request(model: str, signature: str, inputs: Mapping[str, Any]) -> bytes:
    """A serialized `tensorflow.serving.PredictRequest`."""
    result = _field(1, _model_spec(model, signature))
    for key, value in sorted(inputs.items()):
        tensor = tf.make_tensor_proto(value).SerializeToString()
        result += _field(2, _field(1, key.encode()) + _field(2, tensor))
    return result


def _of_examples(model: str, signature: str, records: Sequence[bytes]) -> bytes:
    """A ClassificationRequest or RegressionRequest, which have the same fields."""
    examples = b"".join(_field(1, record) for record in records)
    return _field(1, _model_spec(model, signature)) + _field(2, _field(1, examples))


def _model_spec(model: str, signature: str) -> bytes:
    return _field(1, model.encode()) + _field(3, signature.encode())


def _field(number: int, value: bytes) -> bytes:
    """A length-delimited field of a protobuf message: a string, bytes or a message."""
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _varint(number: int) -> bytes:
    result = bytearray()
    while number > 0x7F:
        result.append(number & 0x7F | 0x80)
        number >>= 7
    result.append(number)
    return bytes(result)
