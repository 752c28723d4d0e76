"""What does not go with dynamic embeddings, said before any graph is built.

`check_model` is of a model and its parameters, the others are of a run's flags.
"""

from __future__ import annotations

from typing import Any

from estimator_kit.embeddings import dynamic_package, dynamic_tables
from estimator_kit.errors import ConfigError
from feature_specs.spec import FeatureSpec

# Optimizers whose slots are of a row each, in a table beside that of the rows.
OPTIMIZERS = (
    "adadelta",
    "adagrad",
    "adam",
    "ftrl",
    "lazy_adam",
    "momentum",
    "rmsprop",
    "sgd",
)


def check_model(model: Any) -> None:
    """Raises ConfigError where a model has dynamic embeddings and cannot train them.

    That the package is there is checked first; see `dynamic_package.library`.

    Args:
      model: a `ModelFn`.
    """
    names = dynamic_tables.columns(model.spec)
    if not names:
        return
    column, p = _column(names), model.params
    dynamic_package.library(column)
    for parameter, given, why in (
        ("accumulate", p.accumulate > 1, "whose gradients are of other rows in each batch"),
        ("moving_average", p.moving_average is not None, "whose rows come and go"),
    ):
        if given:
            raise ConfigError(f"the model parameter {parameter} does not go with {column}, {why}")
    chosen: list[Any] = [p.optimizer, *(p.optimizers or {}).values()]
    for choice in chosen:
        optimizer = choice if isinstance(choice, str) else next(iter(choice))
        if optimizer not in OPTIMIZERS:
            raise ConfigError(
                f"the optimizer {optimizer} does not go with {column}; take one of "
                f"{', '.join(OPTIMIZERS)}"
            )


def check_strategy(spec: FeatureSpec, strategy: Any) -> None:
    """Raises ConfigError for a --strategy in which processes or devices make a step together."""
    names = dynamic_tables.columns(spec)
    if names and strategy not in (None, "parameter_server"):
        raise ConfigError(
            f"--strategy={strategy} does not go with {_column(names)}, whose rows are trained by "
            "one process, or by the processes of --strategy=parameter_server"
        )


def check_transform(export_dir: str, kind: str) -> None:
    """Raises ConfigError for a --transform that would lose the tables of an export."""
    if kind not in ("text", "binary") and dynamic_package.is_dynamic(export_dir):
        raise ConfigError(
            f"--transform={kind} does not go with {export_dir}, which has dynamic embeddings: "
            "their tables cannot be constants of a graph"
        )


def _column(names: list[str]) -> str:
    return f"the dynamic_embedding {names[0]!r}"
