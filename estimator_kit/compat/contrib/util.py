"""tf.contrib.util: constants as protocol buffers, and the operations that a graph needs."""

from __future__ import annotations

import tensorflow.compat.v1 as tf
from tensorflow.python.framework import meta_graph, tensor_util

__all__ = """
    constant_value make_ndarray make_tensor_proto ops_used_by_graph_def stripped_op_list_for_graph
""".split()

REMEDIES = {"loader": "Use tf.load_op_library."}

constant_value = tensor_util.constant_value
make_ndarray = tf.make_ndarray
make_tensor_proto = tf.make_tensor_proto
ops_used_by_graph_def = meta_graph.ops_used_by_graph_def
stripped_op_list_for_graph = meta_graph.stripped_op_list_for_graph
