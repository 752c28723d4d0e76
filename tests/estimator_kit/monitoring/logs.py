"""Request logs for tests, with TensorFlow Serving's own classes of messages."""

from __future__ import annotations

import calendar
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, Optional

import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

from input_pipelines.record_files import writing


def seconds(text: str) -> int:
    """The seconds since 1970 of a time such as 2026-01-05T13:30."""
    day, _, time = text.partition("T")
    hour, _, minute = (time or "0:0").partition(":")
    numbers = (*map(int, day.split("-")), int(hour), int(minute), 0)
    return calendar.timegm(numbers)


def records_of(rows: Sequence[Mapping[str, Any]], names: Sequence[str] = ()) -> list[bytes]:
    """Serialized Examples of rows, without their labels."""
    labels = {"click", "buy", "row", *names}
    return [
        writing.example({k: v for k, v in row.items() if k not in labels}).SerializeToString()
        for row in rows
    ]


def predict_log(
    records: Sequence[bytes],
    outputs: Mapping[str, Any],
    *,
    time: Optional[int] = None,
    version: Optional[int] = None,
    model: str = "ads",
    signature: str = "",
) -> Any:
    """A request to predict with serialized records, and its answer."""
    log = prediction_log_pb2.PredictionLog()
    spec = log.log_metadata.model_spec
    spec.name, spec.signature_name = model, signature
    if version is not None:
        spec.version.value = version
    if time is not None:
        log.log_metadata.timestamp_secs = time
    body = log.predict_log
    body.request.model_spec.name = model
    body.request.model_spec.signature_name = signature
    body.request.inputs["examples"].CopyFrom(tf.make_tensor_proto(list(records), tf.string))
    for name, values in outputs.items():
        body.response.outputs[name].CopyFrom(tf.make_tensor_proto(values))
    return log


def write_log(path: pathlib.Path, logs: Sequence[Any]) -> str:
    """Writes a log file; it replaces one with its name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tf.io.TFRecordWriter(str(path)) as writer:
        for log in logs:
            writer.write(log.SerializeToString())
    return str(path)


def column(logits: Any) -> Any:
    """Logits as a model answers them, float32 [rows, 1]."""
    return np.asarray(logits, np.float32).reshape(-1, 1)
