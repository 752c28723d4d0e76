"""What a user chooses by name: `adam`, `{adam: {beta1: 0.8}}`, or a class as `package.module:Name`.

Imports no TensorFlow.
"""

from __future__ import annotations

import importlib
import re
import traceback
from collections.abc import Mapping
from typing import Any, TypeVar, Union

import pydantic

from estimator_kit.config import user_errors
from estimator_kit.errors import ConfigError
from feature_specs.errors import did_you_mean

Model = TypeVar("Model", bound=pydantic.BaseModel)


def parse_choice(
    what: str, choice: Union[str, Mapping[str, Any]], models: Mapping[str, type[Model]]
) -> Model:
    """The model with the chosen name, with its fields.

    Args:
      what: the kind of choice, for messages.
      choice: a name, or a mapping from one name to its fields.
      models: by name.

    Raises:
      ConfigError: the name is unknown, or a field is wrong.
    """
    if isinstance(choice, Mapping):
        if len(choice) != 1:
            raise ConfigError(
                f"{what}: expected a name or {{name: {{field: value}}}}, got {dict(choice)}."
            )
        name, fields = next(iter(choice.items()))
    else:
        name, fields = choice, {}
    if name not in models:
        raise ConfigError(f"unknown {what} {name!r}{did_you_mean(str(name), models)}")
    try:
        return models[name].model_validate({} if fields is None else fields)
    except pydantic.ValidationError as error:
        problems = []
        for item in error.errors():
            field = ".".join(map(str, item["loc"]))
            if item["type"] == "extra_forbidden":
                close = did_you_mean(field, models[name].model_fields)
                problems.append(f"unknown field {field!r}{close}")
            elif item["type"] == "missing":
                problems.append(f"{field} is missing")
            else:
                got = f"{field}: got {item['input']!r}, " if field else ""
                message = item["msg"].removeprefix("Value error, ")
                problems.append(got + re.sub("^Input should be ", "expected ", message))
        raise ConfigError(f"{what} {name!r}: {'; '.join(problems)}") from error


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
    module = imported(f"{what} {name!r}: cannot import {module_name!r}", module_name)
    attribute = getattr(module, class_name, None)
    if attribute is None:
        classes = [n for n, c in vars(module).items() if _is_a(c, base)]
        hint = did_you_mean(class_name, classes)
        if module_name == "__main__":
            hint = ". Other processes cannot import a class of a script. Move it to a module."
        raise ConfigError(f"{what} {name!r}: {module_name!r} has no {class_name!r}{hint}")
    if not _is_a(attribute, base):
        raise ConfigError(f"{what} {name!r} is not a subclass of {base_name}. Make it one.")
    kind: type[Base] = attribute
    return kind


def imported(what: str, name: str) -> Any:
    """A module of a user.

    Args:
      what: begins the message of an error in it.
      name: the name of the module.

    Raises:
      ConfigError: it cannot be imported.
    """
    try:
        return importlib.import_module(name)
    except Exception as error:
        if not isinstance(error, (ImportError, ConfigError)) and user_errors.has_status(error):
            raise
        place = user_errors.place_of(error)
        start = f"{place}: {what}" if place is not None else what
        raise ConfigError(f"{start}: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    """Why a module cannot be imported, and the remedy."""
    if "circular import" in str(error):
        frames = traceback.extract_tb(error.__traceback__)
        chain = [f"{f.filename}:{f.lineno}" for f in frames if f.name == "<module>"]
        return (
            f"a circular import by {', then '.join(chain)}: {error}. Move what both modules need "
            "into a third module, or import it inside the function that uses it."
        )
    if isinstance(error, ModuleNotFoundError):
        return f"{error}. Install its package, or put its folder on PYTHONPATH."
    return user_errors.text_of(error) if not isinstance(error, ConfigError) else str(error)


def _is_a(value: object, base: type) -> bool:
    return isinstance(value, type) and issubclass(value, base)
