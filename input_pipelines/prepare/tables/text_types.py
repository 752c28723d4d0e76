"""Decides the type of a column of text from all its values: int64, float32 or string.

    whole       0, -12, 9223372036854775807     an integer as a program writes it
    fraction    1.5, -.5, 1e-3                  another number
    odd         nan, -inf                       not a finite number, in lower or upper case
    zeros       00123, -01.5                    digits after a zero that a number would lose
    big         9223372036854775808             an integer that does not fit into an int64
    grouped     69,487                          an integer with commas between thousands
    decimal     69,487.00                       another number with such commas
    spaced      " 1", "  -1.5"                  spaces before something that looks like a number
    text        anything else, also +1
    empty       two quotes with nothing between them
    named       a field in quotes that --csv_missing names

Of the texts, those that programs write for a missing value are counted, too (`MARKERS`): analysis
reads a column of numbers and markers as numbers.

With --csv_thousands, grouped counts as whole and decimal as fraction, otherwise both as text.
Only whole: int64. Only whole, fraction and odd: float32. With any other value: string, so that no
value is changed. Programs that quote every field write a missing number as empty or named. So in a
column of numbers these are missing values; in a column of text they are text. If at most half of
the values decide the type, a note says how many they are and where the first one is.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Optional

import numpy as np

from feature_specs.errors import counted
from input_pipelines.errors import DataError
from input_pipelines.prepare.tables.library import arrow

_KINDS = (
    ("whole", r"^(0|-?[1-9][0-9]{0,18})$"),
    ("fraction", r"^-?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?$"),
    ("odd", r"(?i)^-?(nan|inf|infinity)$"),
    ("zeros", r"^-?0[0-9]+(\.[0-9]*)?$"),
    ("grouped", r"^-?[1-9][0-9]{0,2}(,[0-9]{3}){1,5}$"),
    ("decimal", r"^-?[1-9][0-9]{0,2}(,[0-9]{3}){1,5}\.[0-9]*$"),
    ("spaced", r"^ +-?[0-9.][0-9.eE+-]*$"),
)
# What programs write for a missing value.
MARKERS = r"(?i)^( +|n/?a|null|none|missing|unknown|\?|-+|\.)$"

_BIG = r"^-?[1-9][0-9]*$"  # Not -0, which is a float.

# The start of values of all kinds except `odd` and `text`.
_NUMBER = r"^ *-?[0-9.]"

# The kinds of numbers with commas, and the kinds of the same numbers without them.
_GROUPED = {"grouped": "whole", "decimal": "fraction"}
_WITH_COMMAS = r"^-?[1-9][0-9]{0,2}(,[0-9]{3}){1,5}(\.[0-9]*)?$"

# The kinds of numbers that may have a decimal point.
_POINTS = ("fraction", "decimal")

# The kinds that are not numbers.
_WORDS = ("text", "spaced", "empty", "named", *_GROUPED)

_SPACES = "use --csv_skip_spaces to ignore spaces at the start of fields"

_COMMAS = (
    "if commas separate thousands, write csv_thousands: true in the section tables of the spec, or "
    "pass --csv_thousands"
)

# An integer with fewer characters certainly fits into an int64.
_SHORT = 19
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+")

Place = tuple[str, int, str]

# Names a row of a file, counted from 1.
Where = Callable[[str, int], str]

# The key in `first` for the first field with a line break.
_BREAK = "line break"


@dataclasses.dataclass(frozen=True)
class Cells:
    """Some values of a column of a file.

    Attributes:
      values: a pyarrow array of text.
      path: the file.
      before: the number of rows of the file before these rows.
      rows: int [values]: the row of each value, if rows have lists of values.
    """

    values: Any
    path: str
    before: int
    rows: Optional[np.ndarray] = None

    def place(self, value: Any) -> Place:
        """The first place of a value."""
        row = arrow("compute").index(self.values, value).as_py()
        row = row if self.rows is None else int(self.rows[row])
        return (self.path, self.before + row + 1, value.as_py())


def is_one_of(values: Any, words: Sequence[str]) -> Any:
    """bool [values]: which values of a pyarrow array of text are one of the words."""
    pa = arrow()
    return arrow("compute").is_in(values, value_set=pa.array(list(words), pa.string()))


def without_commas(values: Any) -> Any:
    """A pyarrow array of text in which numbers such as 69,487.00 have no commas."""
    compute = arrow("compute")
    hit = compute.match_substring_regex(values, _WITH_COMMAS)
    if not compute.any(hit).as_py():
        return values
    return compute.if_else(hit, compute.replace_substring(values, ",", ""), values)


def _joined(note: str, other: str) -> str:
    return "; ".join(filter(None, (note, other)))


@dataclasses.dataclass
class TextColumn:
    """Counts the values of a column by kind, and keeps the first value of each kind.

    Attributes:
      multi: whether rows have lists of values.
      counts, first: by kind, how many values the column has, and the first one.
      broken: how many fields have line breaks.
      markers: how often each of `MARKERS` occurs. All of them are counted as `text`.
    """

    name: str
    multi: bool = False
    counts: Counter[str] = dataclasses.field(default_factory=Counter)
    markers: Counter[str] = dataclasses.field(default_factory=Counter)
    first: dict[str, Place] = dataclasses.field(default_factory=dict)
    broken: int = 0

    def without_missing(self, cells: Cells, missing: Sequence[str]) -> Cells:
        """The fields without those that are missing values in a column of numbers.

        Counts them as `empty` and `named`. Unquoted ones are null already.

        Args:
          cells: whole fields of a file.
          missing: the values that --csv_missing names.
        """
        compute = arrow("compute")
        for kind, words in (("empty", [""]), ("named", [word for word in missing if word])):
            hit = is_one_of(cells.values, words)
            if compute.any(hit).as_py():
                self._see(kind, cells.values.filter(hit), cells)
                rest = compute.if_else(hit, None, cells.values)
                cells = dataclasses.replace(cells, values=rest)
        return cells

    def add(self, cells: Cells) -> None:
        """Adds values of a file."""
        compute = arrow("compute")
        rest = cells.values.drop_null()
        self._see_breaks(rest, cells)
        marks = compute.match_substring_regex(rest, MARKERS)
        self.markers.update(rest.filter(marks).to_pylist())
        if self.counts["text"] and not self._numbers:
            # The column is text. One pass finds the numbers, which do not change the type.
            numbers = rest.filter(compute.match_substring_regex(rest, _NUMBER))
            self.counts["text"] += len(rest) - len(numbers)
            rest = numbers
        for kind, pattern in _KINDS:
            if not len(rest):
                return
            hit = compute.match_substring_regex(rest, pattern)
            hits = rest.filter(hit)
            if not len(hits):
                continue
            rest = rest.filter(compute.invert(hit))
            if kind == "whole":
                hits = self._without_big(hits, cells)
            elif kind == "fraction":
                big = compute.match_substring_regex(hits, _BIG)
                self._see("big", hits.filter(big), cells)
                hits = hits.filter(compute.invert(big))
            self._see(kind, hits, cells)
        self._see("text", rest, cells)

    def merge(self, other: TextColumn) -> None:
        """Adds the values of a later file."""
        self.counts.update(other.counts)
        self.broken += other.broken
        self.markers.update(other.markers)
        self.multi |= other.multi
        self.first = {**other.first, **self.first}

    @property
    def missing_markers(self) -> list[str]:
        """The markers of missing values, if all values that are not numbers are such markers."""
        marked = sum(self.markers.values())
        others = self.counts["text"] + self.counts["spaced"] - marked
        numbers = sum(self.counts[kind] for kind in ("whole", "fraction", *_GROUPED))
        unsure = self.multi or others or not marked or marked > numbers
        return [] if unsure else sorted(self.markers)

    @property
    def has_thousands(self) -> bool:
        """Whether all values are numbers if commas separate the thousands of some of them."""
        others = self.counts["text"] + self.counts["spaced"] + self.counts["zeros"]
        return not others and any(self.counts[kind] for kind in _GROUPED)

    @property
    def has_decimal_commas(self) -> bool:
        """Whether a value has a comma that cannot separate thousands, such as 0,5."""
        first = self.first.get("text")
        return first is not None and _DECIMAL_COMMA.fullmatch(first[2]) is not None

    @property
    def has_points(self) -> bool:
        """Whether a number has a decimal point."""
        return any("." in self.first[kind][2] for kind in _POINTS if kind in self.first)

    def settle_thousands(self, thousands: bool) -> None:
        """Counts numbers with commas as numbers, or as text."""
        for kind, number in _GROUPED.items():
            count, first = self.counts.pop(kind, 0), self.first.get(kind)
            if count and first is not None:
                as_kind = number if thousands else "text"
                self.counts[as_kind] += count
                self.first.setdefault(as_kind, first)

    def dtype(
        self, declared: Optional[str], where: Where, correct: str = "correct the spec"
    ) -> tuple[Optional[str], str]:
        """The type, None if the column has no value; and a note, which is usually empty.

        Line breaks inside quotes are legal. But two stray quotes also turn the rows between them
        into one field with line breaks, so the note mentions them.

        Args:
          declared: the type in a spec.
          where: names a row in messages.
          correct: the remedy in errors about the declared type.

        Raises:
          DataError: a value does not have the declared type.
        """
        dtype, note = self._dtype(declared, where, correct)
        if self.broken:
            first = self._at(_BREAK, where)
            breaks = f"{counted(self.broken, 'field')} with line breaks, the first one in {first}"
            note = _joined(note, breaks)
        return dtype, note

    def _dtype(
        self, declared: Optional[str], where: Where, correct: str
    ) -> tuple[Optional[str], str]:
        total = sum(self.counts.values())
        if declared == "string" or not total:
            return declared, ""
        missing = self._missing(where)
        if declared is not None:
            allowed = {"whole"} if declared == "int64" else {"whole", "fraction", "odd"}
            for kind in ("spaced", "text", "big", "zeros", "odd", "fraction"):
                if kind in self.first and kind not in allowed:
                    remedy = f"{correct}, or name the values that mean missing with --csv_missing"
                    if kind == "spaced":
                        remedy = _SPACES
                    elif kind == "text" and self.first[kind] in map(self.first.get, _GROUPED):
                        remedy = _COMMAS
                    raise DataError(
                        f"{self._at(kind, where)}: column {self.name!r}: got "
                        f"{self.first[kind][2]!r}, expected {declared}, as the spec says; {remedy}"
                    )
            return declared, missing
        numbers, c = self._numbers, self.counts
        if missing and (c["text"] or not numbers + c["spaced"]):
            c = c + Counter(text=c["empty"] * (not self.multi) + c["named"])
            first = self.first.get("empty") or self.first["named"]
            self.first.setdefault("text", first)
        if c["spaced"] and c["text"] <= c["spaced"] + numbers:
            return "string", (
                f"text, because {c['spaced']:,} of {total:,} values have a space before a number, "
                f"the first one {self._what('spaced', where)}; {_SPACES}"
            )
        if c["text"] or c["spaced"]:
            if c["text"] <= numbers:
                return "string", (
                    f"text, because {c['text']:,} of {total:,} values are not numbers, the first "
                    f"one {self._what('text', where)}; if it means a missing value, name it with "
                    "--csv_missing"
                )
            if c["text"] and _DECIMAL_COMMA.fullmatch(self.first["text"][2]):
                return "string", (
                    f"text, such as {self._what('text', where)}; if its comma is a decimal point, "
                    "write the numbers with points; if it separates thousands, pass "
                    "--csv_thousands"
                )
            return "string", ""
        if c["zeros"]:
            return "string", (
                f"text, because {c['zeros']:,} of {total:,} numbers begin with a zero that would "
                f"be lost, the first one {self._what('zeros', where)}"
            )
        if c["big"]:
            return "string", (
                f"text, because {c['big']:,} of {total:,} integers do not fit into 64 bits, the "
                f"first one {self._what('big', where)}"
            )
        if not c["whole"] + c["fraction"]:
            return "string", ""  # Only values such as "nan", which may be words.
        if not c["fraction"] + c["odd"]:
            return "int64", missing
        kind = "fraction" if c["fraction"] else "odd"
        if c["odd"]:
            return "float32", _joined(
                f"float32; {c['odd']:,} of {total:,} values are not finite, the first one "
                f"{self._what('odd', where)}; if it means a missing value, name it with "
                "--csv_missing",
                missing,
            )
        if 2 * c[kind] < c["whole"]:
            return "float32", _joined(
                f"float32, because {c[kind]:,} of {total:,} values are not integers, the first one "
                f"{self._what(kind, where)}",
                missing,
            )
        return "float32", missing

    def _missing(self, where: Where) -> str:
        """A note about quoted fields that a column of numbers reads as missing."""
        kinds = [kind for kind in ("empty", "named") if self.counts[kind]]
        if self.multi:  # Two quotes with nothing between them are an empty list.
            kinds = [kind for kind in kinds if kind != "empty"]
        if not kinds:
            return ""
        count = sum(self.counts[kind] for kind in kinds)
        return (
            f"missing values: {counted(count, 'quoted field')} without a number, the first one "
            f"{self._what(kinds[0], where)}"
        )

    @property
    def _numbers(self) -> int:
        return sum(n for kind, n in self.counts.items() if kind not in _WORDS)

    def _without_big(self, integers: Any, cells: Cells) -> Any:
        """The integers that fit into an int64. Counts all other integers as `big`."""
        pa, compute = arrow(), arrow("compute")
        if compute.max(compute.binary_length(integers)).as_py() < _SHORT:
            return integers
        try:
            integers.cast(pa.int64())
            return integers
        except pa.ArrowInvalid:
            big = pa.array([not -(2**63) <= int(v) < 2**63 for v in integers.to_pylist()])
            self._see("big", integers.filter(big), cells)
            return integers.filter(compute.invert(big))

    def _see_breaks(self, rest: Any, cells: Cells) -> None:
        compute = arrow("compute")
        broken = rest.filter(compute.match_substring(rest, "\n"))
        self.broken += len(broken)
        if len(broken) and _BREAK not in self.first:
            self.first[_BREAK] = cells.place(broken[0])

    def _see(self, kind: str, words: Any, cells: Cells) -> None:
        if not len(words):
            return
        self.counts[kind] += len(words)
        if kind not in self.first:
            self.first[kind] = cells.place(words[0])

    def _at(self, kind: str, where: Where) -> str:
        path, row, _ = self.first[kind]
        return where(path, row)

    def _what(self, kind: str, where: Where) -> str:
        return f"{self.first[kind][2][:100]!r} in {self._at(kind, where)}"
