"""Converts arrays of any type to what a record stores: int64, float32 or bytes, or lists of them.

No value is changed silently. A value that does not fit into an int64 or float32 is an error that
names the row. Numbers that a float32 does not keep are counted:

    numbers = as_written(array)        # int64, uint64, float64, or text with all its digits
    narrow = to_float32(numbers)       # narrow.values, narrow.rounded, narrow.zeros

A number is rounded if it has more than 7 digits and no float32 is equal to it, such as 16777217,
0.123456789 and 9007199254740993, but not 0.1. It is also rounded if it is so close to 0 that a
float32 has few digits there. A number that becomes 0 is counted separately. Never raises an error
for a value: `too_large` has the places of numbers that do not fit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from typing import Any, NamedTuple

import numpy as np

from input_pipelines.errors import DataError
from input_pipelines.prepare.tables import columns
from input_pipelines.prepare.tables.columns import Column, is_list, is_text, storage_type
from input_pipelines.prepare.tables.library import arrow

# A float32 usually keeps 7 digits: always 6, sometimes 9.
EXACT_DIGITS = 7

# Decimal numbers with at most this many digits differ as float64, too.
_DIGITS_OF_FLOAT64 = 15

# Powers of ten up to this exponent are exact as float64.
_LARGEST_POWER = 22

_TINY = float(np.finfo(np.float32).tiny)
_POWERS = np.array([10**i for i in range(20)], np.uint64)

# Keeps all digits. Exponents of more than 18 digits become 0 or infinity.
_ALL_DIGITS = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[])


class Narrow(NamedTuple):
    """Numbers as float32.

    Attributes:
      values: float32 [numbers].
      rounded: how many numbers lost digits.
      zeros: how many numbers are not 0, but became 0.
      too_large: int64: the places of finite numbers that are too large for a float32.
    """

    values: np.ndarray
    rounded: int
    zeros: int
    too_large: np.ndarray


def decimal_of(text: str) -> Decimal:
    """The number of a text, with all its digits."""
    return _ALL_DIGITS.create_decimal(text)


def as_written(array: Any) -> Any:
    """An array with the numbers of the file: int64, uint64, float64, or text.

    Args:
      array: an array of integers, booleans, floats, decimals, text, or dictionaries of these. Text
        looks like numbers.
    """
    pa = arrow()
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    dtype = array.type
    if pa.types.is_uint64(dtype):
        return array
    if pa.types.is_integer(dtype) or pa.types.is_boolean(dtype):
        return array.cast(pa.int64())
    if pa.types.is_decimal(dtype) or is_text(dtype):
        return array.cast(pa.string())
    return array.cast(pa.float64())


def to_float32(numbers: Any) -> Narrow:
    """Converts the result of `as_written` to float32. Nulls become 0."""
    pa = arrow()
    if is_text(numbers.type):
        return _of_text(numbers.fill_null("0"))
    values = np.asarray(numbers.fill_null(0))
    return _of_integers(values) if pa.types.is_integer(numbers.type) else _of_floats(values)[0]


def _of_integers(values: np.ndarray) -> Narrow:
    """Converts int64 or uint64 numbers [n]."""
    narrow = values.astype(np.float32)
    wide = narrow.astype(np.float64)
    # The largest integers may become 2^63 or 2^64, which cannot be converted back.
    fits = wide < float(np.iinfo(values.dtype).max)
    changed = values[~fits | (np.where(fits, wide, 0).astype(values.dtype) != values)]
    sizes = np.abs(changed).astype(np.uint64)  # -2^63 becomes 2^63.
    digits = np.searchsorted(_POWERS, sizes, side="right")
    unit = _POWERS[np.maximum(digits - EXACT_DIGITS, 0)]
    return Narrow(narrow, int((sizes % unit != 0).sum()), 0, np.zeros(0, np.int64))


def _of_floats(wide: np.ndarray) -> tuple[Narrow, np.ndarray]:
    """Converts float64 numbers [n]. Also returns which of them lost digits or became 0."""
    with np.errstate(over="ignore"):
        narrow = wide.astype(np.float32)
    finite = np.isfinite(wide)
    too_large = np.flatnonzero(np.isinf(narrow) & finite)
    zero = (narrow == 0) & (wide != 0)
    rounded = (narrow != wide) & finite & ~zero
    places = np.flatnonzero(rounded)
    if len(places):
        changed = np.abs(wide[places])
        rounded[places] = (changed < _TINY) | _has_more_digits(changed)
    return Narrow(narrow, int(rounded.sum()), int(zero.sum()), too_large), rounded | zero


def _has_more_digits(numbers: np.ndarray) -> np.ndarray:
    """bool [n]: which positive float64 numbers no number of 7 digits is nearest to."""
    power = (EXACT_DIGITS - 1 - np.floor(np.log10(numbers))).astype(np.int64)
    scale = 10.0 ** np.minimum(np.abs(power), _LARGEST_POWER)
    # One exact operation on exact numbers gives the float64 that is nearest to the decimal number.
    same = np.where(
        power >= 0,
        np.rint(numbers * scale) / scale,
        np.rint(numbers / scale) * scale,
    )
    more = same != numbers
    far = np.flatnonzero(np.abs(power) > _LARGEST_POWER)
    more[far] = [float(f"{x:.{EXACT_DIGITS - 1}e}") != x for x in numbers[far].tolist()]
    return np.asarray(more, bool)


def _of_text(text: Any) -> Narrow:
    """Converts an array of text that looks like numbers."""
    pa, compute = arrow(), arrow("compute")
    wide = np.asarray(text.cast(pa.float64()))
    (narrow, rounded, zeros, too_large), lost = _of_floats(wide)
    # 1e400 has become infinity. inf and nan have no digits.
    endless = np.isinf(wide)
    if endless.any():
        endless &= np.asarray(compute.match_substring_regex(text, "[0-9]"))
        too_large = np.union1d(too_large, np.flatnonzero(endless))
    # What a float64 does not show: 1e-400 is 0, and 9007199254740993 is 9007199254740992.
    nothing = np.flatnonzero(wide == 0)
    if len(nothing):
        some = compute.match_substring_regex(text.take(pa.array(nothing)), "^[^eE]*[1-9]")
        zeros += int(np.asarray(some).sum())
    long = np.asarray(compute.binary_length(text)) > _DIGITS_OF_FLOAT64
    places = np.flatnonzero(long & ~lost & np.isfinite(wide) & (wide != 0))
    if len(places):
        texts = text.take(pa.array(places)).to_pylist()
        rounded += sum(map(_is_rounded, texts, narrow[places].tolist()))
    return Narrow(narrow, rounded, zeros, too_large)


def _is_rounded(text: str, number: float) -> bool:
    exact = decimal_of(text)
    digits = "".join(map(str, exact.as_tuple().digits)).rstrip("0")
    return exact != Decimal(number) and len(digits) > EXACT_DIGITS


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
        if columns.form_of(dtype):
            outside = columns.first_without_text(array)
            if outside is not None:
                number = array.cast(pa.int32() if pa.types.is_date32(dtype) else pa.int64())
                raise DataError(
                    f"{where(outside)}: column {column.name!r}: expected a time in the years 1 to "
                    f"9999, got {number[outside]} of the type {dtype}. Write null for a time that "
                    "is not known"
                )
            array = columns.texts(array)
        elif is_text(dtype):
            array = array.cast(pa.string())
        return array.cast(pa.binary())
    if column.dtype == "int64":
        return _int64(array, column, where)
    written = as_written(array)
    narrow = to_float32(written)
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
