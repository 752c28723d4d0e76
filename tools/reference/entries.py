"""Sections of the reference for entries of a spec: a pydantic model each, with its fields.

    entry_section(Embedding, "embedding", level=2, examples=examples())

The meaning of a field is its `description`, or an entry of `Attributes` in the docstring of its
class or of a base. Examples are in `spec_examples.yaml`: entries by the name of their class. Each
is checked by its class, and each field has to be in one of them.
"""

from __future__ import annotations

import functools
import inspect
import pathlib
from collections.abc import Mapping
from typing import Any, Optional

import pydantic

from feature_specs.parser.yaml_reader import read_text
from tools.reference.docstrings import Docstring, code, escaped, table
from tools.reference.schema_types import type_text
from tools.reference.source import yaml_text

EXAMPLES = pathlib.Path(__file__).with_name("spec_examples.yaml")
Model = type[pydantic.BaseModel]


@functools.cache
def examples() -> dict[str, list[dict[str, Any]]]:
    """Entries by the name of their class, as the file writes them."""
    return read_text(EXAMPLES.read_text(encoding="utf-8"), EXAMPLES.name)[0]


def options(model: Model) -> Optional[Model]:
    """The model of the options in an entry `{key: {...}}`; None for an entry of another form."""
    fields = list(model.model_fields.values())
    if len(fields) != 1 or not inspect.isclass(fields[0].annotation):
        return None
    inside = fields[0].annotation
    return inside if issubclass(inside, pydantic.BaseModel) else None


def key_of(model: Model, name: str) -> str:
    """How a spec writes a field."""
    return model.model_fields[name].alias or name


def meanings(model: Model) -> dict[str, str]:
    """The description of each field, or its entry in a docstring of the class or its bases."""
    fields = model.model_fields
    found = {name: field.description for name, field in fields.items() if field.description}
    for base in model.__mro__:
        if base.__module__.partition(".")[0] not in ("feature_specs", "estimator_kit"):
            break
        for name, text in Docstring.of(base).attributes.items():
            found.setdefault(name, text)
    return found


def checked_examples(model: Model) -> list[dict[str, Any]]:
    """The examples of a class.

    Raises:
      ValueError: the class refuses one, or they leave out a field.
    """
    written = examples().get(model.__name__, [])
    for entry in written:
        model.model_validate(entry)
    inside = options(model)
    used: set[str] = set()
    for entry in written:
        used.update(next(iter(entry.values())) if inside is not None else entry)
    fields = inside if inside is not None else model
    missing = [key_of(fields, name) for name in fields.model_fields]
    missing = [key for key in missing if key not in used]
    if missing:
        raise ValueError(
            f"{EXAMPLES.name}: {model.__name__} has no example for {', '.join(missing)}. Add an "
            "entry that has it."
        )
    return written


def entry_section(
    model: Model,
    title: str,
    *,
    level: int,
    anchor: str,
    links: Mapping[str, str],
    skip: frozenset[str] = frozenset(),
    special: Optional[Mapping[str, str]] = None,
) -> str:
    """A heading, the docstring, and a table of the fields.

    Args:
      links: see `schema_types.type_text`.
      skip: fields that another place explains.
      special: the types of fields that have another form than their schema tells.
    """
    inside = options(model)
    written = checked_examples(model)
    if inside is not None:
        written = [next(iter(entry.values())) for entry in written]
    fields = fields_table(
        inside if inside is not None else model,
        examples=written,
        links=links,
        skip=skip,
        special=special,
        known=meanings(model),
    )
    heading = f"{'#' * level} {title} {{ #{anchor} }}"
    parts = (heading, Docstring.of(model).markdown(), fields)
    return "\n\n".join(part for part in parts if part)


def fields_table(
    model: Model,
    *,
    examples: list[dict[str, Any]],
    links: Mapping[str, str],
    skip: frozenset[str] = frozenset(),
    special: Optional[Mapping[str, str]] = None,
    known: Optional[Mapping[str, str]] = None,
) -> str:
    """A table of the fields of a class; "" if it has no fields.

    Args:
      examples: entries that together use every field.
      known: meanings that another docstring gives.

    Raises:
      ValueError: a field has no meaning.
    """
    schema = model.model_json_schema()
    texts = {**(known or {}), **meanings(model)}
    rows = []
    for name, field in model.model_fields.items():
        key = key_of(model, name)
        if key in skip:
            continue
        if not texts.get(name):
            raise ValueError(
                f"{model.__module__}.{model.__name__}: the field {key!r} has no meaning. Give it a "
                "description, or an entry in the section Attributes of the docstring."
            )
        rows.append(
            (
                code(key),
                (special or {}).get(key) or type_text(schema["properties"][key], links),
                "required" if field.is_required() else _default(field.get_default()),
                escaped(texts[name]),
                code(f"{key}: {_flow(next(entry[key] for entry in examples if key in entry))}"),
            )
        )
    head = ("field", "type", "default", "meaning", "example")
    return table(head, rows) if rows else ""


def _default(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, pydantic.BaseModel):
        value = value.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return code(yaml_text(value))


def _flow(value: Any) -> str:
    """A value as YAML writes it on one line."""
    if isinstance(value, str) and (not value or value[0] in "-{[*&!%@`?" or ": " in value):
        return f'"{value}"'
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_flow, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_flow(v)}" for key, v in value.items()) + "}"
    return yaml_text(value)
