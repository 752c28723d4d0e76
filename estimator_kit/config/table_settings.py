"""How CSV files are written: what the flags say, and the section `tables` of the spec.

    csv = table_settings.csv_options(config, spec, paths)

What a field means is said in one place. `--csv_missing` and `--csv_skip_spaces` change values, so
where the spec has the section, a flag that says something else is an error. The other flags say how
one file is laid out, and go before the section. Never reads a file.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Any, Optional

from estimator_kit.config.experiment_config import ExperimentConfig
from estimator_kit.errors import ConfigError
from feature_specs.sections.tables import NO_TABLES, Tables
from feature_specs.spec import FeatureSpec
from input_pipelines.prepare.tables.options import CsvOptions
from input_pipelines.record_files import kinds

_VALUES = ("csv_missing", "csv_skip_spaces")


def csv_options(
    config: ExperimentConfig,
    spec: Optional[FeatureSpec],
    paths: Sequence[str],
    *,
    written: bool = False,
) -> CsvOptions:
    """How the CSV files among `paths` are written.

    Args:
      config: its fields `csv_...` are the flags.
      spec: the spec that the rows are read by, if there is one.
      paths: files of one kind; where it is not CSV, the section is not heeded.
      written: whether records are made for training, so that a setting which changes values has to
        be in the spec: whoever predicts other tables later has only the spec that the export keeps.

    Raises:
      ConfigError: a flag contradicts the spec, or has to be written there.
    """
    given = config.csv_options()
    if spec is None or kinds.kind_of_all(paths) != kinds.CSV:
        return given
    flags = {name: getattr(config, name) for name in Tables.model_fields if _says(config, name)}
    section = spec.tables.given
    if spec.tables == NO_TABLES:
        if written and not flags.keys().isdisjoint(_VALUES):
            names = ", ".join(f"--{name}" for name in flags)
            lines = "\n".join(f"  {name}: {_yaml(value)}" for name, value in flags.items())
            raise ConfigError(
                f"{names}: what a field of a table means belongs into the spec, or predictions of "
                f"other tables would read it otherwise; add to {spec.source}, and leave the flags "
                f"out:\ntables:\n{lines}"
            )
        return given
    for name in _VALUES:
        if name in flags and _set(flags[name]) != _set(section.get(name)):
            says = _yaml(section[name]) if name in section else "nothing"
            raise ConfigError(
                f"--{name}: got {_yaml(flags[name])}, and the section tables of {spec.source} says "
                f"{says} there; the records of a model are read one way: leave the flag out, or "
                "change the spec and convert and train again"
            )
    settled = {**section, **flags}
    try:
        return dataclasses.replace(
            given, **{name.removeprefix("csv_"): value for name, value in settled.items()}
        )
    except ValueError as error:
        raise ConfigError(f"{spec.source}: tables: {error}") from error


def _says(config: ExperimentConfig, name: str) -> bool:
    return getattr(config, name) not in (None, (), "")


def _yaml(value: Any) -> str:
    return json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False)


def _set(value: Any) -> Any:
    return frozenset(value) if isinstance(value, tuple) else value
