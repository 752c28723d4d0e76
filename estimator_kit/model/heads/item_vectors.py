"""Vectors of users and items for an index: two signatures of a model that returns `StepScores`.

    user_vector/<objective>    from `examples`: user_vector, float32 [rows, n]
    item_vectors/<objective>   from `ids`, int64 [k], by default (0,): items, string [k], and
                               vectors, float32 [k, n]

The product of a user's vector and an item's vector is the score of the item for this user. If items
have a bias, it is the last number of an item's vector, and the last number of a user's vector is 1.
So the best items of a user are the items with the largest product. `user_vector` does not compute
the scores of all items.

Items have the same names as in the signature `top_k`.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from estimator_kit.compat.tf_estimator import estimator
from estimator_kit.model.heads.step_scores import StepScores
from estimator_kit.model.heads.top_items import names_of
from feature_specs.spec import FeatureSpec

IDS = "ids"


class ItemVectorsOutput(estimator.export.PredictOutput):
    """The ExportOutput of `item_vectors`, which takes ids in the place of records."""

    def __init__(self, outputs: dict[str, tf.Tensor], ids: tf.Tensor, default: list[int]):
        super().__init__(outputs)
        self._ids, self._default = ids, default

    def as_signature_def(self, receiver_tensors: dict[str, tf.Tensor]) -> Any:
        made = super().as_signature_def({IDS: self._ids})
        made.defaults[IDS].CopyFrom(tf.make_tensor_proto(self._default, self._ids.dtype))
        return made


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
    given = tf.compat.v1.placeholder_with_default(tf.constant(default, tf.int64), [None], name=IDS)
    message = f"the input {IDS} has a number that is not an item, expected 0 to {size - 1}"
    checks = [
        tf.debugging.assert_non_negative(given, message=message),
        tf.debugging.assert_less(given, tf.constant(size, tf.int64), message=message),
    ]
    with tf.control_dependencies(checks):
        ids = tf.ensure_shape(given, [None])
    outputs = {"items": names_of(spec, column, ids), "vectors": scores.item_vectors(ids)}
    return ItemVectorsOutput(outputs, given, default)
