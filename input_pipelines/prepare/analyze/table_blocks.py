"""Batches of a table as the blocks that `wire` makes of serialized records.

A null is a feature that a record lacks. Values are not copied one by one, but for text.
"""

from __future__ import annotations

from typing import Any, Union

import numpy as np

from input_pipelines.prepare.analyze.wire import FeatureBlock


def blocks(batch: Any) -> dict[str, list[FeatureBlock]]:
    """The features of the rows of a record batch, with types as `tables.columns` has them."""
    return {name: [_block(column)] for name, column in zip(batch.schema.names, batch.columns)}


def _block(column: Any) -> FeatureBlock:
    if column.null_count == len(column):
        # What a record holds that has the name and no value: it is known, and has no type.
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
    else:  # Lists without a value: of no type.
        dtype, values = "", np.zeros(0, np.float32)
    if not int(lengths.sum()):
        dtype = ""
    return FeatureBlock(dtype, rows, lengths, values)
