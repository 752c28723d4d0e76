"""The pages of the feature spec: its sections, columns, and heads with losses and metrics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from feature_specs import encoded_bytes
from feature_specs.feature import Feature
from feature_specs.heads import losses, metric_meanings
from feature_specs.heads.objectives import HEADS
from feature_specs.json_schema import json_schema
from feature_specs.kinds import COLUMN_KINDS, embedding_tables, normalizers
from feature_specs.label import Label
from feature_specs.sections import drift_thresholds, filters, retraining, tables
from feature_specs.spec import FeatureSpec
from tools.reference.docstrings import Docstring, code, escaped, table
from tools.reference.entries import (
    Model,
    checked_examples,
    entry_section,
    fields_table,
    key_of,
)
from tools.reference.source import ROOT, Module, docstring_of

_CATALOG = "feature_specs/catalog/ads.yaml"
_LOSSES: tuple[Model, ...] = losses.Loss.__args__  # type: ignore[attr-defined]

# Entries with their own section: (level of the heading, title, class). An empty title, and one that
# ends in a colon, is completed by the key of the entry.
_SPEC_ENTRIES: tuple[tuple[int, str, Model], ...] = (
    (2, "Features", Feature),
    (3, "decode: ", encoded_bytes.Raw),
    (3, "decode: ", encoded_bytes.Image),
    (2, "Labels", Label),
    (2, "Filter", filters.Filter),
    (2, "Drift", drift_thresholds.Drift),
    (3, "Measures of drift", drift_thresholds.Measures),
    (3, "Thresholds of drift", drift_thresholds.Thresholds),
    (2, "Retraining", retraining.Retraining),
    (3, "Bounds for label rates", retraining.LabelRate),
    (3, "Bounds for the rows of a day", retraining.DayRows),
    (3, "Gate", retraining.Gate),
    (3, "Conditions of the gate", retraining.Condition),
    (3, "Bootstrap", retraining.Bootstrap),
    (2, "Tables", tables.Tables),
)
_COLUMN_ENTRIES: tuple[tuple[int, str, Model], ...] = (
    *((2, "", kind) for kind in COLUMN_KINDS.values()),
    *(
        (3, "normalizer: ", model)
        for model in (normalizers.Log1p, normalizers.ZScore, normalizers.MinMax, normalizers.Clip)
    ),
    *(
        (3, "initializer: ", model)
        for model in (
            embedding_tables.Zeros,
            embedding_tables.TruncatedNormal,
            embedding_tables.Normal,
            embedding_tables.Uniform,
        )
    ),
    (3, "Pretrained vectors", embedding_tables.Pretrained),
)
# Fields that every head has; the page says them once.
_OF_ALL_HEADS = frozenset({"head", "label", "loss_weight", "reduction"})


def models() -> Iterator[Model]:
    """Every class that has a section, for tests."""
    yield from (model for _, _, model in (*_SPEC_ENTRIES, *_COLUMN_ENTRIES))
    yield from HEADS.values()
    yield from _LOSSES


def _key(model: Model) -> str:
    """The one key of an entry `{key: ...}`, or the key by which a column names its kind."""
    return str(getattr(model, "kind", None) or key_of(model, next(iter(model.model_fields))))


def _title(title: str, model: Model) -> str:
    return f"{title}{_key(model)}" if not title or title.endswith(": ") else title


def _anchor(title: str, model: Model) -> str:
    return _title(title, model).lower().replace(": ", "-").replace(" ", "-")


def links(page: str) -> dict[str, str]:
    """Markdown for each class with a section, as the page with this name links to it."""
    found = {}
    for target, entries in (("spec.md", _SPEC_ENTRIES), ("columns.md", _COLUMN_ENTRIES)):
        path = "" if target == page else target
        for _, title, model in entries:
            shown = code(_key(model)) if not title or title.endswith(": ") else title.lower()
            found[model.__name__] = f"[{shown}]({path}#{_anchor(title, model)})"
    path = "" if page == "objectives.md" else "objectives.md"
    for model in _LOSSES:
        found[model.__name__] = f"[{code(_key(model))}]({path}#loss-{_key(model)})"
    return found


def _sections(page: str, entries: tuple[tuple[int, str, Model], ...]) -> Iterator[str]:
    known = links(page)
    for level, title, model in entries:
        yield entry_section(
            model,
            _title(title, model),
            level=level,
            anchor=_anchor(title, model),
            links=known,
        )


def spec_page() -> str:
    """The document and its sections, but for columns and objectives."""
    schema = json_schema()
    meanings = Docstring.of(FeatureSpec).attributes
    places = {
        "features": "#features",
        "columns": "columns.md",
        "labels": "#labels",
        "objectives": "objectives.md",
        "filter": "#filter",
        "drift": "#drift",
        "retraining": "#retraining",
        "tables": "#tables",
    }
    rows = [
        (
            f"[{code(name)}]({places[name]})" if name in places else code(name),
            "required" if name in schema["required"] else "optional",
            escaped(meanings.get(name, "")) or f"`{schema['properties'][name].get('const')}`",
        )
        for name in schema["properties"]
    ]
    example = (ROOT / _CATALOG).read_text(encoding="utf-8").rstrip()
    return "\n\n".join(
        [
            "# Feature spec",
            "A feature spec is a YAML or JSON file that says what a record holds and what the "
            "model learns. Unknown names, values out of range and names that refer to nothing are "
            "errors that name the place. For editors, `feature_specs/spec.schema.json` is a JSON "
            "Schema of the file.",
            table(("section", "", "meaning"), rows),
            "## A whole spec",
            f"This is `{_CATALOG}`.",
            f"```yaml\n{example}\n```",
            *_sections("spec.md", _SPEC_ENTRIES),
        ]
    )


def columns_page() -> str:
    """Each kind of column, normalizers, initializers and pretrained vectors."""
    kinds = [
        (f"[{code(name)}](#{name})", escaped(Docstring.of(kind).summary))
        for name, kind in COLUMN_KINDS.items()
    ]
    return "\n\n".join(
        [
            "# Columns",
            "A column turns features into ids or numbers for the model. The kinds have the names "
            "of `tf.feature_column`. An entry of `columns` has the name of its kind as a key: "
            "`user_country_ids: {hash_bucket: user_country, size: 1000}`.",
            table(("kind", "what it is"), kinds),
            *_sections("columns.md", _COLUMN_ENTRIES),
        ]
    )


def heads_page() -> str:
    """Heads, losses and metrics."""
    heads = [
        (f"[{code(name)}](#{name})", escaped(Docstring.of(head).summary))
        for name, head in HEADS.items()
    ]
    parts = [
        "# Heads, losses and metrics",
        "An entry of `objectives` has a head, which decides what the logits mean: the loss, the "
        "metrics, the predictions and the signatures.",
        table(("head", "what it learns"), heads),
        "## All heads",
        fields_table(
            HEADS["binary"],
            examples=checked_examples(HEADS["binary"]),
            links=links("objectives.md"),
            skip=frozenset(HEADS["binary"].model_fields) - _OF_ALL_HEADS,
        ),
    ]
    for name, head in HEADS.items():
        parts.append(
            entry_section(
                head,
                name,
                level=2,
                anchor=name,
                links=links("objectives.md"),
                skip=_OF_ALL_HEADS,
                special=_special(head),
            )
        )
        parts.append(_objective_text(name))
        always = ", ".join(_metric_link(metric) for metric in metric_meanings.ALWAYS[name])
        parts.append(f"Metrics that it always has: {always}.")
    parts += ["## Losses", *_loss_sections(), "## Metrics", *_metric_parts()]
    return "\n\n".join(part for part in parts if part)


def _special(head: Model) -> dict[str, str]:
    """The types of the fields `loss` and `metrics`, with links."""
    properties = head.model_json_schema()["properties"]
    found = {}
    if "loss" in properties:
        names = properties["loss"]["anyOf"][0]["enum"]
        found["loss"] = ", ".join(f"[{code(name)}](#loss-{name})" for name in names)
    if "metrics" in properties:
        found["metrics"] = "list of " + ", ".join(
            _metric_link(name) for name in _metric_names(properties["metrics"])
        )
    return found


def _metric_names(schema: Mapping[str, Any]) -> list[str]:
    names: list[str] = []
    for item in schema["items"]["anyOf"]:
        names += item["enum"] if "enum" in item else item["required"]
    return sorted(names)


def chosen_metrics(head: Model) -> list[str]:
    """The metrics that a head has when a spec asks for them."""
    schema = head.model_json_schema()["properties"].get("metrics")
    return [] if schema is None else _metric_names(schema)


def _metric_link(name: str) -> str:
    return f"[{code(name)}](#metric-{name})"


def _objective_text(head: str) -> str:
    """What the class that computes a head says of it."""
    _, node = Module.load("estimator_kit.model.objectives").table("_BY_HEAD")[head]
    return docstring_of(node).markdown()


def _loss_sections() -> Iterator[str]:
    functions = Module.load("estimator_kit.model.objectives.losses").functions()
    lists = Module.load("estimator_kit.model.objectives.list_losses").docstring.markdown()
    of_lists: list[Model] = []
    for model in _LOSSES:
        name = _key(model)
        formulas = [text for key, text in functions.items() if key in (name, *_forms(name))]
        if not formulas:
            of_lists.append(model)
            continue
        yield _loss_section(model)
        yield from (text.markdown() for text in formulas)
    yield "### Losses of lists\n\n" + lists
    for model in of_lists:
        yield _loss_section(model, level=4)


def _forms(name: str) -> tuple[str, str]:
    return f"sigmoid_{name}", f"softmax_{name}"


def _loss_section(model: Model, level: int = 3) -> str:
    return entry_section(
        model, _key(model), level=level, anchor=f"loss-{_key(model)}", links=links("objectives.md")
    )


def _metric_parts() -> Iterator[str]:
    yield (
        "A run reports a metric as `<metric>/<objective>`, as in `auc/click`. In the formulas w is "
        "the weight of a row, y its label and p its prediction; TP, FP, FN and TN are the weights "
        "of true and false positives and negatives."
    )
    rows = []
    for name, text in sorted(metric_meanings.MEANINGS.items()):
        always = [head for head, names in metric_meanings.ALWAYS.items() if name in names]
        asked = [head for head in HEADS if name in chosen_metrics(HEADS[head])]
        rows.append(
            (
                f'<span id="metric-{name}"></span>{code(name)}',
                escaped(text),
                ", ".join(map(code, always)),
                ", ".join(map(code, asked)),
            )
        )
    yield table(("metric", "meaning", "always with", "if the spec asks, with"), rows)
