"""Counts the floating-point operations of matrix products in a graph, from shapes alone.

    for op in needed(predictions):
        if op.type in PRODUCTS:
            operations, varies = of_product(op)

A product of [rows, k] and [k, n] takes 2 * k * n operations a row: a multiplication and an addition
for each weight. Lookups of embeddings, activations and sums are not counted. They take few
operations, but they may take more time. A size that differs between rows, such as the number of
steps of a list, counts as 1. It reads the graph and runs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Optional

import tensorflow as tf

PRODUCTS = ("MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", "Einsum")

_Shape = list[Optional[int]]


def needed(tensors: Iterable[tf.Tensor]) -> list[Any]:
    """The ops that tensors depend on."""
    return needed_ops(tensor.op for tensor in tensors)


def needed_ops(ops: Iterable[Any]) -> list[Any]:
    """These ops and the ops that they depend on."""
    ops_by_name: dict[str, Any] = {}
    waiting = list(ops)
    while waiting:
        op = waiting.pop()
        if op.name not in ops_by_name:
            ops_by_name[op.name] = op
            waiting += [*(tensor.op for tensor in op.inputs), *op.control_inputs]
    return list(ops_by_name.values())


def of_product(op: Any) -> tuple[int, bool]:
    """The operations of one of `PRODUCTS` for one row, and whether they differ between rows."""
    shapes = [_shape(tensor) for tensor in op.inputs[:2]]
    known_shapes = [shape for shape in shapes if shape is not None]
    if len(known_shapes) < 2:
        return 0, True
    left, right = known_shapes
    if op.type == "Einsum":
        return _of_einsum(op.get_attr("equation").decode(), left, right)
    flips = ("transpose_a", "transpose_b") if op.type == "MatMul" else ("adj_x", "adj_y")
    summed = len(left) - (2 if op.get_attr(flips[0]) else 1)
    width = right[-2 if op.get_attr(flips[1]) else -1]
    outer = [size for i, size in enumerate(left) if i != summed]
    # The first size of the left input is the number of rows, unless it is known.
    varies = None in (outer[1:] if outer[0] is None else outer) or None in (left[summed], width)
    return _twice([*outer, left[summed], width]), varies


def _of_einsum(equation: str, left: _Shape, right: _Shape) -> tuple[int, bool]:
    """Each number of the result sums over the letters that the result does not have."""
    letters = equation.partition("->")[0].split(",")
    if "." in equation or [len(letters[0]), len(letters[1])] != [len(left), len(right)]:
        return 0, True
    sizes: dict[str, Optional[int]] = {}
    for letter, size in zip("".join(letters), [*left, *right]):
        sizes[letter] = size if sizes.get(letter) is None else sizes[letter]
    rows = letters[0][0] if left[0] is None else ""
    return _twice(sizes.values()), None in [s for name, s in sizes.items() if name != rows]


def _twice(sizes: Iterable[Optional[int]]) -> int:
    return 2 * math.prod(size for size in sizes if size is not None)


def _shape(tensor: tf.Tensor) -> Optional[_Shape]:
    return tensor.shape.as_list() if tensor.shape.rank is not None else None
