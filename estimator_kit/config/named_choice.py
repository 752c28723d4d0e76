"""Choices by name with typed fields: `adam` or `{adam: {beta1: 0.8}}`. Imports no TensorFlow."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeVar, Union

import pydantic

from estimator_kit.errors import ConfigError
from feature_specs.errors import did_you_mean

Model = TypeVar("Model", bound=pydantic.BaseModel)


def parse_choice(
    what: str, choice: Union[str, Mapping[str, Any]], known: Mapping[str, type[Model]]
) -> Model:
    """The model with the chosen name, with its fields.

    Args:
      what: the kind of choice, for messages.
      choice: a name, or a mapping from one name to its fields.
      known: the models by name.

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
    if name not in known:
        raise ConfigError(f"unknown {what} {name!r}{did_you_mean(str(name), known)}")
    try:
        return known[name].model_validate({} if fields is None else fields)
    except pydantic.ValidationError as error:
        problems = []
        for item in error.errors():
            field = ".".join(map(str, item["loc"]))
            if item["type"] == "extra_forbidden":
                close = did_you_mean(field, known[name].model_fields)
                problems.append(f"unknown field {field!r}{close}")
            elif item["type"] == "missing":
                problems.append(f"{field} is missing")
            else:
                got = f"{field}: got {item['input']!r}, " if field else ""
                message = item["msg"].removeprefix("Value error, ")
                problems.append(got + re.sub("^Input should be ", "expected ", message))
        raise ConfigError(f"{what} {name!r}: {'; '.join(problems)}") from error
