"""Converts arrays of any type to what a record stores: int64, float32 or bytes, or lists of them.

No value is changed silently. A value that does not fit into an int64 or float32 is an error that
names the row. Numbers that a float32 does not keep are counted (`narrowing`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from input_pipelines.errors import DataError
from input_pipelines.prepare.tables import narrowing, time_texts
from input_pipelines.prepare.tables.columns import Column, is_list, is_text, storage_type
from input_pipelines.prepare.tables.library import arrow

# By a column and what happened to some of its values, `DIGITS` or `ZERO`: how many these are.
Rounded = Counter[tuple[str, str]]
DIGITS, ZERO = "digits", "zero"

Where = Callable[[int], str]


def storable(array: Any, column: Column, where: Where, rounded: Rounded) -> Any:
    """An array of `storage_type(column)` with the same values, null where the array is.

    Args:
      array: a column of a batch, as it was read.
      column: the wanted column. If it is a number, text in the array must look like a number.
      where: names a row by its position in the array, for errors.
      rounded: counts the values of a column that a float32 does not keep.

    Raises:
      DataError: a value cannot be stored.
    """
    pa = arrow()
    if pa.types.is_null(array.type) or (column.dtype is None and not is_list(array.type)):
        return pa.nulls(len(array), storage_type(column))
    if not is_list(array.type):
        return _values(array, column, where, rounded)
    lengths = arrow("compute").list_value_length(array)
    sizes = np.asarray(lengths.fill_null(0).cast(pa.int64()))
    flat = array.flatten()
    rows = np.repeat(np.arange(len(array)), sizes)
    if flat.null_count:
        first = int(np.flatnonzero(np.asarray(flat.is_null()))[0])
        raise DataError(
            f"{where(int(rows[first]))}: column {column.name!r}: a list has a null, which a record "
            "cannot store. Remove it from the list, or write a value for it"
        )
    values = _values(flat, column, lambda i: where(int(rows[i])), rounded)
    offsets = pa.array(np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32))
    mask = array.is_null() if array.null_count else None
    return pa.ListArray.from_arrays(offsets, values, mask=mask)


def _values(array: Any, column: Column, where: Where, rounded: Rounded) -> Any:
    """Converts values that are not lists."""
    pa = arrow()
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    dtype = array.type
    if column.dtype is None:
        return pa.nulls(len(array))
    if column.dtype == "string":
        if time_texts.form_of(dtype):
            outside = time_texts.first_without_text(array)
            if outside is not None:
                number = array.cast(pa.int32() if pa.types.is_date32(dtype) else pa.int64())
                raise DataError(
                    f"{where(outside)}: column {column.name!r}: expected a time in the years 1 to "
                    f"9999, got {number[outside]} of the type {dtype}. Write null for a time that "
                    "is not known"
                )
            array = time_texts.texts(array)
        elif is_text(dtype):
            array = array.cast(pa.string())
        return array.cast(pa.binary())
    if column.dtype == "int64":
        return _int64(array, column, where)
    written = narrowing.as_written(array)
    narrow = narrowing.to_float32(written)
    if len(narrow.too_large):
        i = int(narrow.too_large[0])
        raise DataError(
            f"{where(i)}: column {column.name!r}: got {array[i].as_py()}, which does not fit into "
            "a float32. Scale the column down, or store it as text"
        )
    for what, count in ((DIGITS, narrow.rounded), (ZERO, narrow.zeros)):
        if count:
            rounded[column.name, what] += count
    return pa.array(narrow.values, mask=np.asarray(array.is_null()) if array.null_count else None)


def _int64(array: Any, column: Column, where: Where) -> Any:
    pa = arrow()
    try:
        if pa.types.is_decimal(array.type):  # pyarrow cannot convert small decimals directly.
            array = array.cast(pa.decimal256(76, array.type.scale))
        return array.cast(pa.int64())
    except pa.ArrowInvalid as error:
        for i, value in enumerate(array.to_pylist()):
            if value is not None and not _is_int64(value):
                number = str(value).lstrip("-").isdigit()
                why = "is too large for int64" if number else "is not an int64"
                raise DataError(
                    f"{where(i)}: column {column.name!r}: got {value}, which {why}. Store it as "
                    "text"
                ) from error
        raise


def _is_int64(value: Any) -> bool:
    try:
        return -(2**63) <= int(value) < 2**63
    except ValueError:
        return False


def all_columns(batch: Any, columns: tuple[Column, ...], where: Where, rounded: Rounded) -> Any:
    """A batch with exactly these columns, in this order. Missing columns are all null."""
    arrays = [storable(array_of(batch, c.name), c, where, rounded) for c in columns]
    return arrow().RecordBatch.from_arrays(arrays, schema=schema(columns))


def array_of(batch: Any, name: str) -> Any:
    """A column of a batch as it was read; all null if the batch lacks it."""
    place: int = batch.schema.get_field_index(name)
    return arrow().nulls(batch.num_rows) if place == -1 else batch.column(place)


def schema(columns: tuple[Column, ...]) -> Any:
    """The Arrow schema of a batch with these columns."""
    return arrow().schema([(column.name, storage_type(column)) for column in columns])
