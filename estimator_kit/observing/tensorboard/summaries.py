"""Summaries for TensorBoard, as TensorFlow's `Summary` messages. Builds no graph, writes no file.

    writer.add_summary(summaries.of([summaries.scalar("auc/click", 0.79)]), step)

TensorBoard finds the page of a value by the name of its plugin, which each value carries.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from estimator_kit.observing import curves
from estimator_kit.observing.tensorboard import plugin_data

Summary = tf.compat.v1.Summary
Value = Any  # Summary.Value

# TensorBoard shows the thresholds k / (THRESHOLDS - 1). Ads are often clicked once in hundreds of
# rows, so that all thresholds of interest are below 0.05.
THRESHOLDS = 1001


def of(values: Iterable[Value]) -> Any:
    """The Summary with these values."""
    return Summary(value=list(values))


def scalar(tag: str, value: float) -> Value:
    return Summary.Value(tag=tag, simple_value=value)


def text(tag: str, markdown: str) -> Value:
    """A text in Markdown, for the page Text."""
    return _value(tag, "text", np.array([markdown.encode()], object))


def pr_curve(tag: str, table: np.ndarray) -> Value:
    """Precision and recall at 1,001 thresholds, for the page PR Curves.

    Args:
      tag: its name.
      table: float64 [3, bins], the logits and the weights of their positives and negatives; see
        `objectives.score_bins`.
    """
    data = curves.precision_recall(table, np.linspace(0, 1, THRESHOLDS))
    return _value(
        tag, "pr_curves", data.astype(np.float32), plugin_data.pr_curve(THRESHOLDS), name=tag
    )


def layout(categories: Mapping[str, Any]) -> Value:
    """The charts of the page Custom Scalars; see `plugin_data.layout`."""
    content = np.array(plugin_data.layout(categories), object)
    return _value("custom_scalars__config__", "custom_scalars", content)


def hparams(kind: str, content: bytes) -> Value:
    """A message of the page HParams: `experiment`, `session_start_info` or `session_end_info`."""
    return _value(f"_hparams_/{kind}", "hparams", np.zeros(0, np.float32), content)


def _value(
    tag: str, plugin: str, tensor: np.ndarray, content: bytes = b"", name: str = ""
) -> Value:
    plugin_entry = tf.compat.v1.SummaryMetadata.PluginData(plugin_name=plugin, content=content)
    metadata = tf.compat.v1.SummaryMetadata(plugin_data=plugin_entry, display_name=name)
    return Summary.Value(tag=tag, metadata=metadata, tensor=tf.make_tensor_proto(tensor))
