"""Turns batches of a table into the same blocks as `wire` makes from serialized records.

A null is a feature that a record lacks. Only text is copied value by value.
"""

from __future__ import annotations

from typing import Any, Union

import numpy as np

from input_pipelines.prepare.analyze.wire import FeatureBlock


def blocks(batch: Any) -> dict[str, list[FeatureBlock]]:
    """The features of the rows of a record batch with the types of `tables.columns`."""
    return {name: [_block(column)] for name, column in zip(batch.schema.names, batch.columns)}


def _block(column: Any) -> FeatureBlock:
    if column.null_count == len(column):
        # Like a record with the name but no value: the feature is known, but has no type.
        one = np.zeros(min(1, len(column)), np.int64)
        return FeatureBlock("", one, one, np.zeros(0, np.float32))
    rows = np.arange(len(column))
    if column.null_count:
        rows = np.flatnonzero(np.asarray(column.is_valid()))
        column = column.drop_null()
    lengths = np.ones(len(rows), np.int64)
    if hasattr(column.type, "value_type"):
        lengths = np.diff(np.asarray(column.offsets).astype(np.int64)).astype(np.int64)
        column = column.flatten()
    values: Union[np.ndarray, list[bytes]]
    if str(column.type) in ("int64", "float"):
        dtype, values = str(column.type).replace("float", "float32"), np.asarray(column)
    elif str(column.type) == "binary":
        dtype, values = "string", column.to_pylist()
    else:  # Lists without a value have no type.
        dtype, values = "", np.zeros(0, np.float32)
    if not int(lengths.sum()):
        dtype = ""
    return FeatureBlock(dtype, rows, lengths, values)
