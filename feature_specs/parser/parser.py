"""Reads a feature spec from YAML or JSON into a frozen `FeatureSpec`.

    spec = feature_specs.load("feature_specs/catalog/adult.yaml")

The parser first checks each entry on its own, and then checks whether the entries fit each other
(`validation`). One `SpecError` lists all problems of a stage, each with its file, line and path.
The parser reads the spec and its vocabulary and statistics files, and never writes. It does not
import TensorFlow, so that a validation takes milliseconds.
"""

from __future__ import annotations

import dataclasses
import itertools
import pathlib
import re
from collections.abc import Mapping
from typing import Any, Optional, Union

import pydantic

from feature_specs.embeddings import pretrained_files
from feature_specs.entry import NAME_PATTERN
from feature_specs.errors import (
    Path,
    Problem,
    SpecError,
    did_you_mean,
    located,
    nearest,
    value_text,
)
from feature_specs.feature import Feature
from feature_specs.heads import HEADS
from feature_specs.kinds import COLUMN_KINDS
from feature_specs.label import Label
from feature_specs.parser.entry_messages import entry_at, field_names, message_of, place_in
from feature_specs.parser.statistics_references import StatisticsReferences
from feature_specs.parser.yaml_reader import LONGEST, Lines, read_text, too_long
from feature_specs.sections.drift_thresholds import NO_DRIFT, Drift, Measures
from feature_specs.sections.filters import Filter
from feature_specs.sections.retraining import NO_RETRAINING, Retraining
from feature_specs.sections.tables import NO_TABLES, Tables
from feature_specs.spec import FeatureSpec
from feature_specs.validation import (
    groups,
    labels,
    ragged,
    validation,
)
from feature_specs.validation import (
    retraining as retraining_validation,
)

_SECTIONS = (
    "features",
    "columns",
    "groups",
    "labels",
    "objectives",
    "raw",
    "ignored",
    "drift",
    "filter",
    "retraining",
    "tables",
)
_OPTIONAL = ("raw", "ignored", "drift", "filter", "retraining", "tables")

# The version of the document format. A spec without `version` has this one.
VERSION = 1


def load(path: Union[str, pathlib.Path]) -> FeatureSpec:
    """Reads the feature spec in a YAML or JSON file.

    The paths of vocabulary and statistics files are relative to the folder of the spec and must
    stay below it. The parser replaces a reference to a statistics file by numbers
    (`statistics_references`).

    Raises:
      SpecError: the file cannot be read, or the spec has mistakes. `problems` lists all of them.
    """
    path = pathlib.Path(path)
    try:
        size = path.stat().st_size
        if size > LONGEST:
            raise SpecError(str(path), [Problem((), too_long(f"{size:,} bytes"))])
        with path.open(encoding="utf-8") as file:
            text = file.read(LONGEST + 1)  # A pipe has no size.
    except SpecError:
        raise
    except (OSError, ValueError) as error:  # Such as a path with a NUL, or invalid UTF-8.
        reason = getattr(error, "strerror", None) or str(error)
        raise SpecError(str(path), [Problem((), f"cannot be read: {reason}")]) from error
    document, lines = read_text(text, str(path))
    return _Parser(str(path), path.parent, lines).spec(document)


def parse(
    document: Mapping[str, Any],
    *,
    directory: Union[str, pathlib.Path] = ".",
    source: str = "<dict>",
) -> FeatureSpec:
    """Reads a feature spec from a dict of the same form as the YAML.

    Args:
      document: the sections `features`, `columns`, `groups`, `labels`, `objectives`, `raw`,
        `ignored`, `drift`, `filter`, `retraining` and `tables`.
      directory: the folder that the paths of vocabulary and statistics files start from.
      source: the name of the document in error messages.

    Raises:
      SpecError: the spec has mistakes. `problems` lists all of them.
    """
    return _Parser(source, pathlib.Path(directory), {}).spec(document)


class _Parser:
    """Reads one document. Collects the problems of a stage and raises them at its end."""

    def __init__(self, source: str, directory: pathlib.Path, lines: Lines):
        self._source = source
        self._directory = directory
        self._lines = lines
        self._problems: list[Problem] = []
        self._references = StatisticsReferences(directory, None)

    def spec(self, document: Any) -> FeatureSpec:
        if not isinstance(document, Mapping):
            self._problem((), f"got {value_text(document)}, expected the sections of a spec")
            self._stop_on_problems()
        self._check_version(document)
        for key in document:
            if key not in (*_SECTIONS, "version"):
                self._problem((key,), f"unknown section{did_you_mean(key, _SECTIONS)}")
        for section in _SECTIONS:
            if section not in document and section not in _OPTIONAL:
                self._problem((), f"the section {section!r} is missing. Add it.")
        self._references = StatisticsReferences(self._directory, document.get("columns"))
        sections = {section: self._section(document, section) for section in _SECTIONS[:5]}
        lists = {section: document.get(section, []) for section in ("raw", "ignored")}
        for section, names in lists.items():
            if not _is_list_of_names(names):
                self._problem((section,), f"got {value_text(names)}, expected a list of features")
        drift = self._read_drift(document.get("drift", {}))
        filters = self._read_filter(document.get("filter", []))
        self._references.check_filter(filters)
        retraining = self._read_retraining(document.get("retraining", {}))
        tables = self._entry(Tables, document.get("tables", {}), ("tables",)) or NO_TABLES
        self._stop_on_problems()
        spec = FeatureSpec(
            **sections,
            raw=tuple(lists["raw"]),
            ignored=tuple(lists["ignored"]),
            drift=drift,
            filter=filters,
            retraining=retraining,
            tables=tables,
            directory=self._directory,
            source=self._source,
            lines=self._lines,
        )
        return self._checked(spec)

    def _check_version(self, document: Mapping[str, Any]) -> None:
        version = document.get("version", VERSION)
        if isinstance(version, bool) or not isinstance(version, int) or version < 1:
            self._problem(("version",), f"got {value_text(version)}, expected {VERSION}")
        elif version > VERSION:
            self._problem(
                ("version",),
                f"the spec has version {version}, but this estimator_kit reads versions up to "
                f"{VERSION}. Upgrade estimator_kit.",
            )
            self._stop_on_problems()  # Other unknown keys may be valid in that version.

    def _checked(self, spec: FeatureSpec) -> FeatureSpec:
        columns = dict(spec.columns)
        for name, column in spec.columns.items():
            read = column.with_files(spec, name)
            if isinstance(read, Problem):
                self._add(read)
            else:
                columns[name] = read
        checks = (
            validation.check_columns,
            validation.check_cycles,
            ragged.check_row_lengths,
            validation.check_lists_of_lists,
            pretrained_files.check_entries,
            groups.check_groups,
            groups.check_raw,
            labels.check_labels,
            labels.check_objectives,
            validation.check_drift,
            validation.check_filter,
            retraining_validation.check_retraining,
        )
        for problem in itertools.chain.from_iterable(check(spec) for check in checks):
            self._add(problem)
        self._stop_on_problems()
        spec = dataclasses.replace(spec, columns=columns)
        # These checks follow names through the spec. Only now is it known that all names exist.
        for check in (
            groups.check_use,
            groups.check_variable_names,
            groups.check_shared_tables,
            groups.check_sequences,
            ragged.check_ragged_groups,
        ):
            for problem in check(spec):
                self._add(problem)
        self._stop_on_problems()
        return spec

    def _section(self, document: Mapping[str, Any], section: str) -> dict[str, Any]:
        entries = document.get(section)
        if section not in document:
            return {}
        if not isinstance(entries, Mapping) or not entries:
            self._problem((section,), f"got {value_text(entries)}, expected names with entries")
            return {}
        read = getattr(self, f"_read_{section}")
        result = {}
        for name, value in entries.items():
            path: Path = (section, name)
            if not isinstance(name, str) or not re.fullmatch(NAME_PATTERN, name):
                self._problem(
                    path,
                    "a name must start with a letter or digit, and may then contain letters, "
                    "digits, _, - and .",
                )
                continue
            entry = read(value, path)
            if entry is not None:
                result[name] = entry
        return result

    def _read_features(self, value: Any, path: Path) -> Optional[Feature]:
        return self._entry(Feature, value, path)

    def _read_labels(self, value: Any, path: Path) -> Optional[Label]:
        return self._entry(Label, value, path)

    def _read_groups(self, value: Any, path: Path) -> Optional[tuple[str, ...]]:
        if not _is_list_of_names(value):
            self._problem(path, f"got {value_text(value)}, expected a list of column names")
            return None
        return tuple(value)

    def _read_columns(self, value: Any, path: Path) -> Any:
        kinds = [key for key in COLUMN_KINDS if isinstance(value, Mapping) and key in value]
        if len(kinds) != 1:
            keys = list(value) if isinstance(value, Mapping) else [value]
            got = f"the kinds {' and '.join(kinds)}" if kinds else value_text(value)
            near = [hint for hint in (nearest(key, COLUMN_KINDS) for key in keys) if hint]
            hint = "" if kinds else near[0] if near else did_you_mean("", COLUMN_KINDS)
            self._problem(path, f"got {got}, expected one column kind, as in {{numeric: x}}{hint}")
            return None
        value = self._references.resolved(value, path)
        if isinstance(value, Problem):
            self._add(value)
            return None
        return self._entry(COLUMN_KINDS[kinds[0]], value, path)

    def _read_objectives(self, value: Any, path: Path) -> Any:
        head = value.get("head") if isinstance(value, Mapping) else None
        if head is None:
            got = value_text(value)
            self._problem(path, f"got {got}, expected a head{did_you_mean('', HEADS)}")
            return None
        if not isinstance(head, str) or head not in HEADS:
            hint = did_you_mean(head, HEADS)
            self._problem((*path, "head"), f"got {value_text(head)}, expected a head{hint}")
            return None
        return self._entry(HEADS[head], value, path)

    def _read_drift(self, value: Any) -> Drift:
        if not isinstance(value, Mapping):
            known = ", ".join(Drift.model_fields)
            self._problem(("drift",), f"got {value_text(value)}, expected a mapping of {known}")
            return NO_DRIFT
        parts: dict[str, Any] = {}
        for key, part in value.items():
            path: Path = ("drift", key)
            if key == "default":
                parts[key] = self._entry(Measures, part, path)
            elif key not in ("features", "labels"):
                self._problem(path, f"unknown key{did_you_mean(key, Drift.model_fields)}")
            elif not isinstance(part, Mapping):
                self._problem(path, f"got {value_text(part)}, expected names with thresholds")
            else:
                read = {name: self._entry(Measures, v, (*path, name)) for name, v in part.items()}
                parts[key] = {name: entry for name, entry in read.items() if entry is not None}
        return Drift(**{key: part for key, part in parts.items() if part is not None})

    def _read_retraining(self, value: Any) -> Retraining:
        return self._entry(Retraining, value, ("retraining",)) or NO_RETRAINING

    def _read_filter(self, value: Any) -> tuple[Filter, ...]:
        if not isinstance(value, (list, tuple)):
            self._problem(
                ("filter",),
                f"got {value_text(value)}, expected a list, as in - {{feature: age, min: 18}}",
            )
            return ()
        entries = [self._entry(Filter, entry, ("filter", i)) for i, entry in enumerate(value)]
        return tuple(entry for entry in entries if entry is not None)

    def _entry(self, model: type[pydantic.BaseModel], value: Any, path: Path) -> Any:
        if not isinstance(value, Mapping):
            fields = ", ".join(field_names(model))
            self._problem(path, f"got {value_text(value)}, expected a mapping of {fields}")
            return None
        try:
            return model.model_validate(dict(value))
        except pydantic.ValidationError as error:
            seen: dict[Path, list[str]] = {}
            for item in error.errors():
                where = place_in(value, item["loc"], missing=item["type"] == "missing")
                message = message_of(model, item, entry_at(value, where[:-1]))
                if message not in seen.setdefault((*path, *where), []):
                    seen[(*path, *where)].append(message)
            for where, messages in seen.items():
                self._problem(where, "; or ".join(messages))
            return None

    def _problem(self, path: Path, message: str) -> None:
        self._add(Problem(path, message))

    def _add(self, problem: Problem) -> None:
        self._problems.append(located(problem.path, problem.message, self._lines))

    def _stop_on_problems(self) -> None:
        if self._problems:
            raise SpecError(self._source, self._problems)


def _is_list_of_names(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value)
