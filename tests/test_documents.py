"""Every JSON file of the kit is a typed document, and an error for a damaged one names the field.

The documents are found in the code. Their examples and their damage follow from the types of their
fields.
"""

from __future__ import annotations

import ast
import copy
import dataclasses
import datetime
import importlib
import json
import pkgutil
import types
import typing
from typing import Any

import pydantic
import pytest

import estimator_kit
import feature_specs
import input_pipelines
from estimator_kit.errors import ConfigError
from feature_specs.files import documents
from tests.conftest import ROOT

PACKAGES = (feature_specs, input_pipelines, estimator_kit)


def classes(base=documents._Stored) -> set[type]:
    """All classes of files in the kit. Imports every module that the environment can import."""
    if base is documents._Stored:
        for package in PACKAGES:
            for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
                if module.name.endswith(("__main__", "compat.tf1")):  # Imports with an effect.
                    continue
                try:
                    importlib.import_module(module.name)
                except ImportError:  # Of an extra, or of the client's own distribution.
                    continue
    found = set()
    for cls in base.__subclasses__():
        found |= {cls, *classes(cls)}
    own = tuple(package.__name__ for package in PACKAGES)
    return {cls for cls in found if cls.__module__.startswith(own) and "[" not in cls.__name__} - {
        documents.Document,
        documents.Root,
    }


DOCUMENTS = sorted(classes(), key=lambda cls: (cls.__module__, cls.__qualname__))


def types_in(annotation) -> set[Any]:
    """All types in an annotation, also in the fields of its models and dataclasses."""
    found, left = set(), [annotation]
    while left:
        each = left.pop()
        if each in found:
            continue
        found.add(each)
        left += [part for part in typing.get_args(each) if not isinstance(part, (str, int))]
        if isinstance(each, type) and issubclass(each, pydantic.BaseModel):
            left += [field.annotation for field in each.model_fields.values()]
    return found


@pytest.mark.parametrize("cls", DOCUMENTS, ids=lambda cls: cls.__qualname__)
def test_no_field_is_untyped(cls):
    fields = {name: types_in(field.annotation) for name, field in cls.model_fields.items()}
    assert not [name for name, found in fields.items() if Any in found or object in found]


def example(annotation) -> Any:
    """A value of a type, as JSON has it."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Literal:
        return arguments[0]
    if origin in (typing.Union, getattr(types, "UnionType", None)):
        return example(next(each for each in arguments if each is not type(None)))
    if origin is typing.Annotated:
        return example(arguments[0])
    if origin is tuple:
        return [example(each) for each in arguments if each is not ...]
    if origin is dict or getattr(origin, "__name__", "") == "Mapping":
        key = example(arguments[0])
        return {key if isinstance(key, str) else json.dumps(key): example(arguments[1])}
    if origin is not None:
        return [example(arguments[0])]
    if dataclasses.is_dataclass(annotation):
        hints = typing.get_type_hints(annotation, include_extras=True)
        return {field.name: example(hints[field.name]) for field in dataclasses.fields(annotation)}
    if isinstance(annotation, type) and issubclass(annotation, pydantic.RootModel):
        return example(annotation.model_fields["root"].annotation)
    if isinstance(annotation, type) and issubclass(annotation, pydantic.BaseModel):
        return {
            field.alias or name: long_enough(example(field.annotation), field.metadata)
            for name, field in annotation.model_fields.items()
            if not field.exclude
        }
    if annotation is datetime.date:
        return "2026-01-05"
    if annotation is datetime.datetime:
        return "2026-01-05T13:00:00Z"
    return {bool: True, int: 1, float: 0.5, str: "1", pydantic.JsonValue: []}[annotation]


def long_enough(value, metadata) -> Any:
    """The value, repeated as often as a field demands."""
    least = max([getattr(each, "min_length", None) or 1 for each in metadata], default=1)
    return value * least if isinstance(value, list) else value


def leaves(value, path=()) -> list[tuple]:
    """The paths of all values in JSON that hold no other value."""
    if isinstance(value, dict):
        return [leaf for key, each in value.items() for leaf in leaves(each, (*path, key))]
    if isinstance(value, list):
        return [leaf for i, each in enumerate(value) for leaf in leaves(each, (*path, i))]
    return [path]


def holds(written, whole) -> bool:
    """Whether JSON is equal to other JSON, but for fields that are computed when it is written."""
    if isinstance(whole, dict):
        return whole.keys() <= written.keys() and all(holds(written[k], whole[k]) for k in whole)
    if isinstance(whole, list):
        return len(written) == len(whole) and all(map(holds, written, whole))
    return written == whole


@pytest.mark.parametrize("cls", DOCUMENTS, ids=lambda cls: cls.__qualname__)
def test_a_file_is_read_as_it_was_written_and_damage_is_named(cls, tmp_path):
    path = f"{tmp_path}/file.json"
    whole = example(cls)
    text = json.dumps(whole)
    document = cls.of_text(text, path)
    document.save(path)
    again = cls.load(path)
    assert again is not None and again.as_json() == document.as_json()
    with open(path, encoding="utf-8") as file:
        assert holds(json.load(file), whole)
    for leaf in leaves(whole):
        damaged = copy.deepcopy(whole)
        inside = damaged
        for part in leaf[:-1]:
            inside = inside[part]
        if not leaf:
            damaged = {"no": ["value"]}
        else:
            inside[leaf[-1]] = {"no": ["value"]}
        with pytest.raises(ConfigError) as error:
            cls.of_text(json.dumps(damaged), path)
        names = [str(part) for part in leaf if not str(part).isdigit()]
        assert str(error.value).startswith(f"{path}: ")
        assert all(name in str(error.value) for name in names), leaf
        assert cls.remedy in str(error.value)


# Modules that read other JSON than files of the kit: rows and vectors of users, requests and
# answers of servers, what a process writes to another one, and values of flags.
READERS = {
    "estimator_kit/client/record_spec.py",  # Its own distribution, without pydantic.
    "estimator_kit/client/rest_client.py",
    "estimator_kit/checkpoints/run_record.py",
    "estimator_kit/checkpoints/scores_meaning.py",
    "estimator_kit/compat/contrib/_hparams.py",  # JSON of users.
    "estimator_kit/config/cluster.py",
    "estimator_kit/exporters/c_session.py",
    "estimator_kit/exporters/verification.py",
    "estimator_kit/observing/console.py",
    "estimator_kit/serving/json_answers.py",
    "estimator_kit/serving/json_requests.py",
    "estimator_kit/tuning/fork_server.py",
    "estimator_kit/tuning/study.py",
    "input_pipelines/prepare/analyze/summary.py",
    "input_pipelines/prepare/tables/formats/json_lines.py",
    "input_pipelines/prepare/tables/json_files.py",
    "input_pipelines/prepare/tables/json_texts.py",
}


def test_only_documents_read_json():
    reading = set()
    for package in PACKAGES:
        for path in (ROOT / package.__name__).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Attribute) and node.attr in ("loads", "load"):
                    module = getattr(node.value, "id", "")
                    if module in ("json", "orjson"):
                        reading.add(str(path.relative_to(ROOT)))
    assert reading == READERS
