"""Converts a `RecordSummary` to bytes and back, for workers on other machines: JSON, never pickle.

    from_bytes(to_bytes(summary))       # merges like the summary itself, to the same statistics

A type that JSON lacks becomes an object with one key, the name of the type. The sketch library
serializes sketches to bytes. Counts keep their order, which decides what a full sketch drops.
"""

from __future__ import annotations

import base64
import json
from collections import Counter
from fractions import Fraction
from typing import Any

from input_pipelines.prepare.analyze.numbers import NumberSummary
from input_pipelines.prepare.analyze.summary import FeatureSummary, RecordSummary
from input_pipelines.prepare.analyze.values import ValueCounter
from input_pipelines.prepare.tables.options import CsvOptions

_CLASSES: dict[str, Any] = {
    kind.__name__: kind
    for kind in (RecordSummary, FeatureSummary, NumberSummary, ValueCounter, CsvOptions)
}


def to_bytes(summary: RecordSummary) -> bytes:
    return json.dumps(_plain(summary), separators=(",", ":"), ensure_ascii=False).encode()


def from_bytes(content: bytes) -> RecordSummary:
    summary = _value(json.loads(content))
    assert isinstance(summary, RecordSummary)
    return summary


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode()}
    if isinstance(value, Fraction):
        # Hexadecimal, because Python refuses decimal numbers of more than 4,300 digits.
        return {"fraction": [f"{value.numerator:x}", f"{value.denominator:x}"]}
    if isinstance(value, (list, tuple)):
        return {type(value).__name__: [_plain(entry) for entry in value]}
    if isinstance(value, dict):
        keys: Any = [_plain(key) for key in value]
        if value and all(isinstance(key, bytes) for key in value):
            keys = {"all bytes": [key.decode("latin-1") for key in value]}
        name = "counter" if isinstance(value, Counter) else "dict"
        return {name: [keys, [_plain(entry) for entry in value.values()]]}
    name = type(value).__name__
    assert _CLASSES.get(name) is type(value), f"{name} has no form in JSON"
    state = value.__getstate__() if "__getstate__" in vars(type(value)) else vars(value)
    return {name: {key: _plain(entry) for key, entry in state.items()}}


def _value(plain: Any) -> Any:
    if not isinstance(plain, dict):
        return plain
    ((name, content),) = plain.items()
    if name == "bytes":
        return base64.b64decode(content)
    if name == "fraction":
        return Fraction(*(int(part, 16) for part in content))
    if name in ("list", "tuple"):
        entries = (_value(entry) for entry in content)
        return tuple(entries) if name == "tuple" else list(entries)
    if name in ("dict", "counter"):
        keys, values = content
        if isinstance(keys, dict):
            keys_of = [key.encode("latin-1") for key in keys["all bytes"]]
        else:
            keys_of = [_value(key) for key in keys]
        pairs = dict(zip(keys_of, map(_value, values)))
        return Counter(pairs) if name == "counter" else pairs
    kind = _CLASSES[name]
    item = kind.__new__(kind)
    state = {key: _value(entry) for key, entry in content.items()}
    if "__setstate__" in vars(kind):
        item.__setstate__(state)
    else:
        vars(item).update(state)
    return item
