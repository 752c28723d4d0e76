"""Types of a JSON Schema in words, for tables: `integer, 1 or more`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tools.reference.docstrings import code
from tools.reference.source import one_of, plural, yaml_text

_PLAIN = {
    "boolean": "true or false",
    "integer": "integer",
    "null": "null",
    "number": "number",
    "string": "string",
}
_BOUNDS = {
    "minimum": "{} or more",
    "exclusiveMinimum": "above {}",
    "maximum": "at most {}",
    "exclusiveMaximum": "below {}",
}
# Bounds of what a number can hold; they tell a reader nothing.
_LARGE = 2**53


def type_text(schema: Mapping[str, Any], links: Mapping[str, str]) -> str:
    """A type in words; `null`, which means that the field is left out, is not one of them.

    Args:
      links: Markdown for the definitions that have a section, by the name of their class.
    """
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2].rpartition("__")[2]
        return links.get(name, "mapping")
    if "const" in schema:
        return code(yaml_text(schema["const"]))
    if "enum" in schema:
        return one_of(schema["enum"])
    choices = schema.get("anyOf") or schema.get("oneOf")
    if choices:
        texts = [type_text(item, links) for item in choices if item.get("type") != "null"]
        return " or ".join(dict.fromkeys(texts))
    kind = schema.get("type")
    if kind == "array":
        words = [f"list of {plural(type_text(schema.get('items', {}), links))}"]
        if "minItems" in schema:
            words.append(f"{schema['minItems']} items or more")
        return ", ".join(words)
    if kind == "object":
        values = schema.get("additionalProperties")
        if isinstance(values, dict):
            return f"mapping from names to {plural(type_text(values, links))}"
        return "mapping"
    if kind is None:
        return "any value"
    words = [_PLAIN[kind]]
    for key, text in _BOUNDS.items():
        if key in schema and abs(schema[key]) < _LARGE:
            words.append(text.format(f"{schema[key]:g}" if kind == "number" else schema[key]))
    if kind == "string" and schema.get("minLength"):
        words.append("not empty")
    return ", ".join(words)
