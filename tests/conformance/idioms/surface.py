"""Lists the names that TensorFlow offers to the code of a `model_fn`, by introspection.

Nothing here is a list of names that somebody keeps: a new version of TensorFlow brings new entries,
and `cells` then fails until it can make a model of each one. Base classes are left out, because
nobody calls them; `BASE_CLASSES` says which.
"""

from __future__ import annotations

import inspect
from types import ModuleType
from typing import Any

import tensorflow as tf

# Classes of the surface that are only there to be subclassed or, as InputLayer and Wrapper, are
# made by others.
BASE_CLASSES = {
    "AbstractRNNCell", "InputLayer", "Layer", "Loss", "MeanMetricWrapper", "Metric", "Optimizer",
    "SessionRunHook", "Wrapper",
}  # fmt: skip


def functions(module: ModuleType) -> list[str]:
    """The public functions of a module of TensorFlow."""
    return [name for name, _ in inspect.getmembers(module, inspect.isfunction) if name[0] != "_"]


def classes(module: ModuleType, base: type = object, suffix: str = "") -> list[str]:
    """The public classes of a module: each once, by its own name if the module has it."""
    found: dict[int, str] = {}
    for name, value in inspect.getmembers(module, inspect.isclass):
        if name[0] == "_" or not issubclass(value, base) or not name.endswith(suffix):
            continue
        if name not in BASE_CLASSES and (id(value) not in found or name == value.__name__):
            found[id(value)] = name
    return sorted(found.values())


def layers() -> list[str]:
    """Functions of `tf.compat.v1.layers`."""
    return functions(tf.compat.v1.layers)


def losses() -> list[str]:
    """Functions of `tf.compat.v1.losses` that compute or add a loss."""
    return [name for name in functions(tf.compat.v1.losses) if not name.startswith("get_")]


def metrics() -> list[str]:
    """Functions of `tf.compat.v1.metrics`."""
    return functions(tf.compat.v1.metrics)


def optimizers() -> list[str]:
    """`tf.compat.v1.train.*Optimizer`."""
    return classes(tf.compat.v1.train, suffix="Optimizer")


def hooks() -> list[str]:
    """`train.<class>` of `tf.compat.v1.train`, and what else `tf.estimator` has."""
    base = tf.compat.v1.train.SessionRunHook
    of_train = classes(tf.compat.v1.train, base)
    of_estimator = set(classes(tf.estimator, base)) - set(of_train)
    experimental = tf.estimator.experimental
    made = [name for name in functions(experimental) if name.endswith("_hook")]
    more = [f"experimental.{name}" for name in [*made, *classes(experimental, base)]]
    return [f"train.{name}" for name in of_train] + sorted(of_estimator) + more


def collections() -> list[str]:
    """`tf.compat.v1.GraphKeys`."""
    return [name for name in dir(tf.compat.v1.GraphKeys) if name.isupper() and name[0] != "_"]


def keras_layers() -> list[str]:
    """Classes of `tf.keras.layers`."""
    return classes(tf.keras.layers, tf.keras.layers.Layer)


def keras_metrics() -> list[str]:
    """Classes of `tf.keras.metrics`."""
    return classes(tf.keras.metrics, tf.keras.metrics.Metric)


def keras_losses() -> list[str]:
    """Classes of `tf.keras.losses`."""
    return classes(tf.keras.losses, tf.keras.losses.Loss)


def lookup_tables() -> list[str]:
    """Classes of `tf.lookup` that are tables, by their path there."""
    found = [f"experimental.{name}" for name in classes(tf.lookup.experimental, suffix="Table")]
    return [*classes(tf.lookup, suffix="Table"), *found]


def required(function: Any) -> list[str]:
    """The names of the parameters that have no default."""
    parameters = inspect.signature(function).parameters.values()
    plain = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [p.name for p in parameters
            if p.default is p.empty and p.kind in plain and p.name != "self"]  # fmt: skip


def accepts(function: Any, name: str) -> bool:
    """Whether a function has a parameter."""
    return name in inspect.signature(function).parameters
