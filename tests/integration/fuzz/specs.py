"""Feature specs: their text damaged, their tree changed, and entries drawn from the JSON Schema."""

from __future__ import annotations

import contextlib
import copy
import json
import random
from typing import Any

import yaml

from feature_specs import json_schema
from feature_specs.errors import SpecError
from feature_specs.parser import parser
from tests.integration.fuzz import draws
from tests.integration.fuzz.place import Drawn, Place
from tests.integration.fuzz.start import DOCUMENT

_SCHEMA: dict[str, Any] = json_schema.json_schema()

# The modes that use a valid spec, and how often each is run.
_THEN: tuple[tuple[int, tuple[str, ...]], ...] = (
    (10, ()),
    (3, ("--mode=check_data",)),
    (3, ("--mode=schema", "--schema_file=out.pbtxt")),
    (3, ("--mode=validate", "--validate_rows=20")),
    (1, ("--mode=convert", "--convert_files=table.jsonl", "--convert_dir=out")),
    (6, ("--mode=train", "--model_dir=new")),
    (
        3,
        ("--mode=train", "--model_dir=new", "--model=wide_deep", "--model_params=hidden_units=[4]"),
    ),
    (1, ("--mode=train_and_evaluate", "--model_dir=new")),
)


def draw(rng: random.Random, place: Place) -> Drawn:
    """A spec that is damaged, changed, or valid but unusual."""
    roll = rng.random()
    if roll < 0.15:
        what, content = draws.damaged(rng, place.read("spec.yaml"))
    elif roll < 0.25:
        what, content = _lines_changed(rng, place.read("spec.yaml"))
    else:
        what, document = _document(rng, place, drawn=roll > 0.5)
        content = _written(rng, document)
    place.write("spec.yaml", content)
    if rng.random() < 0.08:
        damage, words = draws.damaged(rng, place.read("words.txt"))
        place.write("words.txt", words)
        what += f"; words.txt: {damage}"
    then = rng.choices([run for _, run in _THEN], [weight for weight, _ in _THEN])[0]
    arguments = ["--flagfile=run.flags", "--mode=validate"]
    return Drawn(arguments, what, then=("--flagfile=run.flags", *then) if then else ())


def _document(rng: random.Random, place: Place, *, drawn: bool) -> tuple[str, Any]:
    """A document with changes. Half of them are drawn until the parser accepts the document.

    So the cases also test the code after the parser.
    """
    takes_any = rng.random() < 0.4
    while True:
        document: Any = copy.deepcopy(DOCUMENT)
        if drawn:
            what = "; ".join(_extended(rng, document) for _ in range(rng.choice((1, 1, 2))))
        else:
            what, document = draws.changed(rng, document)
        if takes_any or document == DOCUMENT:
            return what, document
        try:
            parser.parse(document, directory=place.folder)
        except SpecError:
            continue
        except Exception:  # The fuzz test looks for such cases.
            return what, document
        return what, document


def _lines_changed(rng: random.Random, content: bytes) -> tuple[str, bytes]:
    lines = content.decode().split("\n")
    at, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    what = rng.choice(
        ("indented", "less indented", "swapped", "dropped", "doubled", "a tab", "changed")
    )
    if what == "indented":
        lines[at] = " " * rng.randint(1, 4) + lines[at]
    elif what == "less indented":
        lines[at] = lines[at].lstrip()
    elif what == "swapped":
        lines[at], lines[other] = lines[other], lines[at]
    elif what == "dropped":
        del lines[at]
    elif what == "doubled":
        lines.insert(other, lines[at])
    elif what == "a tab":
        lines[at] = "\t" + lines[at]
    else:
        key = lines[at].partition(":")[0]
        lines[at] = f"{key}: " + rng.choice(("*a", "&a b", "!!python/name:os.system", "!!int x",
                                             "|", ">", "%", "@",
                                             "{", "[", "[" * 200, "{a: " * 100, "- - -", "? x",
                                             "<<: x", "'", '"\\x"',
                                             '"\\ud800"', "0x10", "1_000", "2026-01-01", "~", "---",
                                             "...", "\0", "\x85",
                                             "1e400", "-.inf", "9" * 5000, "\ufeff"))  # fmt: skip
    return f"line {at + 1} {what}", "\n".join(lines).encode("utf-8", "surrogatepass")


def _written(rng: random.Random, document: Any) -> bytes:
    text = json.dumps(document)
    if rng.random() < 0.5:
        with contextlib.suppress(yaml.YAMLError):
            text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True)
    return text.encode("utf-8", "surrogatepass")


def _extended(rng: random.Random, document: dict[str, Any]) -> str:
    """Adds or replaces an entry by one that the schema of specs allows."""
    section = rng.choice(("features", "columns", "columns", "columns", "columns", "labels",
                          "objectives",
                          "objectives", "objectives", "drift", "filter", "retraining",
                          "tables"))  # fmt: skip
    at = _SCHEMA["properties"][section]
    if section in ("drift", "filter", "retraining", "tables"):
        document[section] = _value(rng, at, 0)
        return f"{section} drawn"
    entry = _value(rng, at["additionalProperties"], 0)
    name = rng.choice([*document[section], "new", "new"])
    document[section][name] = entry
    if section == "columns" and name == "new":
        document["groups"][rng.choice(("wide", "deep"))].append("new")
    if section == "features" and name == "new" and rng.random() < 0.7:
        document["columns"]["new"] = {"hash_bucket": "new", "size": 5}
        document["groups"]["wide"].append("new")
    if section == "labels" and name == "new":
        document["objectives"]["new"] = {"head": "regression"}

    return f"{section}.{name} drawn: {entry!r:.300}"


def _value(rng: random.Random, schema: Any, depth: int) -> Any:
    """A value that a schema allows or nearly allows."""
    if not isinstance(schema, dict) or depth > 12:
        return draws.node(rng)
    if "$ref" in schema:
        return _value(rng, _SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]], depth + 1)
    for some in ("anyOf", "oneOf", "allOf"):
        if some in schema:
            return _value(rng, rng.choice(schema[some]), depth + 1)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return rng.choice(schema["enum"])
    if rng.random() < 0.03:
        return draws.node(rng)
    kind = schema.get("type")
    kind = rng.choice(kind) if isinstance(kind, list) else kind
    if kind == "object":
        return _object(rng, schema, depth)
    if kind == "array":
        if "prefixItems" in schema:
            return [_value(rng, item, depth + 1) for item in schema["prefixItems"]]
        return [_value(rng, schema.get("items"), depth + 1) for _ in range(rng.randint(1, 3))]
    if kind == "boolean":
        return rng.random() < 0.5
    if kind == "null":
        return None
    if kind in ("integer", "number"):
        low = schema.get("minimum", schema.get("exclusiveMinimum", -2))
        number: Any = low + rng.choice((0, 1, 1, 2, 3, 5, 10))
        return number if kind == "integer" or rng.random() < 0.4 else number * 0.5 + 0.25
    # Of all strings, only names of features, columns and labels get past the first checks.
    return rng.choice(("price", "city", "tags", "price", "city", "tags", "click", "tag", "city_emb",
                       "user", "buy",
                       "row", "row", "words.txt", "rome", "0.5", "auc", "auc/click", "x",
                       ""))  # fmt: skip


def _object(rng: random.Random, schema: dict[str, Any], depth: int) -> dict[str, Any]:
    properties, needed = schema.get("properties", {}), schema.get("required", ())
    found = {
        name: _value(rng, part, depth + 1)
        for name, part in properties.items()
        if name in needed or rng.random() < min(0.3, 2 / len(properties))
    }
    more = schema.get("additionalProperties")
    if isinstance(more, dict):
        for name in rng.sample(("price", "city", "tags", "click", "x"), rng.randint(0, 2)):
            found[name] = _value(rng, more, depth + 1)
    return found
