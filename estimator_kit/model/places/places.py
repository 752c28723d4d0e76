"""The places along an axis: what owns each place, and where a reshape or a sum moves it.

    [("age", 1), ("country", 8)]    the places of an axis of size 9: 1 of `age`, then 8 of `country`
    [("logits:level", 3)]           the logits of the objective `level`
    [("units:level", 32)]           units that only `level` uses, such as its tower

A place without an owner has the name "". A name that begins with "?" names the op after which the
places are unknown. A name with "&" or "*" is a place of two columns that were added or multiplied.
This module does not use graphs. See `input_places`.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Optional

from pydantic import NonNegativeInt

# The parts of an axis in order: an owner and the number of its places.
Places = tuple[tuple[str, NonNegativeInt], ...]

# One entry per axis. None if no place has an owner.
AxisPlaces = tuple[Optional[Places], ...]

# An axis may be a product of factors, for instance rows and fields before a reshape: (size,
# places).
Factor = tuple[Optional[int], Optional[Places]]

NO_COLUMN = ""
UNKNOWN = "?"
# Before the names of objectives. Names of columns have no colon and no comma.
LOGITS = "logits:"
UNITS = "units:"

# In the place of a variable: logits whose way back to variables was lost.
UNTRACED = "?logits"

_OBJECTIVES = re.compile(rf"(?:{LOGITS}|{UNITS})([\w.,-]+)")


def objectives_of(name: str) -> set[str]:
    """The objectives that own a place, such as a and b for `units:a,b`."""
    return {
        objective for objectives in _OBJECTIVES.findall(name) for objective in objectives.split(",")
    }


def has_logits(places: Optional[Places]) -> bool:
    return any(LOGITS in name for name, _ in places or ())


def column_of(name: str) -> str:
    """The name of a place without its objectives."""
    return "&".join(part for part in name.split("&") if not objectives_of(part))


def without_objectives(places: Optional[Places]) -> Optional[Places]:
    """The places with only their columns; None if they have none."""
    column_places = tuple((column_of(name), width) for name, width in places or ())
    return column_places if any(name != NO_COLUMN for name, _ in column_places) else None


def take(left: list[Factor], size: Optional[int]) -> Optional[list[Factor]]:
    """Removes factors with the product `size` from the end of a list. None if that is impossible.

    A factor without places, or with only one column, can be split.
    """
    taken: list[Factor] = []
    if size == 1:
        return [left.pop() if left and left[-1][0] == 1 else (1, None)]
    while size != 1:
        if not left:
            return None
        last, places = left.pop()
        if last is None or size is None:
            return [(last, places)] if last == size and not taken else None
        if size % last == 0:
            taken.insert(0, (last, places))
            size //= last
        elif last % size == 0 and (places is None or len(places) == 1):
            parts: list[Optional[Places]] = [None, None]
            if places is not None:
                parts = [((places[0][0], n),) for n in (last // size, size)]
            left.append((last // size, parts[0]))
            taken.insert(0, (size, parts[1]))
            size = 1
        else:
            return None
    return taken


def flat(factors: Optional[Sequence[Factor]]) -> Optional[Places]:
    """The places of a product of factors. The last factor varies fastest."""
    if factors is None or all(places is None for _, places in factors):
        return None
    result: Optional[Places] = None
    for size, places in factors:
        if size is None:
            return None
        factor = places or ((NO_COLUMN, size),)
        result = factor if result is None else tuple(_product(result, factor))
    return result


def _product(first: Places, second: Places) -> Iterator[tuple[str, int]]:
    if len(second) == 1 and second[0][0] == NO_COLUMN:
        yield from ((name, width * second[0][1]) for name, width in first)
        return
    for name, width in first:
        for _ in range(width):
            for other, size in second:
                yield "*".join(n for n in (name, other) if n != NO_COLUMN), size


def both(first: tuple[Factor, ...], second: tuple[Factor, ...]) -> tuple[Factor, ...]:
    """The factors of two axes that meet in an elementwise op: the columns of both."""
    if [size for size, _ in first] == [size for size, _ in second]:
        return tuple((size, _added(a, b)) for (size, a), (_, b) in zip(first, second))
    places = [flat(factors) for factors in (first, second)]
    if None in places:
        return first
    joint_places = _added(*places)
    return ((sum(width for _, width in joint_places or ()), joint_places),)


def _added(first: Optional[Places], second: Optional[Places]) -> Optional[Places]:
    if first is None or second is None:
        return first or second
    ends = [list(itertools.accumulate(width for _, width in one)) for one in (first, second)]
    result, start = [], 0
    for end in sorted({*ends[0], *ends[1]}):
        names: set[str] = set()
        for places in (first, second):
            names.update(cut(places, start, end)[0][0].split("&"))
        if any(name.startswith(LOGITS) for name in names):  # They say more than units.
            names = {name for name in names if not name.startswith(UNITS)}
        result.append(("&".join(sorted(names - {NO_COLUMN})), end - start))
        start = end
    return tuple(result)


def cut(places: Places, start: int, stop: int) -> Places:
    """The places from `start` to before `stop`."""
    result, first = [], 0
    for name, width in places:
        size = min(first + width, stop) - max(first, start)
        if size > 0:
            result.append((name, size))
        first += width
    return tuple(result)
