"""The jobs of the processes with two TensorFlow versions in `test_two_versions`.

See `tests.resident`."""

from __future__ import annotations

import json
import sys


def program(*arguments: str) -> None:
    """Runs `python run.py ARGUMENTS`, which must end with exit status 0."""
    from tests import programs

    done = programs.run(".", *arguments)
    assert done.returncode == 0, done.stderr


def serve(export: str, records: str, output: str) -> None:
    """Sends records to a SavedModel with TensorFlow alone, and writes the answers as JSON."""
    import tensorflow as tf

    examples = [record.numpy() for record in tf.data.TFRecordDataset(records)]
    predict = tf.saved_model.load(export).signatures["serving_default"]
    answer = predict(examples=tf.constant(examples))
    values = {k: v.numpy().tolist() for k, v in answer.items() if v.dtype.is_floating}
    assert not [m for m in sys.modules if m.startswith(("estimator_kit", "input_pipelines"))]
    with open(output, "w", encoding="utf-8") as file:
        json.dump(values, file)
