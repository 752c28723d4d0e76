"""Reads labels: words become ids, lists of classes become 0 and 1, masks become weights.

    LabelReader(spec).read(parsed)     # {"click": ..., "click/weight": ...}

`Transform` makes a `LabelReader`. It never drops a row: if a label may be missing, a row without it
has the weight 0. So does a row without a part of the label, such as the `event` of `survival`.

The labels of the head `next_item` are ids of the column `items`, without its out-of-vocabulary
buckets. A value outside of the catalogue (NO_ITEM), and an empty string or -1 (NO_LABEL), have no
id: their step stays, and has no loss. Metrics count only the former, as misses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Optional

import tensorflow as tf

from feature_specs.heads import Objective
from feature_specs.kinds import Vocabulary
from feature_specs.label import Label
from feature_specs.spec import FeatureSpec
from input_pipelines.transform import checks
from input_pipelines.transform.batch import Batch, Ids, is_missing, list_table, make_table
from input_pipelines.transform.kinds import value_of

# The ids of labels without an id. -2 stands for the places after the last step (`item_metrics`).
NO_ITEM = -1
NO_LABEL = -3


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
    missing = is_missing(flat)
    bounds = spec.columns[items].id_bounds
    if bounds is not None:
        flat = checks.label(name, tf.where(missing, tf.zeros_like(flat), flat), bounds)
    looked_up = value_of(Batch(spec, {source: values.with_flat_values(flat)}, tables), items)
    assert isinstance(looked_up, Ids)
    ids = looked_up.values.flat_values
    is_item = ~missing & (ids >= 0) & (ids < spec.named_ids(items))
    without = tf.where(missing, tf.constant(NO_LABEL, tf.int64), tf.constant(NO_ITEM, tf.int64))
    return values.with_flat_values(tf.where(is_item, ids, without))


class LabelReader:
    """Reads the labels of one spec. Make it outside of map functions: it holds lookup tables.

    Args:
      spec: the feature spec.
      tables: the lookup tables of vocabulary columns, by column. By default it makes those that
        labels need.
    """

    def __init__(self, spec: FeatureSpec, tables: Optional[Mapping[str, Any]] = None):
        self._spec = spec
        self._columns = tables if tables is not None else _tables_of_items(spec)
        self._tables = {
            name: list_table(label.vocabulary, tf.string, default=-1)
            for name, label in spec.labels.items()
            if label.vocabulary is not None
        }

    def read(self, parsed: dict[str, Any]) -> dict[str, tf.Tensor]:
        """The labels of a batch, with their weights, true probabilities and groups.

        Returns:
          `<label>`: int64 or float32 [rows], or float32 [rows, n] for a vector or n classes (1 if
            the row has the class). With steps: [rows, steps], and float32 [rows, steps, n]. With
            `label_parts` of the head: float32 [rows, 1 + parts], the label and its parts. Of the
            head `next_item`: a RaggedTensor of int64 ids [rows, None], with NO_ITEM or NO_LABEL.
          `<label>/weight`: float32 [rows], if the label has a weight, or if the label or a part of
            it may be missing; 0 means masked. [rows, steps] if each step has a weight.
          `<label>/true_probability`: float32 [rows], if the data have it.
          `<label>/group`: int64 [rows], a hash of the `group_by` feature; -1 means no group.
          `<label>/seen`: a RaggedTensor of int64 ids [rows, None], the items of the steps, if the
            head has `exclude_seen` or a metric that needs them.

        Raises (in the graph):
          tf.errors.InvalidArgumentError: a required label is missing, a label has another length
            than declared or a value that its head cannot learn, or a weight is negative or not
            finite.
        """
        with tf.name_scope("labels"):
            values, present = {}, {}
            for name, label in self._spec.labels.items():
                value = parsed[name]
                if self._spec.items_of_label(name) is not None:
                    present[name] = value.row_lengths() > 0
                    if label.missing is None:
                        present[name] = checks.label_present(name, present[name])
                    with tf.control_dependencies([present[name]]):
                        values[name] = item_ids(self._spec, name, parsed, self._columns)
                    continue
                if isinstance(value, tf.RaggedTensor):
                    value, present[name] = self._dense(name, label, value)
                elif name in self._tables:
                    value = self._tables[name].lookup(value)
                values[name] = value
            result = dict(values)
            for name, label in self._spec.labels.items():
                if label.weight is not None:
                    # If the weight is a label and is missing, it is 0.
                    weight = values.get(label.weight, parsed.get(label.weight))
                    result[f"{name}/weight"] = checks.weight(name, tf.cast(weight, tf.float32))
                for other in self._masking(name):
                    mask = tf.cast(present[other], tf.float32)
                    weight = result.get(f"{name}/weight", tf.ones_like(mask))
                    mask = mask[:, tf.newaxis] if weight.shape.rank == 2 else mask
                    result[f"{name}/weight"] = weight * mask
                if label.true_probability is not None:
                    result[f"{name}/true_probability"] = parsed[label.true_probability]
            for name, label in self._spec.labels.items():
                objective = self._spec.objective_of(name)
                entry = self._spec.objectives[objective]
                if not label.variable:
                    has_classes = entry.classes is not None
                    result[name] = checks.label(
                        name, result[name], entry.label_bounds, whole=has_classes
                    )
                if entry.width > 1:
                    result[name] = tf.cast(result[name], tf.float32)
                if entry.label_parts:
                    parts = [result[name], *self._parts(entry, values, parsed)]
                    result[name] = tf.stack(parts, axis=1)
                if entry.group is not None:
                    result[f"{name}/group"] = group_hash(parsed[entry.group])
                if entry.reads_seen:
                    result[f"{name}/seen"] = seen_ids(self._spec, name, parsed, self._columns)
        return result

    def _masking(self, name: str) -> Iterator[str]:
        """The labels without which a row has the weight 0: the label itself, and its parts.

        They are labels with `missing: mask`. A row without any other label is an error.
        """
        parts = self._spec.objectives[self._spec.objective_of(name)].label_parts
        for other in (name, *(part.name for part in parts)):
            label = self._spec.labels.get(other)
            if label is not None and label.missing == "mask":
                yield other

    def _parts(
        self, entry: Objective, values: dict[str, tf.Tensor], parsed: dict[str, Any]
    ) -> Iterator[tf.Tensor]:
        """The parts of a label, float32 [rows] each. A part that is missing is 0, and masked."""
        for part in entry.label_parts:
            checked = checks.part(part, values.get(part.name, parsed.get(part.name)))
            yield tf.cast(checked, tf.float32)

    def _dense(
        self, name: str, label: Label, values: tf.RaggedTensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """A label that is stored as a list, as a dense tensor, and bool [rows]: is it present?

        A missing label is 0.
        """
        present = values.row_lengths() > 0
        if label.missing is None:
            present = checks.label_present(name, present)
        if name in self._tables:
            values = values.with_flat_values(self._tables[name].lookup(values.flat_values))
        if label.variable:
            classes = self._spec.label_classes(name)
            assert classes is not None, "a list is of classes"
            flat = checks.label(name, values.flat_values, (0, classes - 1))
            rows = tf.stack([values.value_rowids(), flat], axis=1)
            shape = tf.stack([values.nrows(), tf.constant(classes, tf.int64)])
            hot = tf.scatter_nd(rows, tf.ones_like(flat, tf.float32), shape)
            # A list may contain a class twice.
            return tf.ensure_shape(tf.minimum(hot, 1.0), [None, classes]), present
        flat = checks.label_length(name, values, label.length)
        dense = flat.to_tensor(shape=[None, label.length])
        return tf.reshape(dense, [-1, *label.shape]), present


def _tables_of_items(spec: FeatureSpec) -> dict[str, Any]:
    """The lookup tables of the columns that give labels their ids."""
    names = {objective.items_column for objective in spec.objectives.values()}
    columns = spec.of_kind(Vocabulary)
    return {n: make_table(spec, columns[n]) for n in columns if n in names}


def group_hash(values: tf.Tensor) -> tf.Tensor:
    """int64 [rows] below 2^62: a hash of each value; -1 for a missing value.

    With a million groups, the probability that any two have the same hash is 1e-7.
    """
    text = values if values.dtype == tf.string else tf.strings.as_string(values)
    hashed = tf.strings.to_hash_bucket_fast(text, 2**62)
    return tf.where(is_missing(values), tf.constant(-1, tf.int64), hashed)
