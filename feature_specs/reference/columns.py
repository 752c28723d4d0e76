"""The reference reading of a spec: real `tf.feature_column` objects.

Any canned estimator can use them. Tests compare the kit's own, faster reading with them:

    columns = feature_columns(spec, "wide")
    tf.estimator.LinearClassifier(columns).train(...)

Parse records with `example_parsing.make_parse_example_spec` or `make_parse_sequence_example_spec`.
Then decode features with `decode` by `decoding.decode_features`. Each kind (`feature_specs.kinds`)
makes its own `tf.feature_column` with the TensorFlow module that it gets from here. Ragged columns
and dynamic embeddings have no feature column. The kit's own training never uses this module.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Sequence
from typing import Any, Union

import tensorflow as tf

from feature_specs.embeddings import initial_values
from feature_specs.embeddings.initial_values import initializer
from feature_specs.kinds import Embedding
from feature_specs.kinds.normalizers import Normalizer
from feature_specs.reference.ops import integer_buckets, normalizer_fn
from feature_specs.spec import FeatureSpec

_log = logging.getLogger("feature_specs")


def feature_columns(spec: FeatureSpec, group: str) -> list[Any]:
    """One `tf.feature_column` for each column of a group, in its order.

    TensorFlow's `tf.estimator.DNN*` and `DNNLinearCombined*` never train a shared table: they train
    the variables of their Keras model, which does not have it. So a group with `shared` is logged
    as a warning.

    Raises:
      KeyError: the spec has no such group.
    """
    if group not in spec.groups:
        raise KeyError(f"unknown group {group!r}. Use one of: {', '.join(spec.groups)}.")
    shared = _shared(spec, group)
    return [shared.get(name) or feature_column(spec, name) for name in spec.groups[group]]


def feature_column(spec: FeatureSpec, name: str) -> Any:
    """The `tf.feature_column` of one column of the spec.

    Raises:
      ValueError: the column is ragged, a dynamic embedding or has `l2`, which TensorFlow does not
        have.
    """
    return _Reference(spec).column(name)


@dataclasses.dataclass(frozen=True)
class _Reference:
    """What columns need to make their feature columns. A `kinds.base.Reference`."""

    spec: FeatureSpec
    tf: Any = tf

    def column(self, name: str) -> Any:
        return self.spec.columns[name].feature_column(self, name)

    def normalizer_fn(self, steps: tuple[Normalizer, ...]) -> Callable[[tf.Tensor], tf.Tensor]:
        return normalizer_fn(steps)

    def integer_buckets(self, values: tf.Tensor, limits: Sequence[Union[int, float]]) -> tf.Tensor:
        return integer_buckets(values, limits)

    def table(self, name: str) -> dict[str, Any]:
        """The arguments that all embedding columns of TensorFlow share."""
        column = self.spec.of_kind(Embedding)[name]
        if column.l2 is not None:
            raise ValueError(
                f"{self.spec.source}: column {name!r} has l2, and tf.feature_column has no such "
                "penalty. Train it with a ModelFn, or remove l2."
            )
        start = initializer(column)
        if column.pretrained is not None:
            start = initial_values.table_initializer(self.spec, name)
        return {
            "combiner": column.combiner,
            "initializer": start,
            "max_norm": column.max_norm,
            "trainable": column.trainable,
        }


def _shared(spec: FeatureSpec, group: str) -> dict[str, Any]:
    """The columns of a group that share a table. TensorFlow makes these in one call."""
    reference = _Reference(spec)
    by_table: dict[str, list[str]] = {}
    for name in spec.groups[group]:
        table = spec.columns[name].shared_table
        if table is not None:
            by_table.setdefault(table, []).append(name)
    result: dict[str, Any] = {}
    for table, names in by_table.items():
        if reference.table(names[0])["trainable"]:
            _log.warning(
                "%s: group %r: the columns %s share the table %r, which tf.estimator.DNN* and "
                "tf.estimator.DNNLinearCombined* never train. It keeps its initial values. Use "
                "tf.compat.v1.estimator.DNN* or DNNLinearCombined*, a model of the kit, or your "
                "own model_fn, which train it; or remove `shared`.",
                spec.source,
                group,
                ", ".join(names),
                table,
            )
        categories = [reference.column(spec.category_of(name)[0]) for name in names]
        with tf.Graph().as_default():  # TensorFlow does not make them in eager mode.
            columns = tf.feature_column.shared_embeddings(
                categories,
                spec.columns[names[0]].width(spec),
                shared_embedding_collection_name=table,
                **reference.table(names[0]),
            )
        result.update(zip(names, columns))
    return result
