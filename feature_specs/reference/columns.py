"""The reference reading of a spec: real `tf.feature_column` objects.

They feed any canned estimator, and they are what the kit's own, fast reading is held to by test:

    columns = feature_columns(spec, "wide")
    tf.estimator.LinearClassifier(columns).train(...)

Parse records with `example_parsing.make_parse_example_spec`, or `make_parse_sequence_example_spec`;
features with `decode` then go through `decoding.decode_features`. Each kind (`feature_specs.kinds`)
says what it is in `tf.feature_column`, and is given TensorFlow from here; ragged columns and
dynamic embeddings have none. Never used by the kit's own training.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from feature_specs.embeddings import pretrained
from feature_specs.embeddings.initializers import initializer
from feature_specs.kinds import Embedding
from feature_specs.kinds.normalizers import Normalizer
from feature_specs.reference.normalizers import normalizer_fn
from feature_specs.spec import FeatureSpec


def feature_columns(spec: FeatureSpec, group: str) -> list[Any]:
    """One `tf.feature_column` for each column of a group, in its order.

    Raises:
      KeyError: there is no such group; the message lists those there are.
    """
    if group not in spec.groups:
        raise KeyError(f"no group {group!r}; there are {', '.join(spec.groups)}")
    shared = _shared(spec, group)
    return [shared.get(name) or feature_column(spec, name) for name in spec.groups[group]]


def feature_column(spec: FeatureSpec, name: str) -> Any:
    """The `tf.feature_column` that stands for one column of the spec.

    Raises:
      ValueError: the column is ragged or a dynamic embedding, and there is no such feature column.
    """
    return _Reference(spec).column(name)


@dataclasses.dataclass(frozen=True)
class _Reference:
    """What the columns of a spec need to make theirs; a `kinds.base.Reference`."""

    spec: FeatureSpec
    tf: Any = tf

    def column(self, name: str) -> Any:
        return self.spec.columns[name].feature_column(self, name)

    def normalizer_fn(self, steps: tuple[Normalizer, ...]) -> Callable[[tf.Tensor], tf.Tensor]:
        return normalizer_fn(steps)

    def table(self, name: str) -> dict[str, Any]:
        """What TensorFlow's embedding columns have in common."""
        column = self.spec.of_kind(Embedding)[name]
        start = initializer(column)
        if column.pretrained is not None:
            start = pretrained.table_initializer(self.spec, name)
        return {
            "combiner": column.combiner,
            "initializer": start,
            "max_norm": column.max_norm,
            "trainable": column.trainable,
        }


def _shared(spec: FeatureSpec, group: str) -> dict[str, Any]:
    """The columns of a group that share a table, which TensorFlow wants to make together."""
    reference = _Reference(spec)
    by_table: dict[str, list[str]] = {}
    for name in spec.groups[group]:
        table = spec.columns[name].shared_table
        if table is not None:
            by_table.setdefault(table, []).append(name)
    result: dict[str, Any] = {}
    for table, names in by_table.items():
        categories = [reference.column(spec.category_of(name)[0]) for name in names]
        with tf.Graph().as_default():  # They refuse to be made in eager mode.
            columns = tf.feature_column.shared_embeddings(
                categories,
                spec.columns[names[0]].width(spec),
                shared_embedding_collection_name=table,
                **reference.table(names[0]),
            )
        result.update(zip(names, columns))
    return result
