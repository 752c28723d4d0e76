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
from collections.abc import Mapping
from typing import Any, Union

from feature_specs.embeddings import pretrained_files
from feature_specs.errors import Problem, ProblemError, SpecError, did_you_mean, located, value_text
from feature_specs.parser.sections import SECTIONS, Reading
from feature_specs.parser.statistics_references import StatisticsReferences
from feature_specs.parser.stored_form import stored_form
from feature_specs.parser.yaml_reader import LONGEST, Lines, read_text, too_long
from feature_specs.spec import FeatureSpec
from feature_specs.validation import groups, labels, validation

# The version of the document format. A spec without `version` has this one.
VERSION = 1


def load(path: Union[str, pathlib.Path], *, stored: bool = False) -> FeatureSpec:
    """Reads the feature spec in a YAML or JSON file.

    The paths of vocabulary and statistics files are relative to the folder of the spec and must
    stay below it. The parser replaces a reference to a statistics file by numbers
    (`statistics_references`).

    Args:
      path: the file.
      stored: whether the kit wrote it. Then it may have the form of an earlier release. The file
        `feature_spec/spec.json` of a model directory or an export is always such a file.

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
    except SpecError:  # It is a ValueError, and already says what is wrong.
        raise
    except (OSError, ValueError) as error:  # Such as a path with a NUL, or invalid UTF-8.
        reason = getattr(error, "strerror", None) or str(error)
        raise SpecError(str(path), [Problem((), f"cannot be read: {reason}")]) from error
    document, lines = read_text(text, str(path))
    stored = stored or path.parts[-2:] == ("feature_spec", "spec.json")
    if stored and isinstance(document, dict):
        document = stored_form(document)
    return _Parser(str(path), path.parent, lines).spec(document)


def parse(
    document: Mapping[str, Any],
    *,
    directory: Union[str, pathlib.Path] = ".",
    source: str = "<dict>",
) -> FeatureSpec:
    """Reads a feature spec from a dict of the same form as the YAML.

    Args:
      document: the sections `features`, `embedding_tables`, `columns`, `groups`, `labels`,
        `objectives`, `raw`, `ignored`, `drift`, `filter`, `retraining`, `monitoring` and `tables`.
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

    def spec(self, document: Any) -> FeatureSpec:
        if not isinstance(document, Mapping):
            message = f"got {value_text(document)}, expected the sections of a spec"
            raise self._error([Problem((), message)])
        references = StatisticsReferences(self._directory, document.get("columns"))
        reading = Reading(references)
        self._check_version(document, reading.problems)
        for key in document:
            if key not in (*SECTIONS, "version"):
                message = f"unknown section{did_you_mean(key, SECTIONS)}"
                reading.problems.append(Problem((key,), message))
        for name, section in SECTIONS.items():
            if section.required and name not in document:
                message = f"the section {name!r} is missing. Add it."
                reading.problems.append(Problem((), message))
        sections = {
            name: reading.section(name, document[name]) for name in SECTIONS if name in document
        }
        # Only the references know which files were read: the sections have just their numbers.
        references.check_filter(sections.get("filter") or ())
        self._stop_on(reading.problems)
        spec = FeatureSpec(
            **sections, directory=self._directory, source=self._source, lines=self._lines
        )
        return self._checked(spec)

    def _check_version(self, document: Mapping[str, Any], problems: list[Problem]) -> None:
        version = document.get("version", VERSION)
        if isinstance(version, bool) or not isinstance(version, int) or version < 1:
            message = f"got {value_text(version)}, expected {VERSION}"
            problems.append(Problem(("version",), message))
        elif version > VERSION:
            message = (
                f"the spec has version {version}, but this estimator_kit reads versions up to "
                f"{VERSION}. Upgrade estimator_kit."
            )
            # Other unknown keys may be valid in that version.
            raise self._error([Problem(("version",), message)])

    def _checked(self, spec: FeatureSpec) -> FeatureSpec:
        problems: list[Problem] = []
        columns = {}
        for name, column in spec.columns.items():
            try:
                columns[name] = column.with_files(spec, name)
            except ProblemError as error:
                problems.append(error.problem)
        checks = (
            validation.check_columns,
            validation.check_cycles,
            groups.check_row_lengths,
            validation.check_lists_of_lists,
            pretrained_files.check_entries,
            groups.check_groups,
            groups.check_raw,
            labels.check_labels,
            labels.check_objectives,
            validation.check_drift,
            validation.check_filter,
            validation.check_retraining,
            validation.check_monitoring,
        )
        problems += itertools.chain.from_iterable(check(spec) for check in checks)
        self._stop_on(problems)
        spec = dataclasses.replace(spec, columns=columns)
        # These checks follow names through the spec. Only now is it known that all names exist.
        checks_of_use = (
            groups.check_use,
            groups.check_variable_names,
            groups.check_embedding_tables,
            groups.check_sequences,
            groups.check_ragged_groups,
        )
        self._stop_on([problem for check in checks_of_use for problem in check(spec)])
        return spec

    def _stop_on(self, problems: list[Problem]) -> None:
        if problems:
            raise self._error(problems)

    def _error(self, problems: list[Problem]) -> SpecError:
        return SpecError(self._source, [located(p.path, p.message, self._lines) for p in problems])
