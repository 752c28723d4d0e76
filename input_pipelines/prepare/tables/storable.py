"""Converts arrays of any type to what a record stores: int64, float32 or bytes, or lists of them.

No value is changed silently. A value that does not fit into an int64 or float32 is an error that
names the row. Numbers with more digits than a float32 keeps are counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Optional

import numpy as np

from input_pipelines.errors import DataError
from input_pipelines.prepare.tables import time_texts
from input_pipelines.prepare.tables.columns import Column, is_list, is_text, storage_type
from input_pipelines.prepare.tables.library import arrow

# A float32 usually keeps 7 digits: always 6, sometimes 9.
DIGITS = 7
_TINY = float(np.finfo(np.float32).tiny)

Where = Callable[[int], str]
# By column: the values as float64, before they became float32.
Wide = dict[str, Any]


def storable(
    array: Any, column: Column, where: Where, rounded: Counter[str], wide: Optional[Wide] = None
) -> Any:
    """An array of `storage_type(column)` with the same values, null where the array is.

    Args:
      array: a column of a batch, as it was read.
      column: the wanted column. If it is a number, text in the array must look like a number.
      where: names a row by its position in the array, for errors.
      rounded: counts the values of a column that were rounded.
      wide: gets the float64 values of a float32 column that is not a list, unless they are float32
        in the file.

    Raises:
      DataError: a value cannot be stored.
    """
    pa = arrow()
    if pa.types.is_null(array.type) or (column.dtype is None and not is_list(array.type)):
        if wide is not None and column.dtype == "float32" and not column.multi:
            wide[column.name] = pa.nulls(len(array), pa.float64())
        return pa.nulls(len(array), storage_type(column))
    if not is_list(array.type):
        return _values(array, column, where, rounded, {} if wide is None else wide)
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
    values = _values(flat, column, lambda i: where(int(rows[i])), rounded, {})
    offsets = pa.array(np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32))
    mask = array.is_null() if array.null_count else None
    return pa.ListArray.from_arrays(offsets, values, mask=mask)


def _values(
    array: Any, column: Column, where: Where, rounded: Counter[str], wide_values: Wide
) -> Any:
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
        try:
            return array.cast(pa.int64())
        except pa.ArrowInvalid as error:
            for i, value in enumerate(array.to_pylist()):
                if value is not None and not _is_int64(value):
                    number = str(value).lstrip("-").isdigit()
                    why = "is too large for int64" if number else "is not an int64"
                    raise DataError(
                        f"{where(i)}: column {column.name!r}: got {value}, which {why}. Store it "
                        "as text"
                    ) from error
            raise
    if pa.types.is_integer(dtype):
        array = array.cast(pa.float64(), safe=False)
    wide = array.cast(pa.float64())
    valid = None if not wide.null_count else np.asarray(wide.is_valid())
    numbers = np.asarray(wide.fill_null(0.0))
    narrow, lost, too_large = to_float32(numbers)
    if is_text(dtype):  # 1e400 has become infinity.
        endless = np.asarray(arrow("compute").match_substring_regex(array.fill_null(""), "[0-9]"))
        too_large = np.union1d(too_large, np.flatnonzero(np.isinf(numbers) & endless))
    if len(too_large):
        i = int(too_large[0])
        raise DataError(
            f"{where(i)}: column {column.name!r}: got {array[i].as_py()}, which does not fit into "
            "a float32. Scale the column down, or store it as text"
        )
    if lost:
        rounded[column.name] += lost
    if not pa.types.is_float32(dtype) and not pa.types.is_float16(dtype):
        wide_values[column.name] = wide
    return pa.array(narrow, mask=None if valid is None else ~valid)


def _is_int64(value: Any) -> bool:
    try:
        return -(2**63) <= int(value) < 2**63
    except ValueError:
        return False


def to_float32(wide: np.ndarray) -> tuple[np.ndarray, int, np.ndarray]:
    """Converts numbers [n] to float32.

    A number loses digits if it has more than 7 digits and float32 cannot represent it, such as
    16777217 and 0.123456789, but not 0.1. It also loses digits if it is so close to 0 that float32
    has few or no digits there.

    Returns:
      The float32 numbers; how many numbers lost digits; and the places of finite numbers that are
      too large for a float32.
    """
    with np.errstate(over="ignore"):
        narrow = wide.astype(np.float32)
    finite = np.isfinite(wide)
    too_large = np.flatnonzero(np.isinf(narrow) & finite)
    changed = np.abs(wide[(narrow != wide) & finite])
    if not len(changed):
        return narrow, 0, too_large
    power = np.minimum(DIGITS - 1 - np.floor(np.log10(changed)), 300)
    scaled = changed * 10.0**power
    many = np.abs(scaled - np.rint(scaled)) > 1e-7
    return narrow, int((many | (changed < _TINY)).sum()), too_large


def all_columns(
    batch: Any, columns: tuple[Column, ...], where: Where, rounded: Counter[str]
) -> tuple[Any, Wide]:
    """A batch with exactly these columns, in this order, and the `wide` values of `storable`.

    Missing columns are all null.
    """
    pa = arrow()
    wide: Wide = {}
    arrays = []
    for column in columns:
        place: Optional[int] = batch.schema.get_field_index(column.name)
        found = pa.nulls(batch.num_rows) if place == -1 else batch.column(place)
        arrays.append(storable(found, column, where, rounded, wide))
    return pa.RecordBatch.from_arrays(arrays, schema=schema(columns)), wide


def schema(columns: tuple[Column, ...]) -> Any:
    """The Arrow schema of a batch with these columns."""
    return arrow().schema([(column.name, storage_type(column)) for column in columns])
