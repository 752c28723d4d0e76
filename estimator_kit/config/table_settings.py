"""The format of CSV files, from the flags and the section `tables` of the spec.

    csv = table_settings.csv_options(tables, spec, paths)

`--csv_missing`, `--csv_skip_spaces`, `--csv_list_separator` and `--csv_thousands` change values. If
the spec has the section, a flag that contradicts it is an error. The other flags describe the
layout of one file, and override the section. No content of a file decides here: if neither the
spec nor a flag says whether spaces count, `reader.open_table` refuses a file in which that matters.
This module never reads a file.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Any, Optional

from estimator_kit.config.areas.tables import Tables
from estimator_kit.errors import ConfigError
from feature_specs.sections import records as section_tables
from feature_specs.spec import FeatureSpec
from input_pipelines.prepare.tables.options import CsvOptions
from input_pipelines.record_files import kinds

_VALUES = tuple(section_tables.TextOfValues.model_fields)


def csv_options(
    tables: Tables,
    spec: Optional[FeatureSpec],
    paths: Sequence[str],
    *,
    written: bool = False,
) -> CsvOptions:
    """The format of the CSV files among `paths`.

    Args:
      tables: the flags `--csv_...`.
      spec: the spec for the rows, if there is one.
      paths: files of one kind; if they are not CSV, the section has no effect.
      written: whether the records are for training. Then a setting that changes values must be in
        the spec, because a later prediction has only the spec that the export keeps.

    Raises:
      ConfigError: a flag contradicts the spec, or must be written in the spec.
    """
    from_flags = tables.csv_options()
    if spec is None or kinds.kind_of_all(paths) != kinds.CSV:
        return from_flags
    flags = {
        name: getattr(tables, name)
        for name in section_tables.Tables.model_fields
        if _says(tables, name)
    }
    section = spec.tables.given
    # An analysis of an earlier version wrote only this for an ordinary file.
    is_plain = section in ({}, {"csv_skip_spaces": False})
    if is_plain:
        new = {name: value for name, value in flags.items() if name not in section}
        if written and not new.keys().isdisjoint(_VALUES):
            names = ", ".join(f"--{name}" for name in new)
            entries = {**section, **new}
            lines = "\n".join(f"  {name}: {_yaml(value)}" for name, value in entries.items())
            change = "write this section in" if section else "add this to"
            raise ConfigError(
                f"{names}: these flags change values, so they belong in the spec; predictions of "
                f"other tables must read fields in the same way. Remove the flags, and {change} "
                f"{spec.source}:\ntables:\n{lines}"
            )
    for name in section if is_plain else _VALUES:
        if name == "csv_skip_spaces" and name not in section and not written:
            continue  # A section may be older than this entry, and the reader then asks for it.
        default = False if name == "csv_thousands" else None
        if name in flags and _set(flags[name]) != _set(section.get(name, default)):
            says = _yaml(section[name]) if name in section else "nothing"
            raise ConfigError(
                f"--{name}: expected {says}, as in the section tables of {spec.source}, got "
                f"{_yaml(flags[name])}. Remove the flag, or change the spec, convert and train "
                "again."
            )
    settled = {**section, **flags}
    try:
        return dataclasses.replace(
            from_flags, **{name.removeprefix("csv_"): value for name, value in settled.items()}
        )
    except ValueError as error:
        raise ConfigError(f"{spec.source}: tables: {error}") from error


def _says(tables: Tables, name: str) -> bool:
    return getattr(tables, name) not in (None, (), "")


def _yaml(value: Any) -> str:
    return json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False)


def _set(value: Any) -> Any:
    return frozenset(value) if isinstance(value, tuple) else value
