"""Turns serialized records into ids and numbers, many rows at once.

`Transform` parses a batch of serialized `tf.train.Example`s, or of SequenceExamples if the spec has
feature lists. It turns features into the inputs of the model: float32 numbers or int64 ids, one
entry for each column; see `kinds`. Training, evaluation, prediction and serving all use this class,
in a tf.data map or in the serving graph, so they cannot differ. Its ids are equal, bit for bit, to
the ids of the `tf.feature_column`s of the same spec.

The id -1 means "no id": a missing value, or a word outside a vocabulary that has no
out-of-vocabulary buckets. The weights of a weighted column have a separate entry with the name
`weights_of(column)`, and each feature of the section `raw` has one with the name `raw_of(feature)`.
`Transform` never holds variables and never drops a row.

Features with `decode` become float32 with the ops of `feature_specs.reference.ops`. Before
them come checks that name the feature. `reason` tells `diagnosis` what is wrong with a value.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Optional, Union

import numpy as np
import tensorflow as tf

from feature_specs.feature import Feature, Image, Raw
from feature_specs.reference import ops
from feature_specs.spec import FeatureSpec
from input_pipelines.transform import checks, record_parsing, stacks
from input_pipelines.transform.batch import Batch
from input_pipelines.transform.kinds import lookup_tables, value_of
from input_pipelines.transform.labels import LabelReader
from input_pipelines.transform.record_parsing import RecordParser

# The first two bytes of each image format.
_FORMATS = {b"\xff\xd8": "JPEG", b"\x89P": "PNG", b"GI": "GIF", b"BM": "BMP"}

# The numbers of channels to which TensorFlow can convert an image of each format.
_CHANNELS = {"JPEG": (1, 3), "PNG": (1, 3, 4), "GIF": (3,), "BMP": (3, 4)}

_SHOWN = 8


def decoded(spec: FeatureSpec, parsed: Mapping[str, Any]) -> dict[str, Any]:
    """The parsed features of a batch; features with `decode` become float32 [rows, *shape].

    Raises (in the graph):
      tf.errors.InvalidArgumentError: a value has another number of bytes than declared, or is not
        an image. TensorFlow raises its own error if an image is damaged after its first bytes.
    """
    result = dict(parsed)
    for name, feature in spec.features.items():
        if feature.decode is not None and name in parsed:
            check = checks.bytes_of_numbers if isinstance(feature.decode, Raw) else _check_image
            stored = check(name, feature, parsed[name])
            result[name] = ops.decoded(name, feature, stored)
    return result


def _check_image(name: str, feature: Feature, stored: tf.Tensor) -> tf.Tensor:
    return checks.images(name, feature, stored, tuple(_FORMATS))


def reason(what: str, feature: Feature, value: bytes) -> Optional[str]:
    """What is wrong with one value of a feature with `decode`, or None.

    Args:
      what: the subject of the sentence, such as "feature 'photo'".
      feature: the feature's entry in the spec.
      value: the bytes in the record.
    """
    entry = feature.decode
    assert entry is not None
    if not value:
        if feature.default is not None:
            return None
        return f"{what} is empty; say default: zeros in the spec if that means missing"
    if isinstance(entry, Raw):
        return _raw_reason(what, entry, value)
    return _image_reason(what, feature, entry, value)


def _raw_reason(what: str, entry: Raw, value: bytes) -> Optional[str]:
    if len(value) != entry.stored_bytes:
        shape = " x ".join(map(str, entry.shape)) or "1"
        return (
            f"{what} has {len(value)} bytes, expected {entry.stored_bytes}: {shape} of "
            f"{entry.raw.dtype}"
        )
    dtype = np.dtype(entry.raw.dtype).newbyteorder("<" if entry.raw.little_endian else ">")
    numbers = np.frombuffer(value, dtype)
    with np.errstate(over="ignore"):  # A large float64 becomes infinite.
        single = numbers.astype(np.float32)
    wrong = np.flatnonzero(~np.isfinite(single))
    if wrong.size:
        first = int(wrong[0])
        return f"{what} has {numbers[first]} at [{first}], expected finite float32 numbers"
    return None


def _image_reason(what: str, feature: Feature, entry: Image, value: bytes) -> Optional[str]:
    kind = _FORMATS.get(value[:2])
    if kind is None:
        return (
            f"{what} is not a JPEG, PNG, GIF or BMP image: it begins with {value[:_SHOWN]!r} and "
            f"has {len(value)} bytes"
        )
    wanted = entry.image.channels
    if wanted not in _CHANNELS[kind]:
        can = " or ".join(map(str, _CHANNELS[kind]))
        return f"{what} is a {kind} image, which gives {can} channels, but the spec says {wanted}"
    try:
        pixels = tf.io.decode_image(value)
    except tf.errors.InvalidArgumentError:
        return (
            f"{what} is a {kind} image that cannot be decoded: its {len(value)} bytes are cut off "
            "or damaged"
        )
    if kind == "GIF" and pixels.shape[0] != 1:
        return f"{what} is a GIF of {pixels.shape[0]} frames, expected one image; store one frame"
    try:
        ops.decoded("image", feature, tf.constant([value]))
    except tf.errors.InvalidArgumentError:
        return f"{what} is a {kind} image that cannot be converted to {wanted} channels"
    return None


Features = dict[str, Union[tf.Tensor, tf.RaggedTensor]]

_RAW = "/raw"  # No name of a column or feature has a slash.


def weights_of(name: str) -> str:
    """The key in `Features` of the weights of a weighted column."""
    return f"{name}/weights"


def raw_of(feature: str) -> str:
    """The key in `Features` of a feature as the records have it."""
    return f"{feature}{_RAW}"


def raw_feature(key: str) -> Optional[str]:
    """The feature whose `raw_of` is a key in `Features`. None for columns and weights."""
    return key.removesuffix(_RAW) if key.endswith(_RAW) else None


def _read_by_model(spec: FeatureSpec) -> tuple[str, ...]:
    """The columns that the model reads; for embeddings and indicators, their categorical column."""
    return tuple(dict.fromkeys(spec.category_of(name)[0] for name in spec.used_columns()))


class Transform:
    """Parses and transforms batches of one spec.

    Make it in the graph that uses it, outside of map functions: it holds lookup tables.

    Args:
      spec: the feature spec.
    """

    def __init__(self, spec: FeatureSpec):
        self._spec = spec
        self._parser = RecordParser(spec)
        self._outputs = _read_by_model(spec)
        self._tables = lookup_tables(spec)
        self._labels = LabelReader(spec, self._tables)

    def of_part(self, part: FeatureSpec) -> Transform:
        """The transform of a part of the spec, which shares the lookup tables of this one."""
        transform = copy.copy(self)
        transform._spec, transform._parser, transform._outputs = (
            part,
            RecordParser(part),
            _read_by_model(part),
        )
        return transform

    def features(self, serialized: tf.Tensor) -> Features:
        """Transforms a string [rows] of serialized records to `{column: numbers or ids}`.

        Numeric columns are float32 [rows, n] (also images: row by row, pixel by pixel). Categorical
        columns are int64 [rows] for single values, and a `tf.RaggedTensor` of int64 [rows, None]
        for lists. Sequences and ragged columns of numbers are a `tf.RaggedTensor` of float32. Lists
        of lists have one more dimension. -1 means "no id". Features of the section `raw` have the
        values, dtype and shape of the records, also if they have `decode`; lists are ragged.

        Raises (in the graph):
          tf.errors.InvalidArgumentError: a record lacks a required feature, has another dtype or
            length than declared, has a step without exactly one value, contains NaN or infinity,
            contains bytes that cannot be decoded, or has an identity id outside its size.
        """
        return self._columns(self._parser.parse(serialized, with_labels=False))

    def features_of(self, parsed: dict[str, Any]) -> Features:
        """Like `features`, from the result of `record_parsing.RecordParser.flat` without labels."""
        return self._columns(self._parser.checked(parsed))

    def features_and_labels(self, serialized: tf.Tensor) -> tuple[Features, dict[str, tf.Tensor]]:
        """Like `features`, and also `{label: value}`; see `labels.LabelReader.read`.

        Labels are only read from files, so this also checks the kind of each record; see
        `record_parsing.checked`.
        """
        serialized = record_parsing.checked(self._spec, serialized)
        parsed = self._parser.parse(serialized, with_labels=True)
        return self._columns(parsed), self._labels.read(parsed)

    def _columns(self, parsed: dict[str, Any]) -> Features:
        spec = self._spec
        batch = Batch(spec, decoded(spec, parsed), self._tables)
        with tf.name_scope("transform"):
            # Numbers come first, because buckets are made from them.
            batch.made.update(stacks.numbers(batch))
            batch.made.update(stacks.ids(batch))
            batch.present.update(stacks.present(batch))
            outputs = stacks.masked({name: value_of(batch, name) for name in self._outputs})
            result: Features = {}
            for name, values in outputs.items():
                result[name] = values
                column = spec.columns[name]
                if column.weighted_by is not None:
                    result[weights_of(name)] = checks.weights_of_ids(
                        column, values, batch.parsed[column.weighted_by]
                    )
            for group, names in spec.groups.items():
                steps = [spec.category_of(n)[0] for n in names if spec.is_sequence(n)]
                if steps:
                    result.update(checks.same_lengths(group, {n: result[n] for n in steps}))
            for name in spec.raw:
                # Not from the batch, whose bytes are decoded.
                result[raw_of(name)] = checks.finite_feature(name, parsed[name])
        return result
