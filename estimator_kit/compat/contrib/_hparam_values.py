"""The text of hyperparameters, such as "rate=0.1,units=[8,4]", and the types of their values.

The rules and the words of the errors are as in TensorFlow 1.15.
"""

from __future__ import annotations

import numbers
import re
from collections.abc import Mapping
from typing import Any, NoReturn

_ASSIGNMENT = re.compile(
    r"(?P<name>[a-zA-Z][\w.]*)(?:\[\s*(?P<index>\d+)\s*\])?\s*=\s*"
    r"(?:(?P<value>[^,\[]*)|\[(?P<values>[^\]]*)\])(?:$|,\s*)"
)
_BOOLS = {"true": True, "True": True, "false": False, "False": False}


def parse_values(
    values: str, type_map: Mapping[str, type], ignore_unknown: bool = False
) -> dict[str, Any]:
    """The values in `values`, such as "rate=0.1,units=[8,4],first[2]=3", by name.

    Args:
      values: assignments, separated by commas. A list is in brackets.
      type_map: the type of each name. It is called with the text; a bool is true, false or an
        integer.
      ignore_unknown: skip names that `type_map` does not have.

    Returns:
      A dict. The value is a list for `name=[...]`, and a dict by index for `name[index]=...`.

    Raises:
      ValueError: the text is malformed, has an unknown name, a value of another type, or assigns
        a name twice.
    """
    assigned: dict[str, Any] = {}
    place = 0
    while place < len(values):
        match = _ASSIGNMENT.match(values, place)
        if not match:
            raise ValueError(f"Malformed hyperparameter value: {values[place:]}")
        place = match.end()
        name = match["name"]
        if name not in type_map:
            if ignore_unknown:
                continue
            raise ValueError(f"Unknown hyperparameter type for {name}")
        _assign(assigned, match, type_map[name], values)
    return assigned


def _assign(assigned: dict[str, Any], match: re.Match[str], kind: type, text: str) -> None:
    name, index = match["name"], match["index"]

    def again(variable: str) -> NoReturn:
        raise ValueError(f"Multiple assignments to variable '{variable}' in {text}")

    if match["values"] is not None:
        if index is not None:
            raise ValueError("Assignment of a list to a list index.")
        if name in assigned:
            again(name)
        words = [word for word in re.split("[ ,]", match["values"]) if word]
        assigned[name] = [_value(name, kind, word, match["values"], text) for word in words]
        return
    value = _value(name, kind, match["value"], match["value"], text)
    if index is None:
        if name in assigned:
            again(name)
        assigned[name] = value
        return
    of_list = assigned.setdefault(name, {})
    if not isinstance(of_list, dict):
        again(name)
    if int(index) in of_list:
        again(f"{name}[{index}]")
    of_list[int(index)] = value


def _value(name: str, kind: type, word: str, shown: str, text: str) -> Any:
    try:
        if kind is bool:
            return _BOOLS[word] if word in _BOOLS else bool(int(word))
        return kind(word)
    except ValueError:
        raise ValueError(
            f"Could not parse hparam '{name}' of type '{kind.__name__}' with value '{shown}' in "
            f"{text}"
        ) from None


def cast(name: str, kind: Any, value: Any) -> Any:
    """`value` as `kind`: an integer may become a float; no other change of kind is allowed."""
    if issubclass(kind, type(None)):
        return value
    for group in ((str, bytes), bool, numbers.Integral, numbers.Number):
        if issubclass(kind, group) and not isinstance(value, group):
            break
    else:
        if issubclass(kind, bool) == isinstance(value, bool):
            return kind(value)
    raise ValueError(f"Could not cast hparam '{name}' of type '{kind}' from value {value!r}")
