"""Finding TensorFlow names in source code."""

import pytest

from tools import tensorflow_report

SOURCE = """
import os
import tensorflow as tf
import tensorflow.compat.v1
from tensorflow.python.ops import lookup_ops as lookups
from tensorflow.python.framework.ops import uid

os.path.join(tf.train.Saver.from_proto, lookups.index_table(tensorflow.bool))
tf.estimator().anything
"""


def test_names(tmp_path):
    file = tmp_path / "model.py"
    file.write_text(SOURCE)
    assert tensorflow_report.names([file]) == {
        name: {"model.py"}
        for name in (
            "tensorflow",
            "tensorflow.bool",
            "tensorflow.estimator",
            "tensorflow.python.framework.ops.uid",
            "tensorflow.python.ops.lookup_ops",
            "tensorflow.python.ops.lookup_ops.index_table",
            "tensorflow.train",
            "tensorflow.train.Saver",
            "tensorflow.train.Saver.from_proto",
        )
    }


@pytest.mark.parametrize(
    ("name", "missing"),
    [
        ("tensorflow", None),
        ("tensorflow.train.Example", None),
        ("tensorflow.train.Example.beyond_a_class", None),
        ("tensorflow.python.framework.ops.uid", None),
        ("tensorflow.nothing.below", "tensorflow.nothing"),
        ("tensorflow.python.framework.nothing", "tensorflow.python.framework.nothing"),
        ("tensorflow.keras.layers.NoLayer", "tensorflow.keras.layers.NoLayer"),
    ],
)
def test_first_missing(name, missing):
    assert tensorflow_report.first_missing(name) == missing
