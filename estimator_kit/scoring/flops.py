"""Counts the floating-point operations of a prediction: `observed/flops.json`.

    count(export)    {"a_row": 5120, "by_op": {"MatMul": 5120}, "varying": 0}

It adds up the matrix products in the graph of an export; `model.operations` says how they are
counted. It reads the graph and runs nothing.
"""

from __future__ import annotations

import os
from typing import Any

import tensorflow as tf

from estimator_kit.embeddings import dynamic_package
from estimator_kit.exporters.saved_model_graph import read_saved_model, serving_graph
from estimator_kit.model import operations
from estimator_kit.model.names import PREDICT_EXAMPLES
from feature_specs.files import documents

_FILE = "flops.json"


def path_of(model_dir: str) -> str:
    return os.path.join(model_dir, "observed", _FILE)


def write(model_dir: str, export: str) -> None:
    """Counts the operations of an export, and writes the file into the model directory."""
    documents.write_json(path_of(model_dir), count(export))


def count(export: str) -> dict[str, Any]:
    """The operations of a prediction for one row.

    Args:
      export: the folder of a SavedModel of the kit.

    Returns:
      `a_row`, `by_op` (the part of each type of op), and `varying`: how many of the ops have a size
      that differs between rows.
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
    return {"a_row": sum(by_op.values()), "by_op": by_op, "varying": varying}
