"""The signatures of the head `next_item`: the best items, and vectors for an index.

`top_k/<objective>` has the best items of the catalogue for each row:

    inputs    examples      string [rows], serialized records
              k             int32 [rows], how many items; 0 for the head's `top_k`
              exclude_seen  bool [rows], whether to leave out items of the row
    outputs   items         string [rows, n], the best item first
              scores        float32 [rows, n]

n is the largest k of the rows, and at most the size of the catalogue. Where a row asks for fewer
items, or has seen all others, its last items are empty strings with the score `NO_SCORE`. Items of
a vocabulary are its words. Items of identity columns and hash buckets are their ids, as decimal
numbers.

Every input has a value for each row, because TensorFlow Serving joins the rows of several requests
into a batch: it refuses inputs without a first dimension, and those whose first dimension differs.
For the same reason no input has a default, which could not have as many values as a request has
rows. In the graph, inputs that are not fed have the values of the head.

The search compares all items, so it is exact. Of equal scores, the smaller id comes first.

Two signatures of a model that returns `StepScores` have vectors of users and items:

    user_vector/<objective>    from `examples`: user_vector, float32 [rows, n]
    item_vectors/<objective>   from `ids`, int64 [k], by default (0,): items, string [k], and
                               vectors, float32 [k, n]

The product of a user's vector and an item's vector is the score of the item for this user. If items
have a bias, it is the last number of an item's vector, and the last number of a user's vector is 1.
So the best items of a user are the items with the largest product. `user_vector` does not compute
the scores of all items.

"""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf

from estimator_kit.model.heads.steps import StepScores
from estimator_kit.tf_estimator import estimator
from feature_specs.spec import FeatureSpec
from input_pipelines.transform import checks

# The score of a place without an item: the lowest float32, which JSON can hold.
NO_SCORE = tf.float32.min


class Options(NamedTuple):
    """What a request may choose.

    Attributes:
      k: int32 [rows], 0 or more.
      exclude_seen: bool [rows].
    """

    k: tf.Tensor
    exclude_seen: tf.Tensor


class TopKOutput(estimator.export.PredictOutput):
    """The ExportOutput of the signature; its options are inputs."""

    def __init__(self, outputs: dict[str, tf.Tensor], options: Options):
        super().__init__(outputs)
        self._options = options

    def as_signature_def(self, receiver_tensors: dict[str, tf.Tensor]) -> Any:
        return super().as_signature_def({**receiver_tensors, **self._options._asdict()})


def options(rows: tf.Tensor, exclude_seen: bool) -> Options:
    """The options as inputs of the graph.

    Args:
      rows: int32 scalar, the number of rows.
      exclude_seen: the value of the input if it is not fed. `k` is then 0.
    """
    default = tf.compat.v1.placeholder_with_default
    return Options(
        default(tf.zeros([rows], tf.int32), [None], name="k"),
        default(tf.fill([rows], exclude_seen), [None], name="exclude_seen"),
    )


def top_items(
    scores: tf.Tensor, seen: tf.Tensor, chosen: Options, default_k: int
) -> tuple[tf.Tensor, tf.Tensor]:
    """The ids, int64 [rows, n], and scores of the best items. An id is -1 for a place without one.

    Args:
      scores: float32 [rows, items].
      seen: bool [rows, items], the items to leave out if the options say so.
      chosen: the options of the request.
      default_k: the k of rows that ask for 0 items.

    Raises (in the graph):
      tf.errors.InvalidArgumentError: an option does not have one value for each row, or a k is
        negative.
    """
    inputs = {name: tf.ensure_shape(value, [None]) for name, value in chosen._asdict().items()}
    checked = checks.same_rows({"examples": scores, **inputs})
    check = tf.debugging.assert_non_negative(
        checked["k"],
        message="the input k must be 1 or more, or 0 for the top_k of the objective. Ask for at "
        "least one item.",
    )
    with tf.control_dependencies([check]):
        k = tf.where(checked["k"] > 0, checked["k"], default_k * tf.ones_like(checked["k"]))
    most = tf.reduce_max(tf.concat([k, [0]], axis=0))  # A request without rows has no largest k.
    ids, best_scores = first_items(scores, seen & checked["exclude_seen"][:, tf.newaxis], most)
    asked = tf.range(tf.shape(ids)[1]) < k[:, tf.newaxis]
    return (
        tf.where(asked, ids, -tf.ones_like(ids)),
        tf.where(asked, best_scores, NO_SCORE * tf.ones_like(best_scores)),
    )


def first_items(scores: tf.Tensor, gone: tf.Tensor, k: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The ids, int64 [rows, n], and scores of the k best items, or of all if there are fewer.

    Args:
      scores: float32 [rows, items].
      gone: bool [rows, items], the items to leave out. Their places have the id -1 and `NO_SCORE`.
      k: int32 scalar.
    """
    most = tf.minimum(k, tf.shape(scores)[1])
    best_scores, ids = tf.math.top_k(tf.where(gone, NO_SCORE * tf.ones_like(scores), scores), most)
    has_item = ~tf.gather(gone, ids, axis=1, batch_dims=1)
    return tf.where(has_item, tf.cast(ids, tf.int64), -tf.ones_like(ids, tf.int64)), best_scores


def names_of(spec: FeatureSpec, column: str, ids: tf.Tensor) -> tf.Tensor:
    """The names of ids of a categorical column, string in the shape of the ids. "" for -1."""
    kind = spec.columns[column]
    words = kind.row_names(spec) if kind.named_rows else range(0)
    if isinstance(words, range):
        names = tf.strings.as_string(ids)
    else:
        names = tf.gather(tf.constant(list(words)), tf.maximum(ids, 0))
    return tf.where(ids >= 0, names, tf.fill(tf.shape(names), ""))


IDS = "ids"


class ItemVectorsOutput(estimator.export.PredictOutput):
    """The ExportOutput of `item_vectors`, which takes ids in the place of records."""

    def __init__(self, outputs: dict[str, tf.Tensor], ids: tf.Tensor, default: list[int]):
        super().__init__(outputs)
        self._ids, self._default = ids, default

    def as_signature_def(self, receiver_tensors: dict[str, tf.Tensor]) -> Any:
        signature = super().as_signature_def({IDS: self._ids})
        signature.defaults[IDS].CopyFrom(tf.make_tensor_proto(self._default, self._ids.dtype))
        return signature


def user_output(vectors: tf.Tensor) -> Any:
    """The ExportOutput of `user_vector` from float32 [rows, n]."""
    return estimator.export.PredictOutput({"user_vector": vectors})


def item_output(spec: FeatureSpec, column: str, scores: StepScores) -> ItemVectorsOutput:
    """The ExportOutput of `item_vectors`.

    Args:
      spec: the feature spec.
      column: the column whose ids are the items.
      scores: the factors of the scores.
    """
    size, default = spec.named_ids(column), [0]
    requested_ids = tf.compat.v1.placeholder_with_default(
        tf.constant(default, tf.int64), [None], name=IDS
    )
    message = f"the input {IDS} has a number that is not an item, expected 0 to {size - 1}"
    checks = [
        tf.debugging.assert_non_negative(requested_ids, message=message),
        tf.debugging.assert_less(requested_ids, tf.constant(size, tf.int64), message=message),
    ]
    with tf.control_dependencies(checks):
        ids = tf.ensure_shape(requested_ids, [None])
    outputs = {"items": names_of(spec, column, ids), "vectors": scores.item_vectors(ids)}
    return ItemVectorsOutput(outputs, requested_ids, default)
