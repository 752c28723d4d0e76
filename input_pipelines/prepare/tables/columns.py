"""`Column`: a column of a table as a feature; and how each Arrow type is converted.

    booleans, integers          int64; false is 0, true is 1
    decimals without fractions  int64; a value that is too large is an error when it is read
    floats, other decimals      float32
    text, binary                string: the bytes; text is UTF-8
    dictionaries                like their values
    dates, times, timestamps    string: text such as "2011-01-01 10:00:00.000000", with a note
    lists of one of these       several values; a list without a fixed length may be empty
    null                        no type: the column has no value

Structs, maps, lists of lists, durations and intervals are errors: a record cannot store them.

A date or time has one text, whatever the type of its file's column:

    dates                    2026-01-31
    times of day             10:00:00.000000
    times without a zone     2026-01-31 10:00:00.000000
    times with a zone        2026-01-31 09:00:00.000000Z       # always in UTC

A file may store times in seconds, milliseconds, microseconds or nanoseconds, and in any zone. The
text has 6 digits after the point, or 9 if the value has nanoseconds. A feature reads it as a word,
so another text for the same time would be another word. Values of different forms cannot be
compared, so `found_columns` refuses files that mix them in one column. Never changes text.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Optional

import numpy as np

from input_pipelines.prepare.tables.library import arrow

# From the year 1 to the year 9999, in seconds since 1970.
_FIRST, _LAST = -62_135_596_800, 253_402_300_799
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def form_of(dtype: Any) -> str:
    """The form of an Arrow type, as messages name it; empty if it is neither a date nor a time."""
    types = arrow().types
    if types.is_date(dtype):
        return "dates"
    if types.is_time(dtype):
        return "times of day"
    if types.is_timestamp(dtype):
        return "times without a zone" if dtype.tz is None else "times with a zone"
    return ""


def first_without_text(values: Any) -> Optional[int]:
    """The place of the first value that is not in the years 1 to 9999, or None.

    Databases write the largest int64 for an endless time, for example.
    """
    pa = arrow()
    types, dtype = pa.types, values.type
    if types.is_time(dtype):
        return None
    if types.is_date32(dtype):
        first, last = _FIRST // 86_400, _LAST // 86_400
        numbers = values.cast(pa.int32())
    else:
        factor = _PER_SECOND["ms" if types.is_date64(dtype) else dtype.unit]
        first, last = _FIRST * factor, (_LAST + 1) * factor - 1
        numbers = values.cast(pa.int64())
    filled = np.asarray(numbers.fill_null(0), np.int64)
    # Nanoseconds cannot leave these years, and their limits do not fit into an int64.
    first, last = max(first, -(2**63)), min(last, 2**63 - 1)
    outside = np.flatnonzero((filled < first) | (filled > last))
    return int(outside[0]) if outside.size else None


def texts(values: Any) -> Any:
    """The texts of an array of dates or times; null where the array is.

    `first_without_text` must have returned None.
    """
    pa, compute = arrow(), arrow("compute")
    types = pa.types
    if types.is_date(values.type):
        return values.cast(pa.string())
    zone = None if types.is_time(values.type) or values.type.tz is None else "UTC"

    def of_unit(unit: str) -> Any:
        return pa.time64(unit) if types.is_time(values.type) else pa.timestamp(unit, zone)

    short = values.cast(of_unit("us"), safe=values.type.unit != "ns").cast(pa.string())
    if values.type.unit != "ns":
        return short
    fine = values.cast(pa.int64())
    has_whole_microseconds = compute.equal(fine, compute.multiply(compute.divide(fine, 1000), 1000))
    if compute.all(has_whole_microseconds).as_py() is not False:
        return short
    return compute.if_else(
        has_whole_microseconds, short, values.cast(of_unit("ns")).cast(pa.string())
    )


@dataclasses.dataclass(frozen=True)
class Column:
    """A column.

    Attributes:
      name: its name in the file.
      dtype: `int64`, `float32` or `string`; None if no row has a value.
      multi: whether its values are lists.
      note: a note for the report, or an empty string.
      form: for dates and times, the form of their text; otherwise empty.
    """

    name: str
    dtype: Optional[str]
    multi: bool = False
    note: str = ""
    form: str = ""


class NoFeature(ValueError):
    """A type that a feature cannot store. The message says what to do."""


def column_of(name: str, dtype: Any) -> Column:
    """The `Column` for a column of an Arrow type.

    Raises:
      NoFeature: a feature cannot store this type.
    """
    types = arrow().types
    inner = dtype
    multi = is_list(dtype)
    if multi:
        inner = dtype.value_type
    if types.is_dictionary(inner):
        inner = inner.value_type
    if types.is_null(inner):
        return Column(name, None, multi)
    if types.is_boolean(inner) or types.is_integer(inner):
        return Column(name, "int64", multi)
    if types.is_decimal(inner) and inner.scale <= 0:
        return Column(name, "int64", multi)
    if types.is_floating(inner) or types.is_decimal(inner):
        note = f"{inner}, read as float32" if types.is_decimal(inner) else ""
        return Column(name, "float32", multi, note)
    if is_text(inner) or is_bytes(inner):
        return Column(name, "string", multi)
    form = form_of(inner)
    if form:
        return Column(
            name,
            "string",
            multi,
            f"{inner}, read as text; parts of it (hour, day of "
            "the week, age) would be better features",
            form,
        )
    remedy = "Write its parts as separate columns, or leave it out of the file"
    if multi and is_list(inner):
        remedy = (
            "Write it as a flat list and the lengths of its lists as another column (row_lengths "
            "in a spec), or leave it out of the file"
        )
    raise NoFeature(f"column {name!r} is {dtype}, which a feature cannot store. {remedy}")


def storage_type(column: Column) -> Any:
    """The Arrow type of a column's values in the batches of `reader`; a list type for `multi`."""
    pa = arrow()
    of_dtype = {
        "int64": pa.int64(),
        "float32": pa.float32(),
        "string": pa.binary(),
        None: pa.null(),
    }
    return pa.list_(of_dtype[column.dtype]) if column.multi else of_dtype[column.dtype]


def is_list(dtype: Any) -> bool:
    types = arrow().types
    return bool(
        types.is_list(dtype) or types.is_large_list(dtype) or types.is_fixed_size_list(dtype)
    )


def is_text(dtype: Any) -> bool:
    types = arrow().types
    return bool(
        types.is_string(dtype) or types.is_large_string(dtype) or types.is_string_view(dtype)
    )


def is_bytes(dtype: Any) -> bool:
    types = arrow().types
    return bool(
        types.is_binary(dtype)
        or types.is_large_binary(dtype)
        or types.is_binary_view(dtype)
        or types.is_fixed_size_binary(dtype)
    )
