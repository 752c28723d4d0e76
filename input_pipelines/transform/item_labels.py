"""Reads the label of the head `next_item`: the id of an item for each step.

    item_ids(spec, "next", values, steps, tables)     # int64 [rows, None], -1 for no item

The ids are the ids of the column `items`, without its out-of-vocabulary buckets. An empty string,
-1, and a value outside of the catalogue have no id: their step has no loss. This module never drops
a step.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from feature_specs.spec import FeatureSpec
from input_pipelines.transform import checks, lookups
from input_pipelines.transform.batch import Batch, Ids
from input_pipelines.transform.kinds import value_of

NO_ITEM = -1


def item_ids(
    spec: FeatureSpec,
    label: str,
    parsed: Mapping[str, Any],
    tables: Mapping[str, Any],
) -> tf.RaggedTensor:
    """The ids of a label, int64 [rows, None], with one id for each step of the column `items`.

    Args:
      spec: the feature spec.
      label: the name of a label of the head `next_item`.
      parsed: the parsed features and labels.
      tables: the lookup tables of vocabulary columns, by column.

    Raises (in the graph):
      tf.errors.InvalidArgumentError: a row has another number of items than steps, or an identity
        column does not accept a value.
    """
    items = spec.items_of_label(label)
    assert items is not None
    (source,) = spec.features_of(items)
    values = checks.one_item_a_step(label, parsed[label], source, parsed[source])
    return _ids(spec, items, source, label, values, tables)


def seen_ids(
    spec: FeatureSpec, label: str, parsed: Mapping[str, Any], tables: Mapping[str, Any]
) -> tf.RaggedTensor:
    """The ids of the items at the steps of a row, in the form of `item_ids`."""
    items = spec.items_of_label(label)
    assert items is not None
    (source,) = spec.features_of(items)
    return _ids(spec, items, source, source, parsed[source], tables)


def _ids(
    spec: FeatureSpec,
    items: str,
    source: str,
    name: str,
    values: tf.RaggedTensor,
    tables: Mapping[str, Any],
) -> tf.RaggedTensor:
    flat = values.flat_values
    missing = lookups.is_missing(flat)
    bounds = spec.columns[items].id_bounds
    if bounds is not None:
        flat = checks.label(name, tf.where(missing, tf.zeros_like(flat), flat), bounds)
    found = value_of(Batch(spec, {source: values.with_flat_values(flat)}, tables), items)
    assert isinstance(found, Ids)
    ids = found.values.flat_values
    there = ~missing & (ids >= 0) & (ids < spec.named_ids(items))
    return values.with_flat_values(tf.where(there, ids, tf.constant(NO_ITEM, tf.int64)))
