"""Reads the graph of a SavedModel from disk without loading the model."""

from __future__ import annotations

import collections
import os
from typing import Any, Optional

import tensorflow as tf
from google.protobuf import text_format
from tensorflow.core.protobuf import saved_model_pb2

from estimator_kit.checkpoints import kept_files
from estimator_kit.errors import ConfigError, ExportError


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
