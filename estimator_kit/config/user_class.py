"""Loads a class that a user names as `package.module:ClassName`. Imports no TensorFlow."""

from __future__ import annotations

import importlib
from typing import TypeVar

from estimator_kit.errors import ConfigError
from feature_specs.errors import did_you_mean

Base = TypeVar("Base")


def find(what: str, name: str, base: type[Base], *, base_name: str, example: str) -> type[Base]:
    """The class with a name.

    Args:
      what: the kind of class, for messages, such as `model`.
      name: `package.module:ClassName`.
      base: the class of which it must be a subclass.
      base_name: how a user imports `base`.
      example: a name for the message.

    Raises:
      ConfigError: the class does not exist, cannot be imported, or is not a subclass of `base`.
    """
    module_name, _, class_name = name.partition(":")
    if not module_name or not class_name or module_name.startswith("."):
        raise ConfigError(f"{what} {name!r}: expected package.module:ClassName, as in {example}")
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise ConfigError(
            f"{what} {name!r}: cannot import {module_name!r}: {error}. "
            "Install its package, or put its folder on PYTHONPATH."
        ) from error
    found = getattr(module, class_name, None)
    if found is None:
        classes = [n for n, c in vars(module).items() if _is_a(c, base)]
        hint = did_you_mean(class_name, classes)
        if module_name == "__main__":
            hint = ". Other processes cannot import a class of a script. Move it to a module."
        raise ConfigError(f"{what} {name!r}: {module_name!r} has no {class_name!r}{hint}")
    if not _is_a(found, base):
        raise ConfigError(f"{what} {name!r} is not a subclass of {base_name}. Make it one.")
    return found


def _is_a(value: object, base: type) -> bool:
    return isinstance(value, type) and issubclass(value, base)
