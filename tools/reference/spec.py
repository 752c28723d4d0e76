"""The pages of the feature spec: its sections, columns, and heads with losses and metrics.

Examples are in `spec_examples.yaml`: entries by the name of their class. A test compares them with
the classes.
"""

from __future__ import annotations

import functools
import inspect
import pathlib
import typing
from typing import Any, Optional

import pydantic
import yaml

from estimator_kit.model.heads import CODE, list_losses
from estimator_kit.model.heads import losses as formulas
from feature_specs.feature import Feature
from feature_specs.heads import HEADS, LOSSES, METRICS
from feature_specs.json_schema import json_schema
from feature_specs.kinds import COLUMN_KINDS, EmbeddingTable
from feature_specs.label import Label
from feature_specs.parser.parser import VERSION
from feature_specs.sections.monitoring import Monitoring
from feature_specs.sections.records import Drift, Filter, Tables
from feature_specs.sections.retraining import Retraining
from feature_specs.spec import FeatureSpec
from tools.reference.text import (
    Model,
    about,
    code,
    escaped,
    fields_table,
    first_line,
    meanings,
    table,
    yaml_text,
)

EXAMPLES = pathlib.Path(__file__).with_name("spec_examples.yaml")
_CATALOG = pathlib.Path(__file__).parents[2] / "feature_specs" / "catalog" / "ads.yaml"

SECTIONS: dict[str, Model] = {
    "features": Feature,
    "embedding_tables": EmbeddingTable,
    "labels": Label,
    "filter": Filter,
    "drift": Drift,
    "retraining": Retraining,
    "monitoring": Monitoring,
    "tables": Tables,
}


def options(model: Model) -> Optional[Model]:
    """The class of the options in an entry `{key: {...}}`; None for an entry of another form."""
    (first, *more) = model.model_fields.values()
    inside = first.annotation
    if not more and inspect.isclass(inside) and issubclass(inside, pydantic.BaseModel):
        return inside
    return None


def nested(*models: Model) -> dict[str, Model]:
    """The classes of the values of fields, and of their fields, but no losses.

    A class has the name by which a spec names it, or its own name if a spec does not.
    """
    found: dict[str, Model] = {}
    for model in models:
        fields = (options(model) or model).model_fields.values()
        waiting: list[Any] = [field.annotation for field in fields]
        while waiting:
            kind = waiting.pop(0)
            waiting += typing.get_args(kind)
            is_entry = inspect.isclass(kind) and issubclass(kind, pydantic.BaseModel)
            if is_entry and kind not in LOSSES.values():
                name = [*kind.model_fields] if len(kind.model_fields) == 1 else [kind.__name__]
                found |= {name[0]: kind, **nested(kind)}
    return found


# The classes with a section, by page and title.
ENTRIES: dict[str, dict[str, Model]] = {
    "spec.md": {**SECTIONS, **nested(*SECTIONS.values())},
    "columns.md": {**COLUMN_KINDS, **nested(*COLUMN_KINDS.values())},
    "objectives.md": {**HEADS, **{f"loss-{name}": model for name, model in LOSSES.items()}},
}


@functools.cache
def examples() -> dict[str, list[dict[str, Any]]]:
    """Entries by the name of their class."""
    document: dict[str, list[dict[str, Any]]] = yaml.safe_load(EXAMPLES.read_text(encoding="utf-8"))
    return document


def section(page: str, name: str, more: str = "", level: int = 2) -> str:
    """A heading, the docstring, a table of the fields, and examples."""
    model = ENTRIES[page][name]
    links = {
        other.__name__: f"[{code(title.removeprefix('loss-'))}]({target}#{title})"
        for target, models in ENTRIES.items()
        for title, other in models.items()
    }
    written = "\n".join(f"- {yaml_text(entry)}" for entry in examples()[model.__name__])
    return "\n\n".join(
        [
            f"{'#' * level} {name.removeprefix('loss-')} {{ #{name} }}",
            *filter(None, (about(model), more, fields_table(options(model) or model, links))),
            f"```yaml\n{written}\n```",
        ]
    )


def spec_page() -> str:
    """The document and its sections, but for columns and objectives."""
    places = {**{name: f"#{name}" for name in SECTIONS}, "columns": "columns.md"}
    places["objectives"] = "objectives.md"
    texts = meanings(FeatureSpec)
    rows = [
        (f"[{code(name)}]({places[name]})" if name in places else code(name), escaped(texts[name]))
        for name in json_schema()["properties"]
        if name in texts
    ]
    return "\n\n".join(
        [
            "# Feature spec",
            "A feature spec is a YAML or JSON file that says what a record holds and what the "
            "model learns. Unknown names, values out of range and names that refer to nothing are "
            "errors that name the place. For editors, `feature_specs/spec.schema.json` is a JSON "
            "Schema of the file. Features, columns, groups, labels and objectives are required. "
            f"`version: {VERSION}` is allowed.",
            table(("section", "meaning"), *rows),
            "## A whole spec",
            f"This is `feature_specs/catalog/{_CATALOG.name}`.",
            f"```yaml\n{_CATALOG.read_text(encoding='utf-8').rstrip()}\n```",
            *(section("spec.md", name) for name in ENTRIES["spec.md"]),
        ]
    )


def columns_page() -> str:
    """Each kind of column, normalizers, initializers and pretrained vectors."""
    kinds = [(f"[{code(name)}](#{name})", first_line(kind)) for name, kind in COLUMN_KINDS.items()]
    return "\n\n".join(
        [
            "# Columns",
            "A column turns features into ids or numbers for the model. The kinds have the names "
            "of `tf.feature_column`. An entry of `columns` has the name of its kind as a key: "
            "`user_country_ids: {hash_bucket: user_country, size: 1000}`.",
            table(("kind", "what it is"), *kinds),
            *(section("columns.md", name) for name in ENTRIES["columns.md"]),
        ]
    )


def heads_page() -> str:
    """Heads, losses and metrics."""
    heads = [(f"[{code(name)}](#{name})", first_line(head)) for name, head in HEADS.items()]
    parts = [
        "# Heads, losses and metrics",
        "An entry of `objectives` has a head, which decides what the logits mean: the loss, the "
        "metrics, the predictions and the signatures.",
        table(("head", "what it learns"), *heads),
    ]
    for name in HEADS:
        always = ", ".join(
            f"[{code(each.name)}](#metric-{each.name})" for each in HEADS[name].always
        )
        text = f"{about(CODE[name])}\n\nMetrics that it always has: {always}."
        parts.append(section("objectives.md", name, text))
    parts.append(f"## Losses\n\nLosses of lists, such as `softmax`:\n\n{about(list_losses)}")
    for name in LOSSES:
        functions = (name, f"sigmoid_{name}", f"softmax_{name}")
        described = [getattr(formulas, each) for each in functions if hasattr(formulas, each)]
        text = "\n\n".join(about(each) for each in described if inspect.isfunction(each))
        parts.append(section("objectives.md", f"loss-{name}", text, level=3))
    rows = [
        (
            f'<span id="metric-{name}"></span>{code(name)}',
            escaped(kind.meaning),
            ", ".join(code(head) for head in HEADS if kind in HEADS[head].always),
            ", ".join(code(head) for head in HEADS if name in HEADS[head].metric_field().kinds),
        )
        for name, kind in sorted(METRICS.items())
    ]
    parts += [
        "## Metrics",
        "A run reports a metric as `<metric>/<objective>`, as in `auc/click`. In the formulas w is "
        "the weight of a row, y its label and p its prediction; TP, FP, FN and TN are the weights "
        "of true and false positives and negatives.",
        table(("metric", "meaning", "always with", "if the spec asks, with"), *rows),
    ]
    return "\n\n".join(parts)
