"""Reads JSON without blocking other threads, however large or deep a body is.

Python's parser reads a text in one call that other threads cannot interrupt, and it limits how deep
lists may be nested. Here Python's parser reads only pieces of a text. This module reads what is
around them step by step, so the server can answer other requests meanwhile. It counts the values of
a text, and stops with an error if there are more than the limit.

It accepts the same texts as Python's parser and returns the same values, with two differences, as
in TensorFlow Serving: a number too large for a double is an error, and an integer that does not fit
into 64 bits is a float.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, Optional

# The number of characters that are parsed at once, which takes some milliseconds.
_PIECE = 2**16

_SPACE = re.compile(r"[ \t\n\r]*")
# Each pattern can match a text in only one way, so that failing takes no longer than matching.
_PLAIN = r'[^\[\]{}"]*'
_STRING = r'"[^"\\]*(?:\\.[^"\\]*)*"'
# A list or object that contains no list or object.
_FLAT = rf"[\[{{]{_PLAIN}(?:{_STRING}{_PLAIN})*[\]}}]"
# Entries of a list that are flat lists, flat objects or plain values, with the comma after each.
_ENTRIES = re.compile(rf"{_PLAIN}(?:(?:{_STRING}|{_FLAT}){_PLAIN})*,", re.S)
_WHOLE = re.compile(_FLAT, re.S)


class TooManyValuesError(ValueError):
    """A text has more values than the limit."""


def parse(text: str, most_values: int) -> Any:
    """The value of a JSON text.

    Args:
      text: the complete text.
      most_values: the most values (numbers, strings, lists, objects and so on) that it may have.

    Raises:
      TooManyValuesError: the text has more values.
      ValueError: the text is not JSON, or has a number too large for a double.
    """
    if len(text) <= min(_PIECE, most_values):
        try:
            return _DECODER.decode(text)
        except RecursionError:
            pass  # `_read` reads deep lists.
    value, end = _read(text, most_values)
    if end < len(text):
        raise json.JSONDecodeError("Extra data", text, end)
    return value


def _read(text: str, most_values: int) -> tuple[Any, int]:
    """The value at the start of a text, and the place where it ends."""
    outside: list[tuple[Any, Optional[str]]] = []  # The lists and objects around, with their names.
    holder: Any = None
    name: Optional[str] = None
    count = 0
    at = _after_space(text, 0)
    while True:
        # A value begins here.
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
        # The value ends here, and so may the lists and objects around it.
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
    """Some entries of a list, possibly none, and the place where the next entry begins."""
    found = _ENTRIES.match(text, at, at + _PIECE)
    if found is None:
        return [], at
    try:
        many = _DECODER.decode(f"[{found[0][:-1]}]")
    except ValueError:
        many = []  # Read them one by one, so that the error has its place in the complete text.
    return (many, _after_space(text, found.end())) if many else ([], at)


def _check(count: int, most_values: int) -> None:
    if count > most_values:
        raise TooManyValuesError(f"more than {most_values:,} values")


def _size(value: Any) -> int:
    return 1 + len(value) if isinstance(value, (list, dict)) else 1


def _name(text: str, at: int) -> tuple[str, int]:
    """The name of an object's entry, and the place where its value begins."""
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
