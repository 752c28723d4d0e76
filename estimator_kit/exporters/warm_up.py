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
from input_pipelines.record_files.wire import message

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
