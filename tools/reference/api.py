"""The page of the Python API: the public names, which mkdocstrings then documents without importing
them."""

from __future__ import annotations

import ast

from tools.reference.docstrings import code, table
from tools.reference.source import Module

# Titles, and which of the names belong there; every public name is in one of them.
_GROUPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Runs", ("run", "ExperimentConfig", "RunResult", "Tracker")),
    ("Models", ("ModelFn", "KerasModelFn", "ModelParams", "parameter", "StepScores")),
    (
        "Layers and optimizers",
        (
            "hidden_layers", "dense_layer", "dnn_logits", "batch_norm", "layer_norm",
            "make_optimizer", "minimize",
        ),
    ),
    ("Specs", ("load_spec", "parse_spec", "FeatureSpec", "feature_columns", "decode_features")),
    (
        "Records and input",
        (
            "write_examples", "write_sequence_examples", "train_input_fn", "eval_input_fn",
            "predict_input_fn", "serving_input_receiver_fn", "make_parse_example_spec",
            "make_parse_sequence_example_spec",
        ),
    ),
    (
        "Errors",
        (
            "SpecError", "ConfigError", "CheckpointError", "DataError", "LossError",
            "NothingToDo", "Stopped", "UnsupportedTensorFlowError",
        ),
    ),
)  # fmt: skip


def public_names() -> dict[str, str]:
    """The public names of the package, and where each is: {name: dotted path}."""
    _, node = Module.load("estimator_kit").find("_HOMES")
    found = {}
    for name, home in ast.literal_eval(node).items():
        module, colon, attribute = home.partition(":")
        found[name] = f"{module}.{attribute if colon else name}"
    return found


def client_names() -> list[str]:
    _, node = Module.load("estimator_kit.client").find("__all__")
    return sorted(ast.literal_eval(node))


def api_page() -> str:
    """The names of `estimator_kit`.

    Raises:
      ValueError: a public name is in no group, or in two.
    """
    homes = public_names()
    grouped = [name for _, names in _GROUPS for name in names]
    if sorted(grouped) != sorted(homes):
        twice = {name for name in grouped if grouped.count(name) > 1}
        wrong = sorted(twice | ({*grouped} ^ {*homes}))
        raise ValueError(f"tools/reference/api.py: put each public name into one group: {wrong}")
    parts = [
        "# Python API",
        "`import estimator_kit as ek`. Importing the package loads no TensorFlow; a name loads "
        "what it needs when you first use it.",
        table(("", "names"), [(title, ", ".join(map(_link, names))) for title, names in _GROUPS]),
    ]
    for title, names in _GROUPS:
        parts.append(f"## {title}")
        parts += [_documented(name, homes[name], f"estimator_kit.{name}") for name in names]
    return "\n\n".join(parts)


def _link(name: str) -> str:
    return f"[{code(name)}](#{name})"


def client_page() -> str:
    """The names of `estimator_kit.client`."""
    names = client_names()
    parts = ["# Client API", Module.load("estimator_kit.client").docstring.markdown()]
    for name in names:
        path = f"estimator_kit.client.{name}"
        parts.append(_documented(name, path, path))
    return "\n\n".join(parts)


def _documented(name: str, path: str, shown: str) -> str:
    return (
        f'<span id="{name}"></span>\n\n::: {path}\n'
        f"    options: {{heading: {shown}, toc_label: {name}}}"
    )
