"""Lists of names in a flag: none is empty, and none is listed twice. Imports no TensorFlow."""

from __future__ import annotations

from collections.abc import Sequence


def problems(flag: str, names: Sequence[str]) -> list[str]:
    """A line for each empty name, and for each name that is listed again."""
    found = []
    for i, name in enumerate(names):
        if not name:
            found.append(f"--{flag}: got an empty name. Remove it.")
        elif name in names[:i]:
            found.append(f"--{flag}: {name!r} is listed twice. Remove one of them.")
    return found
