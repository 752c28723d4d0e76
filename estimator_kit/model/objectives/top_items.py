"""The best items of a catalogue for each row: the signature `top_k/<objective>` of an export.

    inputs    examples      string [rows], serialized records
              k             int32, how many items; the default is the head's `top_k`
              exclude_seen  bool, whether to leave out items of the row; the default is the head's
    outputs   items         string [rows, k], the best item first
              scores        float32 [rows, k]

Items of a vocabulary are its words. Items of identity columns and hash buckets are their ids, as
decimal numbers. If `k` is larger than the catalogue, all items are returned. If a row has fewer
than k items that it has not seen, its last items are empty strings with the score `NO_SCORE`.

The search compares all items, so it is exact. Of equal scores, the smaller id comes first.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf

from estimator_kit.compat.tf_estimator import estimator
from feature_specs.spec import FeatureSpec

# The score of a place without an item: the lowest float32, which JSON can hold.
NO_SCORE = tf.float32.min


class Options(NamedTuple):
    """What a request may choose.

    Attributes:
      k: int32 scalar, 1 or more.
      exclude_seen: bool scalar.
    """

    k: tf.Tensor
    exclude_seen: tf.Tensor


class TopKOutput(estimator.export.PredictOutput):
    """The ExportOutput of the signature; its options are inputs with defaults."""

    def __init__(self, outputs: dict[str, tf.Tensor], options: Options, defaults: tuple[int, bool]):
        super().__init__(outputs)
        self._options, self._defaults = options, defaults

    def as_signature_def(self, receiver_tensors: dict[str, tf.Tensor]) -> Any:
        made = super().as_signature_def({**receiver_tensors, **self._options._asdict()})
        for (name, tensor), default in zip(self._options._asdict().items(), self._defaults):
            made.defaults[name].CopyFrom(tf.make_tensor_proto(default, tensor.dtype))
        return made


def options(k: int, exclude_seen: bool) -> Options:
    """The options as inputs of the graph, with these defaults."""
    default = tf.compat.v1.placeholder_with_default
    return Options(
        default(tf.constant(k, tf.int32), [], name="k"),
        default(tf.constant(exclude_seen), [], name="exclude_seen"),
    )


def top_items(scores: tf.Tensor, seen: tf.Tensor, chosen: Options) -> tuple[tf.Tensor, tf.Tensor]:
    """The ids, int64 [rows, k], and scores of the best items. An id is -1 for a place without one.

    Args:
      scores: float32 [rows, items].
      seen: bool [rows, items], the items to leave out if the options say so.
      chosen: the options of the request.
    """
    check = tf.debugging.assert_positive(
        chosen.k, message="the input k must be 1 or more. Ask for at least one item."
    )
    with tf.control_dependencies([check]):
        k = tf.minimum(chosen.k, tf.shape(scores)[1])
    gone = seen & chosen.exclude_seen
    found, ids = tf.math.top_k(tf.where(gone, NO_SCORE * tf.ones_like(scores), scores), k)
    there = ~tf.gather(gone, ids, axis=1, batch_dims=1)
    return tf.where(there, tf.cast(ids, tf.int64), -tf.ones_like(ids, tf.int64)), found


def names_of(spec: FeatureSpec, column: str, ids: tf.Tensor) -> tf.Tensor:
    """The names of ids of a categorical column, string in the shape of the ids. "" for -1."""
    kind = spec.columns[column]
    words = kind.row_names(spec) if kind.named_rows else range(0)
    if isinstance(words, range):
        names = tf.strings.as_string(ids)
    else:
        names = tf.gather(tf.constant(list(words)), tf.maximum(ids, 0))
    return tf.where(ids >= 0, names, tf.fill(tf.shape(names), ""))
