"""The requests that a version must answer before it is live.

These are the requests in `assets.extra/tf_serving_warmup_requests`, a TFRecord file of
`PredictionLog`s that TensorFlow Serving also reads, and one request without rows to each signature
that takes rows, which fails if variables or tables are missing.
"""

from __future__ import annotations

import contextlib
import os

import numpy as np
import tensorflow as tf

from estimator_kit.client import tensors
from estimator_kit.serving import answers
from estimator_kit.serving.errors import RequestError
from estimator_kit.serving.loaded_model import LoadedModel
from input_pipelines.record_files import file_lengths
from input_pipelines.record_files.framing import LARGEST_RECORD

# TensorFlow Serving has the same limit.
_MOST_RECORDS = 1000


def check(model: LoadedModel) -> int:
    """Sends the requests to a version; returns the number of warm-up requests.

    Raises:
      RequestError, ValueError, tf.errors.OpError: the version did not answer.
    """
    if not model.signatures:
        raise ValueError("it has no signature")
    for name in sorted(model.signatures):
        _ask_without_rows(model, name)
    path = os.path.join(model.path, "assets.extra", "tf_serving_warmup_requests")
    if not tf.io.gfile.exists(path):
        return 0
    return _replay(model, path)


def _ask_without_rows(model: LoadedModel, name: str) -> None:
    signature = model.signatures[name]
    inputs = {}
    for alias, info in signature.inputs.items():
        shape = [dim.size for dim in info.tensor_shape.dim]
        dtype = tensors.numpy_type(info.dtype)
        if info.tensor_shape.unknown_rank or not shape or shape[0] >= 0 or dtype is None:
            return
        inputs[alias] = np.zeros([0, *(max(size, 1) for size in shape[1:])], dtype)
    if not inputs:
        return
    # A model may refuse a request without rows. Damage causes other errors.
    with contextlib.suppress(tf.errors.InvalidArgumentError):
        model.run(name, inputs, sorted(signature.outputs))


def _replay(model: LoadedModel, path: str) -> int:
    from tensorflow_serving.apis import prediction_log_pb2

    if file_lengths.has_too_large(path):
        raise ValueError(f"a request of {path} has more than {LARGEST_RECORD:,} bytes")
    count = 0
    for record in tf.compat.v1.io.tf_record_iterator(path):
        if count == _MOST_RECORDS:
            break
        log = prediction_log_pb2.PredictionLog.FromString(record)
        kind = log.WhichOneof("log_type")
        try:
            if kind == "predict_log":
                answers.predict_message(model, log.predict_log.request)
            elif kind == "classify_log":
                answers.classify_message(model, log.classify_log.request)
            elif kind == "regress_log":
                answers.regress_message(model, log.regress_log.request)
            else:
                raise ValueError(f"this server does not answer {kind}")
        except (RequestError, ValueError, tf.errors.OpError) as error:
            raise ValueError(f"warm-up request {count} of {path}: {error}") from error
        count += 1
    return count
