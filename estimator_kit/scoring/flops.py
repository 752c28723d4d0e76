"""Counts the floating-point operations of a prediction: `observed/flops.json`.

    count(export)    {"a_row": 5120, "by_op": {"MatMul": 5120}, "varying": 0}

It adds up the matrix products (MatMul, BatchMatMul) in the graph of an export, from the shapes of
their inputs. A product of [rows, k] and [k, n] takes 2 * k * n operations a row: a multiplication
and an addition for each weight. Lookups of embeddings, activations and sums are not counted. They
take few operations, but they may take more time. A size that differs between rows, such as the
number of steps of a list, counts as 1. It reads the graph and runs nothing.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from typing import Any, Optional

import tensorflow as tf

from estimator_kit import storage
from estimator_kit.embeddings import dynamic_package
from estimator_kit.exporters.saved_model_graph import read_saved_model, serving_graph
from estimator_kit.model.model_fn import PREDICT_EXAMPLES

_FILE = "flops.json"
_MATRIX_OPS = ("MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")


def path_of(model_dir: str) -> str:
    return os.path.join(model_dir, "observed", _FILE)


def write(model_dir: str, export: str) -> None:
    """Counts the operations of an export, and writes the file into the model directory."""
    storage.write_json(path_of(model_dir), count(export))


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
    names = {output.name.partition(":")[0] for output in outputs}
    by_op: dict[str, int] = {}
    varying = 0
    for op in _needed(graph, names):
        if op.type in _MATRIX_OPS:
            operations, varies = _of_product(op)
            by_op[op.type] = by_op.get(op.type, 0) + operations
            varying += varies
    return {"a_row": sum(by_op.values()), "by_op": by_op, "varying": varying}


def _needed(graph: tf.Graph, names: Iterable[str]) -> list[Any]:
    """The ops that outputs depend on."""
    found: dict[str, Any] = {}
    waiting = [graph.get_operation_by_name(name) for name in names]
    while waiting:
        op = waiting.pop()
        if op.name not in found:
            found[op.name] = op
            waiting += [*(tensor.op for tensor in op.inputs), *op.control_inputs]
    return list(found.values())


def _of_product(op: Any) -> tuple[int, bool]:
    """The operations of a product for one row, and whether they differ between rows."""
    left, right = (_shape(tensor) for tensor in op.inputs[:2])
    if left is None or right is None:
        return 0, True
    flips = ("transpose_a", "transpose_b") if op.type == "MatMul" else ("adj_x", "adj_y")
    summed = len(left) - (2 if op.get_attr(flips[0]) else 1)
    width = right[-2 if op.get_attr(flips[1]) else -1]
    outer = [size for i, size in enumerate(left) if i != summed]
    # The first size of the left input is the number of rows, unless it is known.
    varies = None in (outer[1:] if outer[0] is None else outer) or None in (left[summed], width)
    sizes = [size for size in (*outer, left[summed], width) if size is not None]
    return 2 * math.prod(sizes), varies


def _shape(tensor: tf.Tensor) -> Optional[list[Optional[int]]]:
    return tensor.shape.as_list() if tensor.shape.rank is not None else None
