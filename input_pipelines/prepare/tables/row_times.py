"""The column that orders rows: numbers, dates and times become numbers that can be compared.

    times = RowTimes("time", "--order_by", dtype=column.dtype)
    times.read(raw, rows.where)       # int64 or float64 [rows]

Integers stay int64, and other numbers become float64, because a float32 cannot hold the seconds
since 1970. Dates and times, also as text such as 2026-01-31 10:00:00, become nanoseconds since
1970. A zone is taken into account. Other text is an error: "31/1/2026" and "9" do not sort as
times. A missing value is an error, too. Never changes the order of rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Optional

import numpy as np

from input_pipelines.errors import DataError
from input_pipelines.prepare.tables.columns import is_bytes, is_text
from input_pipelines.prepare.tables.library import arrow

Where = Callable[[int], str]

_LOCAL, _ZONED = "times without a zone", "times with a zone"
_FORM = "Write times as 2026-01-31 10:00:00 or as numbers"


class RowTimes:
    """Reads the values of one column, batch after batch. All batches must have the same form."""

    def __init__(self, name: str, flag: str, *, dtype: Optional[str]):
        """A column.

        Args:
          name: its name.
          flag: the flag that names it, for errors.
          dtype: the type that `reader` found in all files; see `tables.columns`.
        """
        self._name = name
        self._flag = flag
        self._dtype = dtype
        self._form: Optional[str] = None

    @property
    def form(self) -> Optional[str]:
        """Whether times have a zone; None before the first time, and for numbers."""
        return self._form

    def read(self, raw: Any, where: Where) -> np.ndarray:
        """int64 or float64 [rows]: the values of a batch as numbers in the same order.

        Args:
          raw: the values as the file stores them; see `reader.read_beside`.
          where: names a row of the batch in errors.

        Raises:
          DataError: a value is missing, is not a time or a number, or has another form than before.
        """
        if raw.null_count:
            row = int(np.flatnonzero(np.asarray(raw.is_null()))[0])
            raise DataError(
                f"{where(row)}: column {self._name!r} has no value, but {self._flag} needs one in "
                "every row. Correct the row"
            )
        types = arrow().types
        if types.is_dictionary(raw.type):
            raw = raw.dictionary_decode()
        if self._dtype in ("int64", "float32"):
            return self._numbers(raw, where)
        if types.is_temporal(raw.type):
            return self._temporal(raw, where)
        return self._text(raw, where)

    def _numbers(self, raw: Any, where: Where) -> np.ndarray:
        if self._dtype == "int64":
            return np.asarray(raw.cast(arrow().int64()))
        numbers = np.asarray(raw.cast(arrow().float64(), safe=False))
        wrong = np.flatnonzero(np.isnan(numbers))
        if len(wrong):
            self._refuse(raw, int(wrong[0]), where, "a number")
        return numbers

    def _temporal(self, raw: Any, where: Where) -> np.ndarray:
        pa = arrow()
        if pa.types.is_time(raw.type):
            wide = raw.cast(pa.time64("ns"))
        else:
            zoned = pa.types.is_timestamp(raw.type) and raw.type.tz is not None
            self._check_form(_ZONED if zoned else _LOCAL, raw, 0, where)
            try:
                wide = raw.cast(pa.timestamp("ns", "UTC" if zoned else None))
            except pa.ArrowInvalid as error:
                raise DataError(
                    f"{where(0)}: column {self._name!r}: this row or one of the "
                    f"{len(raw) - 1:,} rows after it has a time outside of the years 1678 to 2262, "
                    f"which {self._flag} cannot compare. Correct the row"
                ) from error
        return np.asarray(wide.cast(pa.int64()))

    def _text(self, raw: Any, where: Where) -> np.ndarray:
        pa = arrow()
        if is_bytes(raw.type):
            raw = raw.cast(pa.string())
        if not is_text(raw.type):
            self._refuse(raw, 0, where, "a time or a number")
        if not len(raw):
            return np.zeros(0, np.int64)
        form = self._form or (_LOCAL if _parsed(raw[:1], _LOCAL) is not None else _ZONED)
        times = _parsed(raw, form)
        if times is None:
            for i in range(len(raw)):
                if _parsed(raw[i : i + 1], form) is not None:
                    self._form = form
                else:
                    other = _LOCAL if form == _ZONED else _ZONED
                    if _parsed(raw[i : i + 1], other) is not None:
                        self._check_form(other, raw, i, where)
                    self._refuse_text(raw, i, where)
        self._check_form(form, raw, 0, where)
        return np.asarray(times)

    def _check_form(self, form: str, raw: Any, row: int, where: Where) -> None:
        if self._form is None:
            self._form = form
        if form != self._form:
            raise DataError(
                f"{where(row)}: column {self._name!r}: got {str(raw[row].as_py())!r} after "
                f"{self._form}. Write all times with a zone, or all without one"
            )

    def _refuse_text(self, raw: Any, row: int, where: Where) -> None:
        if self._form is None and _is_number(raw[row]):  # Another value makes the column text.
            for i in range(len(raw)):
                if not _is_number(raw[i]):
                    self._refuse(raw, i, where, f"a number as in {where(row)}")
        self._refuse(raw, row, where, "a time such as 2026-01-31 10:00:00")

    def _refuse(self, raw: Any, row: int, where: Where, expected: str) -> None:
        raise DataError(
            f"{where(row)}: column {self._name!r}: got {raw[row].as_py()!r}, which is not "
            f"{expected}, but {self._flag} needs to compare it. {_FORM}"
        )


def _is_number(text: Any) -> bool:
    try:
        float(text.as_py())
    except ValueError:
        return False
    return True


def _parsed(text: Any, form: str) -> Any:
    """int64 [rows]: nanoseconds since 1970; None if a text is not a time of this form."""
    pa = arrow()
    try:
        return text.cast(pa.timestamp("ns", "UTC" if form == _ZONED else None)).cast(pa.int64())
    except pa.ArrowInvalid:
        return None


def value_of(text: str, dtype: Optional[str], form: Optional[str], flag: str) -> int:
    """The number of a value that a flag gives, to compare with a column of integers or times.

    Args:
      text: the value.
      dtype: the type of the column.
      form: the `form` of its times.
      flag: the flag, for errors.

    Raises:
      DataError: the text is not such a value.
    """
    if dtype == "int64":
        try:
            return int(text)
        except ValueError as error:
            raise DataError(
                f"{flag}: got {text!r}, expected an integer, as in the column. Write an integer"
            ) from error
    times = _parsed(arrow().array([text]), form or _LOCAL)
    if times is None:
        example = "2026-01-31T10:00:00Z" if form == _ZONED else "2026-01-31 10:00:00"
        raise DataError(
            f"{flag}: got {text!r}, expected a time such as {example}, as the column has {form}"
        )
    return int(times[0].as_py())


def as_text(value: int, dtype: Optional[str], form: Optional[str]) -> str:
    """A value as `value_of` reads it."""
    if dtype == "int64":
        return str(value)
    text = str(np.datetime_as_string(np.datetime64(value, "ns"))).rstrip("0").removesuffix(".")
    return f"{text}Z" if form == _ZONED else text.replace("T", " ").removesuffix(" 00:00:00")
