"""Makes the JSON Schema of a feature spec, with which editors complete and check a YAML file.

    python -m feature_specs.json_schema > feature_specs/spec.schema.json

The schema comes from the same models that the parser uses. A test compares the shipped file with
them. The schema describes single entries. It cannot check names that refer to each other; only the
parser does. This module does not import TensorFlow.
"""

from __future__ import annotations

import json
import pathlib
import re
from typing import Any

import pydantic
from pydantic.json_schema import models_json_schema

from feature_specs.entry import NAME_PATTERN
from feature_specs.feature import Feature
from feature_specs.heads import HEADS
from feature_specs.kinds import COLUMN_KINDS, EmbeddingTable
from feature_specs.label import Label
from feature_specs.parser.parser import VERSION
from feature_specs.sections.monitoring import Monitoring
from feature_specs.sections.records import Drift, Filter, Tables
from feature_specs.sections.retraining import Retraining

FILE = pathlib.Path(__file__).with_name("spec.schema.json")

_STATISTICS = {
    "type": "object",
    "additionalProperties": False,
    "required": ["statistics"],
    "properties": {"statistics": {"type": "string"}},
}

# The prefix that pydantic adds to the name of a class, such as `feature_specs__heads__losses__`.
_MODULE = re.compile(r"^feature_specs__(?:[a-z0-9_]+?__)*(?=[A-Z])")

# Short forms that the YAML allows and the models do not: {property: the schema of its short form}.
_SHORT_FORMS: dict[str, dict[str, Any]] = {
    "normalizer": {"const": "log1p"},
    "initializer": {"const": "zeros"},
    "zscore": _STATISTICS,
    "minmax": _STATISTICS,
}

# A bucketized column that takes its boundaries from a statistics file.
_QUANTILES = {
    "type": "object",
    "additionalProperties": False,
    "required": ["bucketized", "quantiles", "statistics"],
    "properties": {
        "bucketized": {"type": "string"},
        "quantiles": {"type": "integer", "minimum": 2},
        "statistics": {"type": "string"},
        "missing": {"const": "own_bucket"},
    },
}


def json_schema() -> dict[str, Any]:
    """The schema, in draft 2020-12, as a dict."""
    models: list[type[pydantic.BaseModel]] = [
        Feature,
        EmbeddingTable,
        *COLUMN_KINDS.values(),
        Label,
        *HEADS.values(),
        Drift,
        Filter,
        Retraining,
        Monitoring,
        Tables,
    ]
    references, definitions = models_json_schema([(model, "validation") for model in models])
    place = {model: reference for (model, _), reference in references.items()}

    def named(*choices: type[pydantic.BaseModel]) -> dict[str, Any]:
        entries = [place[model] for model in choices]
        return {
            "type": "object",
            "minProperties": 1,
            "propertyNames": {"pattern": NAME_PATTERN},
            "additionalProperties": entries[0] if len(entries) == 1 else {"anyOf": entries},
        }

    columns = named(*COLUMN_KINDS.values())
    columns["additionalProperties"]["anyOf"].append(_QUANTILES)
    names = {"type": "array", "items": {"type": "string"}}
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "estimator_kit feature spec",
        "type": "object",
        "additionalProperties": False,
        "required": ["features", "columns", "groups", "labels", "objectives"],
        "properties": {
            "version": {"const": VERSION},
            "features": named(Feature),
            "embedding_tables": named(EmbeddingTable),
            "columns": columns,
            "groups": {"type": "object", "minProperties": 1, "additionalProperties": names},
            "labels": named(Label),
            "objectives": named(*HEADS.values()),
            "raw": names,
            "ignored": names,
            "drift": place[Drift],
            "filter": {"type": "array", "items": place[Filter]},
            "retraining": place[Retraining],
            "monitoring": place[Monitoring],
            "tables": place[Tables],
        },
        "$defs": definitions["$defs"],
    }
    _add_short_forms(schema)
    return _without_modules(schema)


def _without_modules(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with the plain class names as the names of its definitions.

    If two nested classes have the same name, pydantic puts the module before it.
    """
    names = {name: _MODULE.sub("", name) for name in schema["$defs"]}
    assert len(set(names.values())) == len(names), "two classes have the same qualified name"

    def renamed(node: Any) -> Any:
        if isinstance(node, list):
            return [renamed(item) for item in node]
        if not isinstance(node, dict):
            return node
        node = {key: renamed(value) for key, value in node.items()}
        reference = node.get("$ref")
        if isinstance(reference, str):
            node["$ref"] = f"#/$defs/{names[reference.removeprefix('#/$defs/')]}"
        return node

    definitions = {names[name]: entry for name, entry in schema["$defs"].items()}
    result: dict[str, Any] = renamed({**schema, "$defs": definitions})
    return result


def _add_short_forms(node: Any) -> None:
    if isinstance(node, list):
        for item in node:
            _add_short_forms(item)
    elif isinstance(node, dict):
        for name, short in _SHORT_FORMS.items():
            entry = node.get("properties", {}).get(name)
            if entry is not None:
                node["properties"][name] = _with_short_form(entry, short)
        for value in node.values():
            _add_short_forms(value)


def _with_short_form(entry: dict[str, Any], short: dict[str, Any]) -> dict[str, Any]:
    """Allows a single item instead of a list, and the short form instead of an item."""
    about = ("default", "title", "description")
    described: dict[str, Any] = {key: entry[key] for key in about if key in entry}
    if entry.get("type") == "array":
        item = {"anyOf": [short, entry["items"]]}
        return {**described, "anyOf": [item, {"type": "array", "items": item}]}
    rest = {key: value for key, value in entry.items() if key not in described}
    return {**described, "anyOf": [short, rest]}


def text() -> str:
    """The content of the shipped file."""
    return json.dumps(json_schema(), indent=1, sort_keys=True, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    print(text(), end="")
