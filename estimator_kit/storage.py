"""Untyped JSON files; see `feature_specs.files.documents` for typed ones."""

from __future__ import annotations

import json
from typing import Any, Optional, Union

import pydantic

from estimator_kit.errors import ConfigError
from feature_specs.files import documents, file_systems


class Form(pydantic.BaseModel):
    """The base class for objects in files; a later version may have written more fields."""

    model_config = pydantic.ConfigDict(extra="allow", strict=True, protected_namespaces=())


def read_json(path: str, form: Any = None) -> Optional[Any]:
    """The value in a JSON file, or None if the file does not exist."""
    if not file_systems.exists(path):
        return None
    documents.check_is_file(path)
    text = file_systems.read(path) or b""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is not JSON: {error}. Repair or remove it.") from error
    problem = form_problem(text, form) if form is not None else None
    if problem is not None:
        raise ConfigError(f"{path}: {problem}. Repair or remove it.")
    return value


def read_json_lines(path: str, form: Any) -> list[Any]:
    """The values of a file with one JSON value on each line; empty if the file does not exist."""
    if not file_systems.exists(path):
        return []
    documents.check_is_file(path)
    lines = (file_systems.read(path) or b"").splitlines()
    for number, line in enumerate(lines, start=1):
        problem = form_problem(line, form)
        if problem is not None:
            raise ConfigError(f"{path}:{number}: {problem}. Repair or remove the line.")
    return [json.loads(line) for line in lines]


def form_problem(text: Union[str, bytes], form: Any) -> Optional[str]:
    """Where JSON differs from a form, or None if it does not."""
    try:
        pydantic.TypeAdapter(form).validate_json(text, strict=True)
    except pydantic.ValidationError as error:
        return documents.problem_of(error)
    return None
