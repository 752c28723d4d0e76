"""Reads records one by one with the protobuf library, into the same arrays as `wire`.

The library decides what a record means. `wire` uses it for records that are not in the common form.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError

from input_pipelines.prepare.analyze.feature_block import NO_TYPE, FeatureBlock

_DTYPE_OF_LIST = {"bytes_list": "string", "float_list": "float32", "int64_list": "int64"}


class NotAnExample(ValueError):
    """A record that protobuf cannot read; `row` is its position in the block."""

    def __init__(self, row: int):
        super().__init__(f"record {row} of the block is not a serialized tf.train.Example")
        self.row = row


class _Gathered:
    """Collects the values of one feature and type from single records."""

    def __init__(self) -> None:
        self.lengths: dict[int, int] = {}  # by row
        self.values: list[Any] = []
        self.odd_steps = 0

    def add(self, row: int, values: Sequence[Any]) -> None:
        self.lengths[row] = self.lengths.get(row, 0) + len(values)
        self.values.extend(values)

    def block(self, dtype: str, feature_list: bool) -> FeatureBlock:
        values = self.values if dtype == "string" else np.array(self.values, dtype or np.float32)
        rows, lengths = (np.array(list(part)) for part in (self.lengths, self.lengths.values()))
        return FeatureBlock(dtype, rows, lengths, values, feature_list, self.odd_steps)


def parse_records(records: Sequence[bytes], rows: Sequence[int]) -> dict[str, list[FeatureBlock]]:
    """The features of the records in some increasing rows, by name.

    Raises:
      NotAnExample: a record cannot be read.
    """
    gathered: dict[tuple[str, str, bool], _Gathered] = defaultdict(_Gathered)
    for row in rows:
        context, lists = _by_protobuf(records[row], row)
        for name, feature in context.items():
            dtype, values = _stored(feature)
            gathered[name, dtype, False].add(row, values)
        for name, feature_list in lists.items():
            steps = [_stored(step) for step in feature_list.feature]
            dtypes = {dtype for dtype, _ in steps} or {NO_TYPE}
            if len(dtypes) == 1:
                group = gathered[name, dtypes.pop(), True]
                group.add(row, [value for _, values in steps for value in values])
                group.odd_steps += sum(len(values) != 1 for _, values in steps)
                continue
            # A step without a type gets the type of the list's other steps.
            typed = next(dtype for dtype, _ in steps if dtype)
            for dtype, values in steps:
                group = gathered[name, dtype or typed, True]
                group.add(row, values)
                group.odd_steps += len(values) != 1
    result: dict[str, list[FeatureBlock]] = {}
    for (name, dtype, feature_list), group in gathered.items():
        result.setdefault(name, []).append(group.block(dtype, feature_list))
    return result


def _by_protobuf(record: bytes, row: int) -> tuple[Any, Any]:
    """The features of a record and its feature lists, by name; an Example has none."""
    try:
        parsed = tf.train.SequenceExample.FromString(record)
        return parsed.context.feature, parsed.feature_lists.feature_list
    except DecodeError:
        pass
    try:  # It may have an unknown field in the place of feature lists.
        return tf.train.Example.FromString(record).features.feature, {}
    except DecodeError:
        raise NotAnExample(row) from None


def _stored(feature: Any) -> tuple[str, Any]:
    kind = feature.WhichOneof("kind")
    return (_DTYPE_OF_LIST[kind], getattr(feature, kind).value) if kind else (NO_TYPE, ())
