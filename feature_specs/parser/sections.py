"""Reads each section of a spec into its models, one after the other: the closed table `SECTIONS`.

A section or an entry that cannot be read raises `ProblemError`, or adds all problems of the entry
to `Reading.problems`, so that a user sees the problems of the other entries, too. Whether entries
fit each other is checked later (`validation`). The errors that pydantic finds in an entry are
translated into the words and paths of a spec. This module does not import TensorFlow.
"""

from __future__ import annotations

import dataclasses
import json
import re
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Optional

import pydantic

from feature_specs.entry import NAME_PATTERN
from feature_specs.errors import (
    Path,
    Problem,
    ProblemError,
    did_you_mean,
    nearest,
    unknown,
    value_text,
)
from feature_specs.feature import Feature
from feature_specs.heads import HEADS
from feature_specs.kinds import COLUMN_KINDS, Embedding, EmbeddingTable, Growing
from feature_specs.kinds.growing import OPTIONS
from feature_specs.label import Label
from feature_specs.parser.statistics_references import StatisticsReferences
from feature_specs.sections.monitoring import Monitoring
from feature_specs.sections.records import Drift, Filter, Measures, Tables
from feature_specs.sections.retraining import Retraining

# Types that YAML and pydantic name differently.
_EXPECTED = {"tuple_type": "a list"}


def field_names(model: type[pydantic.BaseModel]) -> list[str]:
    return [field.alias or name for name, field in model.model_fields.items()]


def place_in(value: Any, location: tuple[Any, ...], *, missing: bool) -> Path:
    """The document path of a pydantic location, which also contains names of types."""
    path: list[Any] = []
    for i, part in enumerate(location):
        if isinstance(value, Mapping) and part in value:
            value = value[part]
        elif isinstance(value, (list, tuple)) and isinstance(part, int) and part < len(value):
            value = value[part]
        elif not (missing and i == len(location) - 1):
            continue
        path.append(part)
    return tuple(path)


def entry_at(value: Any, path: Path) -> Any:
    for part in path:
        value = value[part]
    return value


def entry_problems(
    model: type[pydantic.BaseModel],
    value: Mapping[Any, Any],
    error: pydantic.ValidationError,
    path: Path,
) -> list[Problem]:
    """The problems of the entry `value` at `path`, one for each place, without repetitions."""
    messages: dict[Path, dict[str, None]] = {}
    for item in error.errors():
        where = place_in(value, item["loc"], missing=item["type"] == "missing")
        message = message_of(model, item, entry_at(value, where[:-1]))
        messages.setdefault((*path, *where), {})[message] = None
    return [Problem(where, "; or ".join(texts)) for where, texts in messages.items()]


def _known_keys(model: type[pydantic.BaseModel], location: tuple[Any, ...]) -> list[str]:
    """The valid keys of the entry at a pydantic location in `model`."""
    models = [model]
    for part in location:
        fields = [
            field.annotation
            for outer in models
            for name, field in outer.model_fields.items()
            if part == (field.alias or name)
        ]
        # A list position or the tag of a union is not a field and stays at the same model.
        models = [inner for field in fields for inner in _models_in(field)] or models
    return list(dict.fromkeys(name for inner in models for name in field_names(inner)))


def _models_in(annotation: Any) -> Iterator[type[pydantic.BaseModel]]:
    """The models in a type, also inside an Optional, a union, a list or an Annotated."""
    arguments = typing.get_args(annotation)
    for argument in arguments:
        yield from _models_in(argument)
    # In Python 3.9 and 3.10, `tuple[int]` is an instance of `type` but not a class.
    if not arguments and isinstance(annotation, type):
        if issubclass(annotation, pydantic.BaseModel):
            yield annotation


def message_of(model: type[pydantic.BaseModel], item: Any, entry: Any) -> str:
    """The message for a pydantic error. `entry` is the mapping or list around its place."""
    kind, text = item["type"], item["msg"]
    if kind == "missing":
        return "is missing"
    if kind == "extra_forbidden":
        key = item["loc"][-1]
        keys = _known_keys(model, item["loc"][:-1])
        # Prefer a key that is not set yet.
        hint = nearest(key, [name for name in keys if name not in entry])
        repeated = nearest(key, keys, least=0.8)
        if repeated and not hint:
            hint = f"{repeated} It is already set."
        return f"unknown key{hint or did_you_mean('', keys)}"
    if kind == "value_error":
        result: str = text.removeprefix("Value error, ")
        return result
    expected = _EXPECTED.get(kind) or text.removeprefix("Input should be ")
    if kind == "model_type":
        keys = _known_keys(model, item["loc"])
        expected = f"a mapping of {', '.join(keys)}" if keys else "{}, because it has no options"
    if kind == "too_short":
        least = item["ctx"]["min_length"]
        expected = f"at least {least} item{'s' if least > 1 else ''}"
    hint = ""
    if kind == "literal_error":
        hint = nearest(item["input"], re.findall(r"'([^']*)'", item["ctx"]["expected"]))
    return f"got {value_text(item['input'])}, expected {expected[0].lower()}{expected[1:]}{hint}"


@dataclasses.dataclass
class Reading:
    """The reading of one document.

    Attributes:
      references: the statistics files that its columns refer to.
      columns: the entries of `columns`, as the document has them.
      tables: the entries of `embedding_tables`; None for one with problems.
      problems: what is wrong so far.
    """

    references: StatisticsReferences
    columns: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    tables: dict[str, Optional[EmbeddingTable]] = dataclasses.field(default_factory=dict)
    problems: list[Problem] = dataclasses.field(default_factory=list)

    def section(self, name: str, value: Any) -> Any:
        """The value of a section as `FeatureSpec` has it; None if nothing of it can be read."""
        return self.attempt(SECTIONS[name].read, value, (name,))

    def attempt(self, read: _Read, value: Any, path: Path) -> Any:
        """The result of `read`, or None if it raises `ProblemError`, whose problem is added."""
        try:
            return read(self, value, path)
        except ProblemError as error:
            self.problems.append(error.problem)
            return None

    def entry(self, model: type[pydantic.BaseModel], value: Any, path: Path) -> Any:
        """One entry of a model, or None if it has problems, which are added."""
        if not isinstance(value, Mapping):
            fields = ", ".join(field_names(model))
            raise ProblemError(path, f"got {value_text(value)}, expected a mapping of {fields}")
        try:
            return model.model_validate(dict(value))
        except pydantic.ValidationError as error:
            self.problems += entry_problems(model, value, error, path)
            return None

    def check_not_set(
        self,
        options: Iterable[str],
        value: Mapping[str, Any],
        other: Mapping[str, Any],
        path: Path,
        place: str,
    ) -> None:
        """Adds a problem for each option that an entry sets, and that it has from `place`."""
        for key in value:
            if key in options:
                where = "says this" if key in other else "is where this belongs"
                remedy = "Remove it here" if key in other else "Write it there instead"
                message = f"{place} {where}. {remedy}: {place}.{key} holds for both."
                self.problems.append(Problem((*path, key), message))


# Reads a value at a path of the document.
_Read = Callable[[Reading, Any, Path], Any]


class Section(NamedTuple):
    """How a section is read, and whether a spec without it is refused."""

    read: _Read
    required: bool = False


def _entry_of(model: type[pydantic.BaseModel]) -> _Read:
    return lambda reading, value, path: reading.entry(model, value, path)


def _columns(reading: Reading, value: Any, path: Path) -> Any:
    reading.columns = value if isinstance(value, Mapping) else {}
    return _named(_column)(reading, value, path)


def _named(read_entry: _Read) -> _Read:
    """Reads a section of names, each with an entry."""

    def read(reading: Reading, value: Any, path: Path) -> dict[str, Any]:
        if not isinstance(value, Mapping) or not value:
            raise ProblemError(path, f"got {value_text(value)}, expected names with entries")
        entries = {}
        for name, entry in value.items():
            if not isinstance(name, str) or not re.fullmatch(NAME_PATTERN, name):
                message = (
                    "a name must start with a letter or digit, and may then contain letters, "
                    "digits, _, - and ."
                )
                reading.problems.append(Problem((*path, name), message))
            else:
                entries[name] = reading.attempt(read_entry, entry, (*path, name))
        return _without_none(entries)

    return read


def _list_of_names(what: str) -> _Read:
    def read(reading: Reading, value: Any, path: Path) -> tuple[str, ...]:
        names = isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value)
        if not names:
            raise ProblemError(path, f"got {value_text(value)}, expected a list of {what}")
        return tuple(value)

    return read


def _column(reading: Reading, value: Any, path: Path) -> Any:
    kinds = [key for key in COLUMN_KINDS if isinstance(value, Mapping) and key in value]
    if len(kinds) != 1:
        if isinstance(value, Mapping) and "dynamic_embedding" in value:
            raise ProblemError(
                path,
                "dynamic_embedding is no longer a kind. Write a column {growing: "
                f"{value['dynamic_embedding']}, rows: 1000000}} and an embedding of it.",
            )
        keys = list(value) if isinstance(value, Mapping) else [value]
        got = f"the kinds {' and '.join(kinds)}" if kinds else value_text(value)
        near = [hint for hint in (nearest(key, COLUMN_KINDS) for key in keys) if hint]
        hint = "" if kinds else near[0] if near else did_you_mean("", COLUMN_KINDS)
        raise ProblemError(path, f"got {got}, expected one column kind, as in {{numeric: x}}{hint}")
    kind = COLUMN_KINDS[kinds[0]]
    if kind is Embedding:
        return _embedding(reading, value, path)
    if kind is Growing:
        return _growing(reading, value, path)
    return reading.entry(kind, reading.references.resolved(value, path), path)


def _growing(reading: Reading, value: Mapping[str, Any], path: Path) -> Any:
    """A growing column. One with `ids_of` gets the options of that column."""
    if value.get("ids_of") is None:
        if "rows" not in value:
            raise ProblemError((*path, "rows"), "is missing. Set it, or ids_of.")
        return reading.entry(Growing, value, path)
    columns = {
        key: entry
        for key, entry in reading.columns.items()
        if isinstance(entry, Mapping) and "growing" in entry and entry.get("ids_of") is None
    }
    name = value["ids_of"]
    if not isinstance(name, str) or name not in columns:
        what = "the name of a growing column without ids_of"
        reading.problems.append(unknown((*path, "ids_of"), name, what, columns))
        return None
    place = f"columns.{name}"
    reading.check_not_set(OPTIONS, value, columns[name], path, place)
    try:
        other = Growing.model_validate(dict(columns[name]))
    except pydantic.ValidationError:
        return None  # Its own entry has the problems.
    return reading.entry(Growing, {**other.model_dump(include={*OPTIONS}), **value}, path)


def _embedding(reading: Reading, value: Mapping[str, Any], path: Path) -> Any:
    """An embedding. One with `table` gets the options of that table."""
    if "shared" in value:
        raise ProblemError((*path, "shared"), _instead_of_shared(value))
    name = value.get("table")
    if name is None:
        if "dimension" not in value:
            raise ProblemError(
                (*path, "dimension"), "is missing. Set it, or table: a name of embedding_tables."
            )
        return reading.entry(Embedding, value, path)
    if not isinstance(name, str) or name not in reading.tables:
        problem = unknown((*path, "table"), name, "a name of embedding_tables", reading.tables)
        if not reading.tables:
            hint = f". Add the section, such as {{{name}: {{dimension: 16}}}}"
            problem = dataclasses.replace(problem, message=problem.message + hint)
        reading.problems.append(problem)
        return None
    table = reading.tables[name]
    if table is None:
        return None
    entry = table.model_dump(mode="json", by_alias=True, exclude_none=True)
    given = table.model_dump(exclude_unset=True)
    reading.check_not_set(
        EmbeddingTable.model_fields, value, given, path, f"embedding_tables.{name}"
    )
    return reading.entry(Embedding, {**entry, **value}, path)


def _instead_of_shared(value: Mapping[str, Any]) -> str:
    if value["shared"] is None:
        return "shared is no longer an option. Remove it."
    options = {key: value[key] for key in EmbeddingTable.model_fields if key in value}
    return (
        "shared is no longer an option. Write the table once, in the section embedding_tables: "
        f"{{{value['shared']}: {_as_yaml(options)}}}; and here {{embedding: {value['embedding']}, "
        f"table: {value['shared']}}}."
    )


def _as_yaml(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key}: {_as_yaml(each)}' for key, each in value.items())}}}"
    return json.dumps(value) if isinstance(value, bool) else str(value)


def _embedding_tables(reading: Reading, value: Any, path: Path) -> Any:
    read = _named(_entry_of(EmbeddingTable))(reading, value, path)
    reading.tables = {name: read.get(name) for name in value}
    return read


def _objective(reading: Reading, value: Any, path: Path) -> Any:
    head = value.get("head") if isinstance(value, Mapping) else None
    if head is None:
        got = value_text(value)
        raise ProblemError(path, f"got {got}, expected a head{did_you_mean('', HEADS)}")
    if not isinstance(head, str) or head not in HEADS:
        hint = did_you_mean(head, HEADS)
        raise ProblemError((*path, "head"), f"got {value_text(head)}, expected a head{hint}")
    return reading.entry(HEADS[head], value, path)


def _drift(reading: Reading, value: Any, path: Path) -> Optional[Drift]:
    if not isinstance(value, Mapping):
        fields = ", ".join(Drift.model_fields)
        raise ProblemError(path, f"got {value_text(value)}, expected a mapping of {fields}")
    parts = {key: reading.attempt(_drift_part, part, (*path, key)) for key, part in value.items()}
    return None if reading.problems else Drift(**_without_none(parts))


def _drift_part(reading: Reading, value: Any, path: Path) -> Any:
    key = path[-1]
    if key == "default":
        return reading.entry(Measures, value, path)
    if key not in ("features", "labels"):
        raise ProblemError(path, f"unknown key{did_you_mean(key, Drift.model_fields)}")
    if not isinstance(value, Mapping):
        raise ProblemError(path, f"got {value_text(value)}, expected names with thresholds")
    measures = _entry_of(Measures)
    return _without_none(
        {name: reading.attempt(measures, entry, (*path, name)) for name, entry in value.items()}
    )


def _filter(reading: Reading, value: Any, path: Path) -> tuple[Filter, ...]:
    if not isinstance(value, (list, tuple)):
        raise ProblemError(
            path, f"got {value_text(value)}, expected a list, as in - {{feature: age, min: 18}}"
        )
    condition = _entry_of(Filter)
    entries = [reading.attempt(condition, entry, (*path, i)) for i, entry in enumerate(value)]
    return tuple(entry for entry in entries if entry is not None)


def _without_none(entries: Mapping[Any, Any]) -> dict[Any, Any]:
    return {name: entry for name, entry in entries.items() if entry is not None}


# The sections of a spec. They are read in this order, in which messages list them, too.
SECTIONS = {
    "features": Section(_named(_entry_of(Feature)), required=True),
    "embedding_tables": Section(_embedding_tables),
    "columns": Section(_columns, required=True),
    "groups": Section(_named(_list_of_names("column names")), required=True),
    "labels": Section(_named(_entry_of(Label)), required=True),
    "objectives": Section(_named(_objective), required=True),
    "raw": Section(_list_of_names("features")),
    "ignored": Section(_list_of_names("features")),
    "drift": Section(_drift),
    "filter": Section(_filter),
    "retraining": Section(_entry_of(Retraining)),
    "monitoring": Section(_entry_of(Monitoring)),
    "tables": Section(_entry_of(Tables)),
}
