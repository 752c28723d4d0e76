"""The places along an axis: the column of each place, and where a reshape or a sum moves it.

    [("age", 1), ("country", 8)]    the places of an axis of size 9: 1 of `age`, then 8 of `country`

A place without a column has the name "". A name that begins with "?" names the op after which the
places are unknown. A name with "&" or "*" is a place of two columns that were added or multiplied.
This module does not use graphs. See `input_places`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Optional

# The parts of an axis in order: a column and the number of its places.
Places = tuple[tuple[str, int], ...]

# One entry per axis. None if no place belongs to a column.
AxisPlaces = tuple[Optional[Places], ...]

# An axis may be a product of factors, for instance rows and fields before a reshape: (size,
# places).
Factor = tuple[Optional[int], Optional[Places]]

NO_COLUMN = ""
UNKNOWN = "?"


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
    result: Places = ((NO_COLUMN, 1),)
    for size, places in factors:
        if size is None:
            return None
        result = tuple(_product(result, places or ((NO_COLUMN, size),)))
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
    found = _added(*places)
    return ((sum(width for _, width in found or ()), found),)


def _added(first: Optional[Places], second: Optional[Places]) -> Optional[Places]:
    if first is None or second is None:
        return first or second
    ends = [list(itertools.accumulate(width for _, width in one)) for one in (first, second)]
    result, start = [], 0
    for end in sorted({*ends[0], *ends[1]}):
        names: set[str] = set()
        for places in (first, second):
            names.update(cut(places, start, end)[0][0].split("&"))
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
