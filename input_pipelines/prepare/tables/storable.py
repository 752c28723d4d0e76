"""Arrays of any type as a record stores them: int64, float32 or bytes, one or a list of them a row.

No value is changed without a word: what int64 or float32 cannot hold is an error that names the
row, and numbers of more digits than a float32 keeps are counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Optional

import numpy as np

from input_pipelines.errors import DataError
from input_pipelines.prepare.tables.columns import Column, is_list, is_text, storage_type
from input_pipelines.prepare.tables.library import arrow

# A float32 keeps 7 digits, mostly: 6 always, 9 sometimes.
DIGITS = 7
_TINY = float(np.finfo(np.float32).tiny)

Where = Callable[[int], str]


def storable(array: Any, column: Column, where: Where, rounded: Counter[str]) -> Any:
    """An array of `storage_type(column)` with the same values, null where the array is.

    Args:
      array: a column of a batch, as it was read.
      column: what it is to be; text that is to be a number looks like one.
      where: names a row by its position in the array, for errors.
      rounded: gets the number of values of a column that were rounded.

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
            f"{where(int(rows[first]))}: column {column.name!r}: a list holds a null, for which a "
            "record has no place; leave it out of the list, or write a value for it"
        )
    values = _values(flat, column, lambda i: where(int(rows[i])), rounded)
    offsets = pa.array(np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32))
    mask = array.is_null() if array.null_count else None
    return pa.ListArray.from_arrays(offsets, values, mask=mask)


def _values(array: Any, column: Column, where: Where, rounded: Counter[str]) -> Any:
    """Values that are no lists."""
    pa = arrow()
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    dtype = array.type
    if column.dtype is None:
        return pa.nulls(len(array))
    if column.dtype == "string":
        temporal = pa.types.is_temporal(dtype)
        return (array.cast(pa.string()) if temporal or is_text(dtype) else array).cast(pa.binary())
    if column.dtype == "int64":
        try:
            return array.cast(pa.int64())
        except pa.ArrowInvalid as error:
            for i, value in enumerate(array.to_pylist()):
                if value is not None and not _is_int64(value):
                    number = str(value).lstrip("-").isdigit()
                    why = "is too large for int64" if number else "no int64 holds"
                    raise DataError(
                        f"{where(i)}: column {column.name!r}: got {value}, which {why}; store it "
                        "as text"
                    ) from error
            raise
    if pa.types.is_integer(dtype):
        array = array.cast(pa.float64(), safe=False)
    wide = array.cast(pa.float64())
    valid = None if not wide.null_count else np.asarray(wide.is_valid())
    numbers = np.asarray(wide.fill_null(0.0))
    narrow, lost, too_large = to_float32(numbers)
    if is_text(dtype):  # 1e400 is an infinite number by then.
        endless = np.asarray(arrow("compute").match_substring_regex(array.fill_null(""), "[0-9]"))
        too_large = np.union1d(too_large, np.flatnonzero(np.isinf(numbers) & endless))
    if len(too_large):
        i = int(too_large[0])
        raise DataError(
            f"{where(i)}: column {column.name!r}: got {array[i].as_py()}, which no float32 holds; "
            "scale the column down, or store it as text"
        )
    if lost:
        rounded[column.name] += lost
    return pa.array(narrow, mask=None if valid is None else ~valid)


def _is_int64(value: Any) -> bool:
    try:
        return -(2**63) <= int(value) < 2**63
    except ValueError:
        return False


def to_float32(wide: np.ndarray) -> tuple[np.ndarray, int, np.ndarray]:
    """Numbers [n] as float32; how many lost digits; and the places of finite ones too large for it.

    A number loses digits when it has more than 7 of them and is none of float32's, as 16777217 and
    0.123456789 but not 0.1; or when it is so near to 0 that float32 has few digits there, or none.
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
) -> Any:
    """A batch with exactly these columns, in their order; a column that it lacks is all null."""
    pa = arrow()
    arrays = []
    for column in columns:
        place: Optional[int] = batch.schema.get_field_index(column.name)
        found = pa.nulls(batch.num_rows) if place == -1 else batch.column(place)
        arrays.append(storable(found, column, where, rounded))
    return pa.RecordBatch.from_arrays(arrays, schema=schema(columns))


def schema(columns: tuple[Column, ...]) -> Any:
    """The Arrow schema of the batches that are given out."""
    return arrow().schema([(column.name, storage_type(column)) for column in columns])
