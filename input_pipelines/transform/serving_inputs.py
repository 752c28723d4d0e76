"""Input of serving graphs: turns requests into the features that the model reads.

Uses the same `Transform` as training, so training and serving cannot read a record differently.
This module does not need `tf.estimator`: estimator_kit.exporters.signatures wraps the result.

A request has serialized records, or, in JSON, features as plain tensors. Then each feature has a
tensor with its name (`input_names` has the exceptions) and the values that a record would have:

  one value            [rows]
  a fixed shape        [rows, *shape]
  a list               [rows, width], each row padded at its end
  a list of lists      [rows, steps, width], for a SequenceExample; for an Example its values and
                       its lengths are two lists

Lists are padded with "" for strings, -1 for int64 and NaN for float32. Elsewhere the kit treats ""
and -1 as missing, and a list of floats may not contain NaN. Padding is removed only at the end of a
row: such a value before another value stays. A request must send every feature, even if a record
may lack it. To send a missing feature, send the `default` of the spec, as the parser would use it.
Only one thing cannot be sent: a list that ends with a padding value (or with an empty list); see
`sendable`.
"""

from __future__ import annotations

import dataclasses
import keyword
import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from feature_specs.feature import Feature
from feature_specs.spec import FeatureSpec
from input_pipelines.transform import checks
from input_pipelines.transform.transforms import Features, Transform, raw_feature

_FILL: dict[str, Any] = {"string": "", "int64": -1, "float32": np.nan}


def op_name(name: str) -> str:
    """A name for the ops of a feature or column. TensorFlow allows few characters in such names."""
    return re.sub(r"[^A-Za-z0-9_.]", "_", name).lstrip("_.") or "feature"


def input_names(features: Iterable[str]) -> dict[str, str]:
    """The name of the tensor of each feature, by feature: its own name wherever that is possible.

    `tf.saved_model.load` makes the inputs of a signature the parameters of a Python function. So an
    input cannot be named `class`, `None` or `self`, or contain a character such as `²`, and two
    names may not become the same parameter, as `a b` and `a.b` do. TensorFlow refuses the whole
    export then. Such a feature has the name in letters, digits and `_`, and `_` at its end:
    `class_`. A number follows if that name is taken.
    """
    features = list(features)
    tensor_names: dict[str, str] = {}
    taken: set[str] = set()
    for name in sorted(features, key=lambda name: name != _parameter(name)):
        parameter = _parameter(name)
        if parameter not in taken and _can_be_a_parameter(parameter):
            tensor_names[name] = name
            taken.add(parameter)
    for name in features:
        if name in tensor_names:
            continue
        start = _parameter(re.sub(r"[^A-Za-z0-9_]", "_", name)) + "_"
        choices = (start, *(f"{start}{number}" for number in range(2, len(features) + 2)))
        tensor_names[name] = next(choice for choice in choices if choice not in taken)
        taken.add(tensor_names[name])
    return {name: tensor_names[name] for name in features}


def _parameter(name: str) -> str:
    """The parameter of a tf.function that TensorFlow makes of an input's name."""
    text = "".join(c if c.isalnum() else "_" for c in name)
    return text if text[:1].isalpha() else f"arg_{text}"


def _can_be_a_parameter(name: str) -> bool:
    return name.isidentifier() and not keyword.iskeyword(name) and name != "self"


def placeholders(spec: FeatureSpec) -> dict[str, tf.Tensor]:
    """One placeholder for each feature that a group reads, by `input_names`, for any rows."""
    with tf.name_scope("raw_inputs"):
        return {
            key: tf.compat.v1.placeholder(
                tf.as_dtype(spec.features[name].dtype),
                _shape(spec.features[name]),
                op_name(name),
            )
            for name, key in input_names(spec.used_features()).items()
        }


def parsed(spec: FeatureSpec, raw: dict[str, tf.Tensor]) -> dict[str, Any]:
    """Converts the tensors of `placeholders` to the form of `RecordParser.flat`.

    Raises (in the graph):
      tf.errors.InvalidArgumentError: a tensor has another shape than its placeholder, which servers
        do not compare; or the tensors differ in their number of rows.
    """
    with tf.name_scope("raw_parse"):
        names = input_names(spec.used_features())
        shaped = {
            key: tf.ensure_shape(raw[key], _shape(spec.features[name]), op_name(name))
            for name, key in names.items()
        }
        checked = checks.same_rows(shaped)
        return {
            name: _ragged(spec.features[name], checked[key])
            if spec.features[name].variable
            else checked[key]
            for name, key in names.items()
        }


def filled(spec: FeatureSpec, flat: dict[str, Any]) -> dict[str, np.ndarray]:
    """Converts values of `RecordParser.flat`, as a session returns them, to a request's tensors."""
    return {
        key: _dense(spec.features[name], flat[name])
        for name, key in input_names(spec.used_features()).items()
    }


def one_row(spec: FeatureSpec, raw: Mapping[str, np.ndarray], row: int) -> dict[str, np.ndarray]:
    """A row of `filled` without unneeded padding, like a request that has only this row."""
    result = {}
    for name, key in input_names(spec.used_features()).items():
        one = raw[key][row : row + 1]
        feature = spec.features[name]
        for axis in range(1, one.ndim) if feature.variable else ():
            others = tuple(i for i in range(one.ndim) if i != axis)
            used = np.flatnonzero(~_is_fill(feature, one).all(axis=others))
            one = np.take(one, range(used[-1] + 1 if used.size else 0), axis)
        result[key] = one
    return result


def sendable(spec: FeatureSpec, flat: dict[str, Any]) -> np.ndarray:
    """bool [rows]: which rows of `filled` mean the same as their records."""
    good: Any = True
    for name in spec.used_features():
        feature = spec.features[name]
        if not feature.variable:
            continue
        fill = _is_fill(feature, flat[name].flat_values)
        rows = flat[name].to_list()
        depth = 2 if isinstance(flat[name].values, tf.compat.v1.ragged.RaggedTensorValue) else 1
        ends = _ends(rows, depth, iter(fill))
        good = np.logical_and(good, ends)
    return np.broadcast_to(good, [_rows(flat)])


def _rows(flat: dict[str, Any]) -> int:
    value = next(iter(flat.values()))
    if isinstance(value, tf.compat.v1.ragged.RaggedTensorValue):
        return int(value.row_splits.shape[0]) - 1
    return len(value)


def _ends(rows: list[Any], depth: int, fill: Any) -> list[bool]:
    """Whether each row keeps its values when padding is removed; `fill` marks padding values."""
    result = []
    for row in rows:
        lists = row if depth == 2 else [row]
        marks = [[bool(next(fill)) for _ in values] for values in lists]
        cut = any(mark and mark[-1] for mark in marks)
        result.append(not cut and not (depth == 2 and lists and not lists[-1]))
    return result


def _shape(feature: Feature) -> list[Any]:
    if feature.variable:
        return [None, None, None] if _has_steps_of_lists(feature) else [None, None]
    assert not isinstance(feature.shape, str)
    return [None, *feature.shape]


def _has_steps_of_lists(feature: Feature) -> bool:
    return feature.feature_list and feature.shape == "variable"


def _is_fill(feature: Feature, values: Any) -> Any:
    fill = _FILL[feature.dtype]
    if isinstance(values, np.ndarray):
        if feature.dtype == "float32":
            return np.isnan(values)
        return values == (fill.encode() if feature.dtype == "string" else fill)
    if feature.dtype == "float32":
        return tf.math.is_nan(values)
    return tf.equal(values, tf.constant(fill, values.dtype))


def _lengths(used: tf.Tensor) -> tf.Tensor:
    """bool [..., n] -> int64 [...]: the place after the last True."""
    places = tf.range(1, tf.shape(used, tf.int64)[-1] + 1)
    return tf.maximum(tf.reduce_max(tf.where(used, places, tf.zeros_like(places)), axis=-1), 0)


def _ragged(feature: Feature, values: tf.Tensor) -> tf.RaggedTensor:
    lengths = _lengths(tf.logical_not(_is_fill(feature, values)))
    if not _has_steps_of_lists(feature):
        return tf.RaggedTensor.from_tensor(values, lengths=lengths, row_splits_dtype=tf.int64)
    steps = _lengths(lengths > 0)
    is_step = tf.sequence_mask(steps, tf.shape(values)[1])
    lists = tf.RaggedTensor.from_tensor(
        tf.boolean_mask(values, is_step),
        lengths=tf.boolean_mask(lengths, is_step),
        row_splits_dtype=tf.int64,
    )
    return tf.RaggedTensor.from_row_lengths(lists, steps)


def _dense(feature: Feature, values: Any) -> np.ndarray:
    if not feature.variable:
        return np.asarray(values)
    rows = values.to_list()
    shape = [len(rows), max(map(len, rows), default=0)]
    if _has_steps_of_lists(feature):
        shape.append(max((len(step) for row in rows for step in row), default=0))
    kind = object if feature.dtype == "string" else np.dtype(feature.dtype)
    fill = b"" if feature.dtype == "string" else _FILL[feature.dtype]
    dense = np.full(shape, fill, kind)
    for i, row in enumerate(rows):
        for j, step in enumerate(row):
            if len(shape) == 3:
                dense[i, j, : len(step)] = step
            else:
                dense[i, j] = step
    return dense


# The receiver tensor's name. TensorFlow's parsing receivers use the same one.
EXAMPLES = "examples"

# The scopes of the ops that `ServingInputs` gives the model. The ops have the names of columns.
_FEATURES, _RAW_FEATURES, _PART = "features", "raw_features", "features_of_part"


@dataclasses.dataclass(frozen=True)
class ServingInputs:
    """The two inputs of a serving graph: serialized records, and one tensor for each feature.

    Attributes:
      examples: serialized `tf.train.Example`s (SequenceExamples if the spec has feature lists), a
        string tensor [rows].
      features: the features that the model reads from `examples`. Each of its tensors is a separate
        op, and the model uses no other tensors. So they can be replaced by other tensors.
      raw: a tensor for each feature; see `serving_inputs`.
      raw_features: the features that the model would read from `raw`, with the same structure as
        `features`.
      transform: what makes the features.
    """

    examples: tf.Tensor
    features: Features
    raw: dict[str, tf.Tensor]
    raw_features: Features
    transform: Transform

    def features_of_part(self, part: FeatureSpec) -> Features:
        """The features of a part of the spec, from `examples`, like those in `features`.

        Records may lack what the part does not read.
        """
        features = self.transform.of_part(part).features(_as_rows(self.examples))
        return _apart(features, _PART)


def serving_inputs(spec: FeatureSpec) -> ServingInputs:
    """Makes both inputs in the current graph, for any number of rows."""
    examples = _examples()
    transform = Transform(spec)
    raw = placeholders(spec)
    return ServingInputs(
        examples,
        _apart(transform.features(_as_rows(examples)), _FEATURES),
        raw,
        _apart(transform.features_of(parsed(spec, raw)), _RAW_FEATURES),
        transform,
    )


def features_and_receivers(spec: FeatureSpec) -> tuple[dict[str, Any], dict[str, tf.Tensor]]:
    """Makes the serving graph's input in the current graph.

    Returns:
      The features that the model reads, and the receiver tensors that a request fills: `examples`,
      a string tensor [rows] of serialized `tf.train.Example`s (SequenceExamples if the spec has
      feature lists). The number of rows can vary. A request needs only features that a group reads,
      so it needs no labels or weights.
    """
    examples = _examples()
    return Transform(spec).features(_as_rows(examples)), {EXAMPLES: examples}


def _examples() -> tf.Tensor:
    return tf.compat.v1.placeholder(tf.string, [None], name="input_example_tensor")


def _as_rows(examples: tf.Tensor) -> tf.Tensor:
    """Records, checked to be a list, which servers do not do. TensorFlow would parse a scalar."""
    return tf.ensure_shape(examples, [None])


def _apart(features: Features, name: str) -> Features:
    """The same values from new identity ops. Ragged tensors lose their cached row partitions."""
    with tf.name_scope(name):
        return {column: _identity(column, value) for column, value in features.items()}


def is_column_scope(name: str) -> bool:
    """Whether the ops in a scope have the names of columns."""
    # TensorFlow adds a number to the name of a scope that exists.
    return name in (_FEATURES, _RAW_FEATURES) or name.startswith(_PART)


def column_op(column: str) -> str:
    """The name of the ops of an entry of `Features`. Only features of `raw` have a hyphen."""
    feature = raw_feature(column)
    return op_name(column) if feature is None else f"{op_name(feature)}-raw"


def _identity(column: str, value: Any) -> Any:
    name = column_op(column)
    return tf.nest.map_structure(
        lambda part: tf.identity(part, name=name), value, expand_composites=True
    )
