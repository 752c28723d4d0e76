"""Translates the errors that pydantic finds in an entry into the words and paths of a spec.

This module needs only the models of entries. It does not need a complete spec and does not import
TensorFlow.
"""

from __future__ import annotations

import re
import typing
from collections.abc import Iterator, Mapping
from typing import Any

import pydantic

from feature_specs.errors import Path, Problem, did_you_mean, nearest, value_text

# Types that YAML and pydantic name differently.
_EXPECTED = {"tuple_type": "a list"}


def field_names(model: type[pydantic.BaseModel]) -> list[str]:
    return [field.alias or name for name, field in model.model_fields.items()]


def place_in(value: Any, location: tuple[Any, ...], *, missing: bool) -> Path:
    """The document path of a pydantic location, which also contains names of types."""
    path: list[Any] = []
    for i, part in enumerate(location):
        if isinstance(value, Mapping) and part in value:
            value = value[part]
        elif isinstance(value, (list, tuple)) and isinstance(part, int) and part < len(value):
            value = value[part]
        elif not (missing and i == len(location) - 1):
            continue
        path.append(part)
    return tuple(path)


def entry_at(value: Any, path: Path) -> Any:
    for part in path:
        value = value[part]
    return value


def entry_problems(
    model: type[pydantic.BaseModel],
    value: Mapping[Any, Any],
    error: pydantic.ValidationError,
    path: Path,
) -> list[Problem]:
    """The problems of the entry `value` at `path`, one for each place, without repetitions."""
    messages: dict[Path, dict[str, None]] = {}
    for item in error.errors():
        where = place_in(value, item["loc"], missing=item["type"] == "missing")
        message = message_of(model, item, entry_at(value, where[:-1]))
        messages.setdefault((*path, *where), {})[message] = None
    return [Problem(where, "; or ".join(texts)) for where, texts in messages.items()]


def _known_keys(model: type[pydantic.BaseModel], location: tuple[Any, ...]) -> list[str]:
    """The valid keys of the entry at a pydantic location in `model`."""
    models = [model]
    for part in location:
        fields = [
            field.annotation
            for outer in models
            for name, field in outer.model_fields.items()
            if part == (field.alias or name)
        ]
        # A list position or the tag of a union is not a field and stays at the same model.
        models = [inner for field in fields for inner in _models_in(field)] or models
    return list(dict.fromkeys(name for inner in models for name in field_names(inner)))


def _models_in(annotation: Any) -> Iterator[type[pydantic.BaseModel]]:
    """The models in a type, also inside an Optional, a union, a list or an Annotated."""
    arguments = typing.get_args(annotation)
    for argument in arguments:
        yield from _models_in(argument)
    # In Python 3.9 and 3.10, `tuple[int]` is an instance of `type` but not a class.
    if not arguments and isinstance(annotation, type):
        if issubclass(annotation, pydantic.BaseModel):
            yield annotation


def message_of(model: type[pydantic.BaseModel], item: Any, entry: Any) -> str:
    """The message for a pydantic error. `entry` is the mapping or list around its place."""
    kind, text = item["type"], item["msg"]
    if kind == "missing":
        return "is missing"
    if kind == "extra_forbidden":
        key = item["loc"][-1]
        known = _known_keys(model, item["loc"][:-1])
        # Prefer a key that is not set yet.
        hint = nearest(key, [name for name in known if name not in entry])
        repeated = nearest(key, known, least=0.8)
        if repeated and not hint:
            hint = f"{repeated} It is already set."
        return f"unknown key{hint or did_you_mean('', known)}"
    if kind == "value_error":
        result: str = text.removeprefix("Value error, ")
        return result
    expected = _EXPECTED.get(kind) or text.removeprefix("Input should be ")
    if kind == "model_type":
        known = _known_keys(model, item["loc"])
        expected = f"a mapping of {', '.join(known)}" if known else "{}, because it has no options"
    if kind == "too_short":
        least = item["ctx"]["min_length"]
        expected = f"at least {least} item{'s' if least > 1 else ''}"
    hint = ""
    if kind == "literal_error":
        hint = nearest(item["input"], re.findall(r"'([^']*)'", item["ctx"]["expected"]))
    return f"got {value_text(item['input'])}, expected {expected[0].lower()}{expected[1:]}{hint}"
