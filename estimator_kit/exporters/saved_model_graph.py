"""The graph of a SavedModel on disk: its features, and a frozen form.

No function loads the model into the process, except `freeze`: it turns the variables into
constants, and optimizes the graph with Grappler.
"""

from __future__ import annotations

import collections
import os
from collections.abc import Iterable
from typing import Any, Optional

import tensorflow as tf
from google.protobuf import text_format
from tensorflow.core.protobuf import config_pb2, saved_model_pb2
from tensorflow.python.grappler import tf_optimizer

from estimator_kit import tensorflow_errors
from estimator_kit.checkpoints import kept_files
from estimator_kit.errors import ConfigError, ExportError
from estimator_kit.exporters.sample_rows import on_cpu
from feature_specs.spec import FeatureSpec
from input_pipelines.transform.serving_inputs import column_op, is_column_scope
from input_pipelines.transform.transforms import raw_of


def read_saved_model(path: str) -> Any:
    """The SavedModel proto of an export, from its binary or its text form.

    Raises:
      ConfigError: the folder is not an export.
      ExportError: the file with the graph is damaged, or a vocabulary was changed; the message
        names it.
    """
    file = saved_model_file(path)
    if file is None:
        raise ConfigError(f"{path} has no saved_model.pb. Name the folder of an export.")
    kept_files.check_export(path)
    if tf.io.gfile.isdir(file):
        raise _damaged(file, "it is a folder")
    saved = saved_model_pb2.SavedModel()
    with tf.io.gfile.GFile(file, "rb") as stream:
        data = stream.read()
    try:
        if file.endswith(".pbtxt"):
            text_format.Parse(data.decode(), saved)
        else:
            saved.ParseFromString(data)
    except (ValueError, text_format.ParseError) as error:
        raise _damaged(file, error) from error
    except Exception as error:  # Protobuf's DecodeError, which has no public base.
        if type(error).__name__ != "DecodeError":
            raise
        raise _damaged(file, error) from error
    if not saved.meta_graphs:  # As in an empty file, which protobuf parses.
        raise _damaged(file, "it has no graph")
    return saved


def _damaged(file: str, why: object) -> ExportError:
    return ExportError(f"{file} is damaged: {why}. Use another version, or export again.")


def serving_graph(saved: Any, path: str) -> Any:
    """The MetaGraphDef with the tag `serve`.

    Raises:
      ConfigError: no graph has this tag.
    """
    for meta in saved.meta_graphs:
        if tf.saved_model.SERVING in meta.meta_info_def.tags:
            return meta
    tags = sorted({tag for meta in saved.meta_graphs for tag in meta.meta_info_def.tags})
    raise ConfigError(
        f"{path} has no graph with the tag {tf.saved_model.SERVING!r}, got the tags "
        f"{', '.join(tags) or 'none'}. Export the model for serving."
    )


def op_counts(graph: Any) -> collections.Counter[str]:
    """The number of ops of each type in a GraphDef, including its functions."""
    counts = collections.Counter(node.op for node in graph.node)
    for function in graph.library.function:
        counts.update(node.op for node in function.node_def)
    return counts


def saved_model_file(path: str) -> Optional[str]:
    for name in ("saved_model.pb", "saved_model.pbtxt"):
        if tf.io.gfile.exists(os.path.join(path, name)):
            return os.path.join(path, name)
    return None


MAIN_OPS = ("saved_model_main_op", "legacy_init_op")


def kept_nodes(meta: Any) -> list[str]:
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
        with tensorflow_errors.as_export_error(f"{source} does not load"):
            tf.compat.v1.saved_model.load(session, [tf.saved_model.SERVING], source)
        return tf.compat.v1.graph_util.convert_variables_to_constants(
            session, graph.as_graph_def(), kept_nodes(meta)
        )


def optimized(meta: Any, graph: Any) -> Any:
    """The graph after Grappler; it keeps the constants of asset paths, which loaders fill."""
    item = type(meta)()
    item.CopyFrom(meta)
    item.graph_def.CopyFrom(graph)
    item.ClearField("asset_file_def")
    item.ClearField("collection_def")
    item.collection_def["train_op"].node_list.value.extend(kept_nodes(meta))
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


def features_of_signatures(meta: Any, spec: FeatureSpec) -> dict[str, list[str]]:
    """The features that the outputs of each signature depend on, sorted, by signature."""
    columns_by_signature = columns_of_signatures(meta)
    return {name: _features(spec, columns) for name, columns in columns_by_signature.items()}


def columns_of_signatures(meta: Any) -> dict[str, set[str]]:
    """The columns, by their names in ops, that the outputs of each signature depend on."""
    nodes = {node.name: node for node in meta.graph_def.node}
    columns_by_signature = {}
    for name, signature in meta.signature_def.items():
        waiting = [info.name.partition(":")[0] for info in signature.outputs.values()]
        seen: set[str] = set()
        columns = set()
        while waiting:
            node = waiting.pop()
            if node in seen or node not in nodes:
                continue
            seen.add(node)
            scope, _, column = node.partition("/")
            if is_column_scope(scope):
                columns.add(column.partition("/")[0])
                continue
            waiting += [i.lstrip("^").partition(":")[0] for i in nodes[node].input]
        columns_by_signature[name] = columns
    return columns_by_signature


def _features(spec: FeatureSpec, columns: Iterable[str]) -> list[str]:
    read = {column_op(name): set(spec.features_of(name)) for name in spec.columns}
    for name in spec.raw:
        read[column_op(raw_of(name))] = {name, spec.features[name].row_lengths or name}
    features: set[str] = set()
    for column in columns:
        # Parts and weights of a column are named after it, with a number or a word at the end.
        while column and column not in read:
            column = column.rpartition("_")[0]
        features.update(read.get(column, ()))
    return sorted(features)
