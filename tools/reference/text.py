"""Docstrings, types and fields of pydantic classes as Markdown.

    fields_table(Embedding)     # a table: field, type, default, meaning

The meaning of a field is its `description`, or its entry in the section `Attributes` of the
docstring of its class or of a base. An entry is `name: text` or `name, name: text`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection, Mapping
from typing import Any, Optional

import pydantic
import yaml

Model = type[pydantic.BaseModel]

_SECTION = re.compile(r"^(?:Attributes|Args|Returns|Raises):$", re.MULTILINE)
_ENTRY = re.compile(r"^( *)(\w+(?:, \w+)*): (.*(?:\n\1 +.*)*)", re.MULTILINE)
# Code and indented blocks stay as they are. In other text, these signs mean themselves.
_SIGN = re.compile(
    r"``.+?``|`[^`]+`|^    [^\n]*|([*<\[\\]|(?<!\w)_|_(?!\w))", re.MULTILINE | re.DOTALL
)
_PLAIN = {"boolean": "true or false", "array": "list", "object": "mapping", None: "any value"}
_BOUNDS = {
    "minimum": "{} or more",
    "exclusiveMinimum": "above {}",
    "maximum": "at most {}",
    "exclusiveMaximum": "below {}",
    "minItems": "{} items or more",
}


def about(documented: Any) -> str:
    """The docstring of a class, function or module without its sections; never an inherited one."""
    return escaped(_SECTION.split(inspect.cleandoc(documented.__doc__ or ""))[0].strip())


def first_line(documented: Any) -> str:
    return re.sub(r"^The built-in models? [^:]*: ", "", about(documented).partition("\n\n")[0])


def escaped(text: str) -> str:
    text = _SIGN.sub(lambda match: f"\\{match[1]}" if match[1] else match[0], text)
    return text.replace("\\<", "&lt;")  # Markdown does not know this escape.


def code(value: object) -> str:
    return f"`` {value} ``" if "`" in str(value) else f"`{value}`"


def table(*lines: tuple[str, ...]) -> str:
    """A Markdown table; the first line is its head."""
    cells = [[" ".join(cell.split()).replace("|", r"\|") for cell in line] for line in lines]
    cells.insert(1, ["---"] * len(lines[0]))
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)


def yaml_text(value: Any) -> str:
    """A value in YAML, on one line."""
    text: str = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=10**6)
    return text.removesuffix("\n").removesuffix("\n...")


def meanings(model: type) -> dict[str, str]:
    """The meaning of each field that has one."""
    texts: dict[str, str] = {}
    for base in reversed(model.__mro__):
        section = inspect.cleandoc(base.__doc__ or "").partition("Attributes:\n")[2]
        for _, names, text in _ENTRY.findall(section):
            texts.update(dict.fromkeys(names.split(", "), text))
    for name, field in getattr(model, "model_fields", {}).items():
        if field.description:
            texts[name] = field.description
    return texts


def fields_table(
    model: Model,
    links: Optional[Mapping[str, str]] = None,
    *,
    only: Optional[Collection[str]] = None,
) -> str:
    """A table of the fields of a class; "" if it has none.

    Args:
      links: see `type_text`.
      only: the fields to show. By default, all.

    Raises:
      ValueError: a field has no meaning.
    """
    schema, texts = model.model_json_schema(), meanings(model)
    rows = []
    for name, field in model.model_fields.items():
        key = field.alias or name
        if only is not None and name not in only:
            continue
        if name not in texts:
            raise ValueError(
                f"{model.__module__}.{model.__qualname__}: the field {key!r} has no meaning. Give "
                "it a description, or an entry in the section Attributes of the docstring."
            )
        kind = type_text(schema["properties"][key], links or {})
        rows.append((code(key), kind, default_text(field), escaped(texts[name])))
    return table(("field", "type", "default", "meaning"), *rows) if rows else ""


def default_text(field: Any) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if isinstance(value, pydantic.BaseModel):
        value = value.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    if isinstance(value, tuple):
        value = list(value)
    return "none" if value in (None, "", [], {}) else code(yaml_text(value))


def type_text(schema: Mapping[str, Any], links: Mapping[str, str]) -> str:
    """The type of a JSON Schema in words: `integer, 1 or more`. `null` is not one of them.

    Args:
      links: Markdown for the definitions that have a section, by the name of their class.
    """
    if "$ref" in schema:
        return links.get(re.split(r"/|__", schema["$ref"])[-1], "mapping")
    if "enum" in schema or "const" in schema:
        return ", ".join(code(yaml_text(v)) for v in schema.get("enum", [schema.get("const")]))
    choices = schema.get("anyOf") or schema.get("oneOf")
    if choices:
        texts = [type_text(item, links) for item in choices if item.get("type") != "null"]
        return " or ".join(dict.fromkeys(texts))
    kind = schema.get("type")
    words = [_PLAIN.get(kind, kind)]
    inside = schema.get("items") or schema.get("additionalProperties")
    if isinstance(inside, dict):
        text = type_text(inside, links)
        words[0] += f" of ({text})" if " " in text else f" of {text}s"
    elif schema.get("required"):
        words[0] = code(f"{{{schema['required'][0]}: ...}}")
    # A bound of what a number can hold tells a reader nothing.
    bounds = {key: schema[key] for key in _BOUNDS if abs(schema.get(key, 2**53)) < 2**53}
    return ", ".join([*words, *(_BOUNDS[key].format(value) for key, value in bounds.items())])
