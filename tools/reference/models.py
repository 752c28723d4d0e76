"""The pages of the built-in models and of what all models take: layers, optimizers, schedules."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tools.reference.docstrings import Docstring, code, escaped, table
from tools.reference.source import (
    FieldText,
    Module,
    docstring_of,
    fields_of,
    params_of,
)

_MODELS = "estimator_kit.models"
# Parameters that many models share have their own section, as long as a model leaves them as they
# are: (title, module, class).
_SHARED = (
    ("All models", "estimator_kit.model.model_params", "ModelParams"),
    ("Models with hidden layers", "estimator_kit.models.dnn", "DNNParams"),
)
# What a parameter may name: (title, module, its table of names).
_CHOICES = (
    ("Optimizers", "estimator_kit.optimizers.kinds", "OPTIMIZERS"),
    ("Schedules", "estimator_kit.optimizers.schedules", "SCHEDULES"),
    ("Combinations of objectives", "estimator_kit.optimizers.combining", "COMBINATIONS"),
)
# Modules whose docstrings say what a parameter takes.
_FORMS = (
    ("Activations", "estimator_kit.models.normalization"),
    ("Initializers", "estimator_kit.models.initializers"),
    ("Regularizers", "estimator_kit.models.layers"),
)


def models_page() -> str:
    """Each model with its formula, its paper and its own parameters."""
    parts = [
        "# Built-in models\n\n"
        "Choose a model with `--model` and set a parameter with `--model_params=name=value`. A "
        "model also takes the [parameters that models share](model_parameters.md).",
        table(
            ("model", "what it is"),
            [(f"[{code(name)}](#{name})", first) for name, first in sorted(_first_lines())],
        ),
    ]
    for name, (module, node) in sorted(Module.load(_MODELS).table("MODELS").items()):
        own = own_fields(module, node)
        parts.append(f"## {name} {{ #{name} }}")
        parts.append(module.docstring.markdown())
        parts.append(f"**{node.name}**: {docstring_of(node).markdown()}")
        if own:
            parts.append(fields_table(own, f"the model {name}"))
    return "\n\n".join(parts) + "\n"


def _first_lines() -> Iterator[tuple[str, str]]:
    for name, (module, _) in Module.load(_MODELS).table("MODELS").items():
        yield name, escaped(_about(module.docstring))


def _about(docstring: Docstring) -> str:
    """The part of a summary behind `The built-in model x:`."""
    before, colon, text = docstring.summary.partition(": ")
    return text if colon and before.startswith("The built-in model") else docstring.summary


def own_fields(module: Module, model: ast.ClassDef) -> list[FieldText]:
    """The parameters of a model that differ from the ones in a shared section."""
    classes = [Module.load(home).find(name) for _, home, name in _SHARED]
    shared = {field for found in classes for field in fields_of(*found)}
    return [field for field in fields_of(*params_of(module, model)) if field not in shared]


def parameters() -> Iterator[tuple[str, list[FieldText]]]:
    """(whose they are, parameters), each parameter once."""
    seen: set[FieldText] = set()
    for title, home, name in _SHARED:
        fields = [field for field in fields_of(*Module.load(home).find(name)) if field not in seen]
        seen.update(fields)
        yield title[0].lower() + title[1:], fields
    for name, (module, node) in sorted(Module.load(_MODELS).table("MODELS").items()):
        yield f"`{name}`", own_fields(module, node)


def parameters_page() -> str:
    """The parameters that models share, and what they may name."""
    parts = [
        "# Parameters that models share\n\n"
        "Set a parameter with `--model_params=name=value`; the value is YAML, as in "
        "`--model_params='optimizer={adam: {beta1: 0.8}}'`."
    ]
    seen: set[str] = set()
    for title, home, name in _SHARED:
        fields = [f for f in fields_of(*Module.load(home).find(name)) if f.name not in seen]
        seen.update(field.name for field in fields)
        parts += [f"## {title}", fields_table(fields, name)]
    for title, home in _FORMS:
        parts += [f"## {title}", Module.load(home).docstring.markdown()]
    for title, home, name in _CHOICES:
        parts += [f"## {title}", Module.load(home).docstring.markdown()]
        for key, (module, node) in Module.load(home).table(name).items():
            parts.append(f"### {key} {{ #{title.split()[0].lower()}-{key} }}")
            about = next((d for d in _docstrings(module, node) if d.summary or d.body), None)
            if about is not None:
                parts.append(about.markdown())
            fields = fields_of(module, node)
            if fields:
                parts.append(fields_table(fields))
    return "\n\n".join(parts) + "\n"


def _docstrings(module: Module, node: ast.ClassDef) -> Iterator[Docstring]:
    """The class's own docstring; then its module's, if the module is about this class."""
    yield docstring_of(node)
    classes = [n for n in module.tree.body if isinstance(n, ast.ClassDef)]
    if len(classes) == 1:
        yield module.docstring


def fields_table(fields: list[FieldText], whose: str = "") -> str:
    """Name, type, default and meaning of each.

    Args:
      whose: if given, a field without a meaning is an error that names it.

    Raises:
      ValueError: a field has no meaning.
    """
    silent = [field.name for field in fields if not field.meaning]
    if whose and silent:
        raise ValueError(
            f"the docstring of {whose} does not say what {', '.join(silent)} means. Add an entry "
            "to its section Attributes."
        )
    head = ("parameter", "type", "default", "meaning")
    with_meaning = any(field.meaning for field in fields)
    rows = [
        (
            code(field.name),
            field.type,
            "required" if field.default is None else code(field.default),
            *([escaped(field.meaning)] if with_meaning else []),
        )
        for field in fields
    ]
    return table(head if with_meaning else head[:-1], rows)
