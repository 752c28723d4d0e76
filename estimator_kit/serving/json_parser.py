"""Reads JSON without stopping other threads, however large or deep a body is.

Python's own parser reads a text in one call, which no other thread can interrupt, and it has an end
to how deep lists may be nested. Here it reads only pieces of a text; what is around them is read
step by step, so that other requests are answered in between. What is in a text is counted, and
reading ends where that is more than is allowed.

It takes what Python's parser takes, and gives the same; but a number too large for a double is an
error, and an integer that 64 bits do not hold is a float, as to TensorFlow Serving.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, Optional

# Of so many characters at once, which take some milliseconds.
_PIECE = 2**16

_SPACE = re.compile(r"[ \t\n\r]*")
# Patterns without two ways to match one text, so that failing takes no longer than matching.
_PLAIN = r'[^\[\]{}"]*'
_STRING = r'"[^"\\]*(?:\\.[^"\\]*)*"'
# A list or object with none in it.
_FLAT = rf"[\[{{]{_PLAIN}(?:{_STRING}{_PLAIN})*[\]}}]"
# Entries of a list which are such ones, or none, with the comma after each.
_ENTRIES = re.compile(rf"{_PLAIN}(?:(?:{_STRING}|{_FLAT}){_PLAIN})*,", re.S)
_WHOLE = re.compile(_FLAT, re.S)


class TooManyValuesError(ValueError):
    """A text has more values than are allowed."""


def parse(text: str, most_values: int) -> Any:
    """The value of a JSON text.

    Args:
      text: the whole of it.
      most_values: numbers, strings, lists, objects and so on that it may have.

    Raises:
      TooManyValuesError: it has more.
      ValueError: it is no JSON, or has a number too large for a double.
    """
    if len(text) <= min(_PIECE, most_values):
        try:
            return _DECODER.decode(text)
        except RecursionError:
            pass  # Deep lists are read below.
    value, end = _read(text, most_values)
    if end < len(text):
        raise json.JSONDecodeError("Extra data", text, end)
    return value


def _read(text: str, most_values: int) -> tuple[Any, int]:
    """The value at the start of a text, and where what comes after it begins."""
    outside: list[tuple[Any, Optional[str]]] = []  # Lists and objects around, and the names there.
    holder: Any = None
    name: Optional[str] = None
    count = 0
    at = _after_space(text, 0)
    while True:
        # Here begins a value.
        if isinstance(holder, list):
            many, at = _entries(text, at)
            holder += many
            count += sum(map(_size, many))
        opens = text[at : at + 1]
        if opens not in ("[", "{") or _WHOLE.match(text, at, at + _PIECE):
            value, at = _DECODER.raw_decode(text, at)
            count += _size(value)
        else:
            value = [] if opens == "[" else {}
            count += 1
            _check(count, most_values)
            at = _after_space(text, at + 1)
            if text[at : at + 1] != ("]" if opens == "[" else "}"):
                outside.append((holder, name))
                holder = value
                if opens == "{":
                    name, at = _name(text, at)
                continue
            at += 1
        _check(count, most_values)
        # It ends here, and so may what is around it.
        while True:
            at = _after_space(text, at)
            if holder is None:
                return value, at
            is_list = isinstance(holder, list)
            if is_list:
                holder.append(value)
            else:
                holder[name] = value
            follows = text[at : at + 1]
            if follows == ",":
                at = _after_space(text, at + 1)
                if not is_list:
                    name, at = _name(text, at)
                break
            if follows != ("]" if is_list else "}"):
                raise json.JSONDecodeError("Expecting ',' delimiter", text, at)
            at += 1
            value = holder
            holder, name = outside.pop()


def _entries(text: str, at: int) -> tuple[list[Any], int]:
    """Entries of a list that are a piece of it, maybe none, and where the next begins."""
    found = _ENTRIES.match(text, at, at + _PIECE)
    if found is None:
        return [], at
    try:
        many = _DECODER.decode(f"[{found[0][:-1]}]")
    except ValueError:
        many = []  # Read one by one, the error has its place in the whole text.
    return (many, _after_space(text, found.end())) if many else ([], at)


def _check(count: int, most_values: int) -> None:
    if count > most_values:
        raise TooManyValuesError(f"more than {most_values:,} values")


def _size(value: Any) -> int:
    return 1 + len(value) if isinstance(value, (list, dict)) else 1


def _name(text: str, at: int) -> tuple[str, int]:
    """The name of an object's entry, and where its value begins."""
    if text[at : at + 1] != '"':
        raise json.JSONDecodeError("Expecting property name enclosed in double quotes", text, at)
    name, at = _DECODER.raw_decode(text, at)
    at = _after_space(text, at)
    if text[at : at + 1] != ":":
        raise json.JSONDecodeError("Expecting ':' delimiter", text, at)
    return name, _after_space(text, at + 1)


def _after_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    assert found is not None
    return found.end()


def _integer(digits: str) -> Any:
    if len(digits) <= 20:
        number = int(digits)
        if -(2**63) <= number < 2**64:
            return number
    return _float(digits)


def _float(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError(f"the number {digits[:40]} is too large for a double")
    return number


_DECODER = json.JSONDecoder(parse_int=_integer, parse_float=_float)
