"""The pages of the built-in models and of what all models take: layers, optimizers, schedules."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from estimator_kit.model.model_params import ModelParams
from estimator_kit.models import MODELS, initializers, layers, normalization
from estimator_kit.models.dnn import DNNParams
from estimator_kit.optimizers import combining, kinds, schedules
from tools.reference.text import Model, about, code, fields_table, first_line, meanings, table

# What a parameter may name: the title, the module, and its classes by name.
_CHOICES = (
    ("Optimizers", kinds, kinds.OPTIMIZERS),
    ("Schedules", schedules, schedules.SCHEDULES),
    ("Combinations of objectives", combining, combining.COMBINATIONS),
)

# What a parameter takes: the title, and the module whose docstring says it.
_FORMS = (
    ("Activations", normalization),
    ("Initializers", initializers),
    ("Regularizers", layers),
)


def parameters() -> Iterator[tuple[str, Model, list[str]]]:
    """(whose they are, the class, the names of its parameters that differ from shared ones)."""
    shared: list[object] = []
    classes = {"all models": ModelParams, "models with hidden layers": DNNParams}
    classes.update((f"`{name}`", model.Params) for name, model in sorted(MODELS.items()))
    for whose, kind in classes.items():
        schema, texts = kind.model_json_schema()["properties"], meanings(kind)
        fields = {name: (name, schema[name], texts[name]) for name in kind.model_fields}
        yield whose, kind, [name for name, field in fields.items() if field not in shared]
        if kind in (ModelParams, DNNParams):
            shared += fields.values()


def models_page() -> str:
    """Each model with its formula, its paper and its own parameters."""
    rows = [
        (f"[{code(name)}](#{name})", first_line(model)) for name, model in sorted(MODELS.items())
    ]
    parts = [
        "# Built-in models",
        "Choose a model with `--model` and set a parameter with `--model_params=name=value`. A "
        "model also takes the [parameters that models share](model_parameters.md).",
        table(("model", "what it is"), *rows),
    ]
    own = {whose: fields_table(kind, only=names) for whose, kind, names in parameters()}
    for name, model in sorted(MODELS.items()):
        parts += [f"## {name} {{ #{name} }}", about(model), own[f"`{name}`"]]
    return "\n\n".join(filter(None, parts))


def parameters_page() -> str:
    """The parameters that models share, and what they may name."""
    parts = [
        "# Parameters that models share",
        "Set a parameter with `--model_params=name=value`; the value is YAML, as in "
        "`--model_params='optimizer={adam: {beta1: 0.8}}'`.",
    ]
    for whose, kind, names in parameters():
        if kind in (ModelParams, DNNParams):
            parts += [f"## {whose.capitalize()}", fields_table(kind, only=names)]
    for title, module in _FORMS:
        parts += [f"## {title}", about(module)]
    for title, module, choices in _CHOICES:
        parts += [f"## {title}", about(module)]
        for name, kind in choices.items():
            parts.append(f"### {name} {{ #{title.split()[0].lower()}-{name} }}")
            own_module = kind.__module__ != module.__name__
            parts.append(about(kind) or (about(sys.modules[kind.__module__]) if own_module else ""))
            parts.append(fields_table(kind))
    return "\n\n".join(filter(None, parts))
