"""`Column`: a column of a table as a feature; and how each Arrow type is converted.

    booleans, integers          int64; false is 0, true is 1
    decimals without fractions  int64; a value that is too large is an error when it is read
    floats, other decimals      float32
    text, binary                string: the bytes; text is UTF-8
    dictionaries                like their values
    dates, times, timestamps    string: text such as "2011-01-01 10:00:00.000000", with a note;
                                see `time_texts`
    lists of one of these       several values; a list without a fixed length may be empty
    null                        no type: the column has no value

Structs, maps, lists of lists, durations and intervals are errors: a record cannot store them.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Optional

from input_pipelines.prepare.tables import time_texts
from input_pipelines.prepare.tables.library import arrow


@dataclasses.dataclass(frozen=True)
class Column:
    """A column.

    Attributes:
      name: its name in the file.
      dtype: `int64`, `float32` or `string`; None if no row has a value.
      multi: whether its values are lists.
      note: a note for the report, or an empty string.
      form: for dates and times, the form of their text (`time_texts`); otherwise empty.
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
    form = time_texts.form_of(inner)
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
