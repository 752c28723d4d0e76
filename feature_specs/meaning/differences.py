"""How what was written differs from what is read: a sentence for each place.

Both sides are values by place, such as `columns.city.size`; see `FeatureSpec.meaning`. This module
compares values only. What follows from a difference is up to the reader of each artifact.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

# A value is shortened to this many characters.
_LONGEST = 200


def differences(kept: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """`columns.city.size: was 20, is 30` for each place with two values, in alphabetical order.

    An entry that only one side has is one sentence.
    """
    entries = _entries(kept), _entries(now)
    found = []
    for place in sorted({*kept, *now}):
        entry = entry_of(place)
        if entry in entries[0] and entry in entries[1]:
            was, is_now = kept.get(place), now.get(place)
            if was != is_now:
                found.append(f"{place}: was {_shown(was)}, is {_shown(is_now)}")
        else:
            was, is_now = (side.get(entry) for side in entries)
            sentence = f"{entry}: was {_shown(was)}, is {_shown(is_now)}"
            if sentence not in found:
                found.append(sentence)
    return found


def entry_of(place: str) -> str:
    """`columns.city` of `columns.city.size`; a setting itself. Names may have dots."""
    first, _, rest = place.partition(".")
    middle, dot, _ = rest.rpartition(".")
    return f"{first}.{middle}" if dot else place


def _entries(values: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for place, value in values.items():
        entry = entry_of(place)
        found.setdefault(entry, {})[place[len(entry) :].lstrip(".") or place] = value
    return found


def _shown(value: Any) -> str:
    if value is None:
        return "absent"
    if isinstance(value, Mapping):
        value = {key: each for key, each in value.items() if each not in (None, False, (), [], {})}
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ..."
