"""Where names of tf.contrib.framework are in TensorFlow 2.15 to 2.21."""

from __future__ import annotations

import importlib
from typing import Any, Optional

import tensorflow.compat.v1 as tf

_PYTHON = "tensorflow.python"

_PRIVATE = {
    "framework.ops": "prepend_name_scope strip_name_scope",
    "framework.smart_cond": "smart_case smart_cond smart_constant_value",
    "framework.sparse_tensor": "convert_to_tensor_or_sparse_tensor",
    "framework.tensor": "BoundedTensorSpec TensorSpec",
    "ops.check_ops": "assert_same_float_dtype assert_scalar",
    "ops.data_flow_ops": "RecordInput",
    "ops.init_ops": "convolutional_delta_orthogonal convolutional_orthogonal_1d "
    "convolutional_orthogonal_2d convolutional_orthogonal_3d",
    "training.checkpoint_utils": "init_from_checkpoint list_variables load_checkpoint "
    "load_variable",
    "util.deprecation": "deprecated deprecated_arg_values deprecated_args",
}

_MODULE_OF = {name: module for module, names in _PRIVATE.items() for name in names.split()}


def find(name: str) -> Any:
    """The object with this name, one of `framework.__all__`."""
    if name in ("argsort", "sort", "is_tensor"):
        return getattr(tf, name)
    if name == "nest":
        return importlib.import_module(f"{_PYTHON}.util.nest")
    if name == "get_name_scope":
        return get_name_scope
    if name == "get_graph_from_inputs":
        return get_graph_from_inputs
    return getattr(importlib.import_module(f"{_PYTHON}.{_MODULE_OF[name]}"), name)


def get_name_scope() -> str:
    """The current name scope of the default graph, without a slash at its end."""
    name: str = tf.get_default_graph().get_name_scope()
    return name


def get_graph_from_inputs(op_input_list: Any, graph: Optional[tf.Graph] = None) -> tf.Graph:
    """The graph of the first input that has one, or the default graph.

    Raises:
      ValueError: two inputs are of different graphs, or one is not of `graph`.
    """
    for each in op_input_list:
        own = getattr(each, "graph", None)
        if own is None:
            continue
        if graph is not None and own is not graph:
            raise ValueError(f"op_input_list: expected one graph, but {each.name} is of another")
        graph = own
    return graph or tf.get_default_graph()
