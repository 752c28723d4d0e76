"""Writes `how_it_works/meaning.md`: what each value changes, and what each artifact compares.

All of it comes from the declarations in the code, so the page cannot differ from what the kit does.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator

from estimator_kit.config.settings import AREAS
from estimator_kit.config.settings.base import changes_of as of_setting
from feature_specs.entry import Declared
from feature_specs.feature import Feature
from feature_specs.heads.objectives import HEADS
from feature_specs.kinds import COLUMN_KINDS
from feature_specs.label import Label
from feature_specs.meaning import aspects, compared
from feature_specs.sections.drift_thresholds import Drift
from feature_specs.sections.filters import Filter
from feature_specs.sections.retraining import Retraining
from feature_specs.sections.tables import Tables
from tools.reference import models
from tools.reference.docstrings import table

_START = """# What belongs to what

A later run often reads what an earlier run wrote: a checkpoint, a history, a cache. What it reads
has a meaning that shapes and names do not show: a vocabulary in another order has the same size. So
each setting, each field of a spec and each parameter of a model declares what it changes, and each
reader compares what it uses, and nothing else.

## Aspects

What a value changes is an arrow of the way of a record:

![The way of a record from a table to a verdict. Each arrow is an aspect.](../images/meaning.svg)

With everything to the left of an arrow fixed, an aspect decides:
"""

_COMPARED = """
## What is compared

All aspects that a row does not name may change. What an earlier version of the kit did not store
contradicts nothing.
"""

_DECLARED = """
## What each value changes

A path, a glob or the name of a class only points at something. It is "named": what it points at
counts, and not how it is spelled. A parameter of your model that declares nothing counts as
`weights`; see `ek.parameter`.
"""

_SECTIONS: dict[str, type[Declared]] = {
    "features": Feature,
    "labels": Label,
    "filter": Filter,
    "drift": Drift,
    "retraining": Retraining,
    "tables": Tables,
}


def meaning_page() -> str:
    """The page as Markdown."""
    rows = [(c.artifact, _words(c.aspects), c.also, c.otherwise) for c in compared.ALL]
    parts = [
        *(_START, table(("aspect", "decides"), [*_aspects()])),
        *(_COMPARED, table(("artifact", "compares", "and", "if they differ"), rows)),
        *(_DECLARED, table(("value", "changes"), [*_declared()])),
    ]
    return "\n".join(parts) + "\n"


def _aspects() -> Iterator[tuple[str, str]]:
    """The aspects and what they decide, from the docstring that defines them."""
    text = inspect.getdoc(aspects) or ""
    lines = text[text.index("    records") : text.index("A declaration names")]
    for line in lines.strip().splitlines():
        name, _, text = line.strip().partition(" ")
        yield f"`{name}`", text.strip()


def _declared() -> Iterator[tuple[str, str]]:
    for area in AREAS:
        for name in area.model_fields:
            yield f"`--{name}`", _changes(of_setting(area, name))
    kinds = {f"columns.{kind}": model for kind, model in COLUMN_KINDS.items()}
    heads = {f"objectives.{head}": model for head, model in HEADS.items()}
    for section, model in {**_SECTIONS, **kinds, **heads}.items():
        for name, field in model.model_fields.items():
            yield f"`{section}.{field.alias or name}`", _changes(model.changes_of(name))
    for owner, fields in models.parameters():
        for parameter in fields:
            yield f"`--model_params={parameter.name}` of {owner}", _changes(parameter.changes)


def _changes(changes: aspects.Changes) -> str:
    text = _words(name for name in aspects.ASPECTS if name in changes.aspects)
    return f"{text} (named)" if changes.named else text


def _words(names: Iterable[str]) -> str:
    return ", ".join(names) or "nothing"
