"""Finds ops of a graph that call Python, which no export can contain.

`tf.numpy_function` and `tf.py_function` work in training and in predictions from a checkpoint. But
a SavedModel has only the name of the function: it loads, and its first request fails. TensorFlow
Serving does not load it. This module reads a graph and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Optional

import tensorflow as tf

from estimator_kit.config import user_errors
from estimator_kit.model import operations

_TYPES = frozenset({"PyFunc", "PyFuncStateless", "EagerPyFunc"})


def problem(model: str, graph: tf.Graph) -> Optional[str]:
    """Why an export cannot have the graph of a model's predictions; None if it can.

    Args:
      model: what made the graph, for the message.
      graph: a graph of predictions. An export has all of it except the initializers of variables.
    """
    python_ops = [op for op in graph.get_operations() if op.type in _TYPES]
    python_ops += _callers(graph)
    if not python_ops:
        return None
    initializers = [v.initializer for v in graph.get_collection("variables")]
    only_first = {op.name for op in operations.needed_ops(initializers)}
    for op in python_ops:
        if op.name not in only_first:
            place = user_errors.place_of_op(op)
            return (
                f"{f'{place}: ' if place else ''}{model}: the operation {op.name} calls a Python "
                "function, which an export cannot contain. Write it with TensorFlow's operations, "
                "or call it only in training."
            )
    return None


def _callers(graph: tf.Graph) -> list[Any]:
    """The ops that call a function of the graph in which Python is called."""
    takes: dict[str, bool] = {}  # Whether ops of a type call functions.
    for op in graph.get_operations():
        if op.type not in takes:
            kinds = {attr.type for attr in op.op_def.attr}
            takes[op.type] = not kinds.isdisjoint({"func", "list(func)"})
    calls = [op for op in graph.get_operations() if takes[op.type]]
    if not calls:
        return []
    library = graph.as_graph_def().library.function
    python = {f.signature.name for f in library if any(n.op in _TYPES for n in f.node_def)}
    while True:
        more = {
            f.signature.name
            for f in library
            if f.signature.name not in python and not python.isdisjoint(_called(f.node_def))
        }
        if not more:
            return [op for op in calls if not python.isdisjoint(_called([op.node_def]))]
        python |= more


def _called(nodes: Iterable[Any]) -> set[str]:
    """The names of the functions that nodes call, also by their types, as old graphs do."""
    names: set[str] = set()
    for node in nodes:
        names.add(node.op)
        for value in node.attr.values():
            names.update(f.name for f in (value.func, *value.list.func) if f.name)
    return names
