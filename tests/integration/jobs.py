"""What processes of two TensorFlows do for `test_two_versions`; see `tests.resident`."""

from __future__ import annotations

import json
import sys


def program(*arguments: str) -> None:
    """`python run.py ARGUMENTS`, which must end with exit status 0."""
    from tests import programs

    done = programs.run(".", *arguments)
    assert done.returncode == 0, done.stderr


def serve(export: str, records: str, output: str) -> None:
    """Answers records by a SavedModel with nothing but TensorFlow, into a JSON file."""
    import tensorflow as tf

    examples = [record.numpy() for record in tf.data.TFRecordDataset(records)]
    predict = tf.saved_model.load(export).signatures["serving_default"]
    answer = predict(examples=tf.constant(examples))
    values = {k: v.numpy().tolist() for k, v in answer.items() if v.dtype.is_floating}
    assert not [m for m in sys.modules if m.startswith(("estimator_kit", "input_pipelines"))]
    with open(output, "w", encoding="utf-8") as file:
        json.dump(values, file)
