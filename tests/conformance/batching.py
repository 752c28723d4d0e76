"""TensorFlow Serving's rule for batches, and the requests of a warm-up as arrays.

With batching, which `--serving_config_dir` turns on, TensorFlow Serving joins the rows of several
requests (batching_session.cc, ComputeTensorBatchSize and SplitOutputTensors): each input and output
of a signature has a first dimension, which has the same size in all of them. A model whose warm-up
breaks the rule does not load.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

from estimator_kit.exporters.saved_model_graph import read_saved_model, serving_graph


def signatures_of(export):
    """The signatures of an export, all of whose tensors have an open first dimension."""
    meta = serving_graph(read_saved_model(str(export)), str(export))
    found = {n: made for n, made in meta.signature_def.items() if not n.startswith("__")}
    for name, signature in found.items():
        assert signature.inputs and signature.outputs, name
        for key, info in (*signature.inputs.items(), *signature.outputs.items()):
            shape = tf.TensorShape(info.tensor_shape)
            assert shape.rank and shape[0] is None, (name, key, shape)
    return found


def requests_of(path):
    """`{signature: {input: array}}` of a warm-up file, whose arrays have equal first dimensions."""
    found = {}
    for record in tf.compat.v1.io.tf_record_iterator(str(path)):
        log = prediction_log_pb2.PredictionLog.FromString(record)
        kind = log.WhichOneof("log_type")
        request = getattr(log, kind).request
        if kind == "predict_log":
            inputs = {key: tf.make_ndarray(value) for key, value in request.inputs.items()}
        else:
            examples = request.input.example_list.examples
            inputs = {"inputs": np.array([e.SerializeToString() for e in examples], object)}
        rows(inputs)
        found[request.model_spec.signature_name] = inputs
    return found


def rows(arrays):
    """The number of rows of arrays, which is the same in all of them."""
    (size,) = {array.shape[:1] for array in arrays.values()}
    return size[0]
