"""The text of dates and times: one value has one text, whatever the type of its file's column.

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
    found = np.asarray(numbers.fill_null(0), np.int64)
    # Nanoseconds cannot leave these years, and their limits do not fit into an int64.
    first, last = max(first, -(2**63)), min(last, 2**63 - 1)
    outside = np.flatnonzero((found < first) | (found > last))
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
    whole = compute.equal(fine, compute.multiply(compute.divide(fine, 1000), 1000))
    if compute.all(whole).as_py() is not False:
        return short
    return compute.if_else(whole, short, values.cast(of_unit("ns")).cast(pa.string()))
