"""Rejects options that cannot be combined with dynamic embeddings, before any graph is built.

`check_model` checks a model and its parameters. The other functions check the flags of a run.
"""

from __future__ import annotations

from typing import Any

from estimator_kit.embeddings import dynamic_package, dynamic_tables
from estimator_kit.errors import ConfigError
from feature_specs.spec import FeatureSpec

# Optimizers whose slots belong to single rows. A second table stores these slots.
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
    """Raises ConfigError if a model has dynamic embeddings but cannot train them.

    It first checks that the package is installed. See `dynamic_package.library`.

    Args:
      model: a `ModelFn`.
    """
    names = dynamic_tables.columns(model.spec)
    if not names:
        return
    column, p = _column(names), model.params
    dynamic_package.library(column)
    for parameter, is_set, why in (
        ("accumulate", p.accumulate > 1, "whose gradients have different rows in each batch"),
        ("moving_average", p.moving_average is not None, "whose rows are added and evicted"),
    ):
        if is_set:
            raise ConfigError(
                f"the model parameter {parameter} cannot be combined with {column}, {why}. Remove "
                "the parameter."
            )
    chosen: list[Any] = [p.optimizer, *(p.optimizers or {}).values()]
    for choice in chosen:
        optimizer = choice if isinstance(choice, str) else next(iter(choice))
        if optimizer not in OPTIMIZERS:
            raise ConfigError(
                f"the optimizer {optimizer} cannot be combined with {column}. Use one of: "
                f"{', '.join(OPTIMIZERS)}."
            )


def check_strategy(spec: FeatureSpec, strategy: Any) -> None:
    """Raises ConfigError for a --strategy whose processes or devices make steps together."""
    names = dynamic_tables.columns(spec)
    if names and strategy not in (None, "parameter_server"):
        raise ConfigError(
            f"--strategy={strategy} cannot be combined with {_column(names)}. Train with one "
            "process, or with --strategy=parameter_server."
        )


def check_transform(export_dir: str, kind: str) -> None:
    """Raises ConfigError for a --transform that would lose the tables of an export."""
    if kind not in ("text", "binary") and dynamic_package.is_dynamic(export_dir):
        raise ConfigError(
            f"--transform={kind} cannot be combined with {export_dir}, which has dynamic "
            "embeddings: their tables cannot become constants of a graph. Use text or binary."
        )


def _column(names: list[str]) -> str:
    return f"the dynamic_embedding {names[0]!r}"
