"""Counts the floating-point operations of a prediction: `observed/flops.json`.

    count(export).a_row    # 5120

It adds up the matrix products in the graph of an export; `model.operations` says how they are
counted. It reads the graph and runs nothing.
"""

from __future__ import annotations

import tensorflow as tf

from estimator_kit.embeddings import dynamic_package
from estimator_kit.exporters.saved_model_graph import read_saved_model, serving_graph
from estimator_kit.model import operations
from estimator_kit.model.names import PREDICT_EXAMPLES
from estimator_kit.observing.measured_export import Flops, path_of


def write(model_dir: str, export: str) -> None:
    """Counts the operations of an export, and writes the file into the model directory."""
    count(export).save(path_of(model_dir, "flops.json"))


def count(export: str) -> Flops:
    """The operations of a prediction for one row.

    Args:
      export: the folder of a SavedModel of the kit.
    """
    dynamic_package.load_ops_of(export)
    meta = serving_graph(read_saved_model(export), export)
    outputs = meta.signature_def[PREDICT_EXAMPLES].outputs.values()
    graph = tf.Graph()
    with graph.as_default():
        tf.import_graph_def(meta.graph_def, name="")
    by_op: dict[str, int] = {}
    varying = 0
    for op in operations.needed(graph.get_tensor_by_name(output.name) for output in outputs):
        if op.type in operations.PRODUCTS:
            count_of_op, varies = operations.of_product(op)
            by_op[op.type] = by_op.get(op.type, 0) + count_of_op
            varying += varies
    return Flops(a_row=sum(by_op.values()), by_op=by_op, varying=varying)
