"""Freezes the graph of an export (variables become constants) and optimizes it with Grappler."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from tensorflow.core.protobuf import config_pb2
from tensorflow.python.grappler import tf_optimizer

from estimator_kit.exporters import loading
from estimator_kit.exporters.sample_rows import on_cpu

MAIN_OPS = ("saved_model_main_op", "legacy_init_op")


def _kept_nodes(meta: Any) -> list[str]:
    """The nodes that a loaded SavedModel needs: outputs, inputs, and what runs when it loads."""
    tensors = [
        info.name
        for signature in meta.signature_def.values()
        for info in (*signature.outputs.values(), *signature.inputs.values())
    ]
    for name in MAIN_OPS:
        if name in meta.collection_def:
            tensors += meta.collection_def[name].node_list.value
    tensors += [asset.tensor_info.name for asset in meta.asset_file_def]
    return sorted({tensor.partition(":")[0] for tensor in tensors})


def frozen(source: str, meta: Any) -> Any:
    """The GraphDef of an export with constants in place of its variables."""
    with tf.Graph().as_default() as graph, tf.compat.v1.Session(config=on_cpu()) as session:
        with loading.as_export_error(f"{source} does not load"):
            tf.compat.v1.saved_model.load(session, [tf.saved_model.SERVING], source)
        return tf.compat.v1.graph_util.convert_variables_to_constants(
            session, graph.as_graph_def(), _kept_nodes(meta)
        )


def optimized(meta: Any, graph: Any) -> Any:
    """The graph after Grappler; it keeps the constants of asset paths, which loaders fill."""
    item = type(meta)()
    item.CopyFrom(meta)
    item.graph_def.CopyFrom(graph)
    item.ClearField("asset_file_def")
    item.ClearField("collection_def")
    item.collection_def["train_op"].node_list.value.extend(_kept_nodes(meta))
    paths = {asset.tensor_info.name.partition(":")[0] for asset in meta.asset_file_def}
    kept = {}
    for node in item.graph_def.node:
        if node.name in paths:
            kept[node.name] = type(node).FromString(node.SerializeToString())
            node.op = "Placeholder"
            node.attr.pop("value")
            node.attr["shape"].shape.SetInParent()
    config = config_pb2.ConfigProto()
    options = config.graph_options.rewrite_options
    options.min_graph_nodes = -1
    options.optimizers.extend(["pruning", "function", "constfold", "arithmetic", "dependency"])
    options.meta_optimizer_iterations = 2
    result = tf_optimizer.OptimizeGraph(config, item)
    for node in result.node:
        if node.name in kept:
            node.CopyFrom(kept[node.name])
    return result
