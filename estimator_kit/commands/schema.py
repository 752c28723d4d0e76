"""`--mode=schema`: a spec as a TensorFlow Metadata Schema, or a first spec from one.

With `analysis_dir` it reads the Schema, with `spec` it writes it. Passes the settings to
`input_pipelines/prepare/metadata_schema`, which does the work.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Optional

import tensorflow as tf

from estimator_kit.config.areas.run import Run
from estimator_kit.config.modes import OfSchema, Schema
from estimator_kit.errors import ConfigError
from estimator_kit.result import RunResult
from feature_specs.files import documents, file_systems, staged
from feature_specs.files.jobs import FolderError
from feature_specs.parser import parser
from input_pipelines.prepare.metadata_schema import from_spec, to_spec
from input_pipelines.prepare.metadata_schema.feature_reading import SchemaError


def run(command: Schema, tell: Callable[[str], None]) -> RunResult:
    """Runs the mode; see `exchange`."""
    tell(exchange(command.run, command.analysis))
    return RunResult(mode=command.program.mode)


def exchange(run: Run, analysis: OfSchema) -> str:
    """Imports or exports, and returns the text for the user; what was lost comes last.

    Raises:
      ConfigError: the Schema cannot be used, or a file would be overwritten; nothing was written.
      SpecError: the spec cannot be used.
      MissingPackageError: tensorflow-metadata is not installed, or does not fit.
    """
    return _import(analysis) if analysis.analysis_dir is not None else _export(run, analysis)


def _import(analysis: OfSchema) -> str:
    assert analysis.analysis_dir is not None
    try:
        return to_spec.write(
            analysis.schema_file, labels=analysis.labels, directory=analysis.analysis_dir
        )
    except FolderError as error:
        raise ConfigError(f"--analysis_dir: {error}") from error
    except SchemaError as error:
        text = str(error)
        raise ConfigError(text if text.startswith("--") else f"--schema_file: {text}") from error


def _export(run: Run, analysis: OfSchema) -> str:
    staged.check_writable(analysis.schema_file, flag="--schema_file", is_file=True)
    spec = parser.load(run.spec)
    text, lost = from_spec.text(spec)
    path = file_systems.absolute(analysis.schema_file)
    if _content(path) not in (None, text.encode()):
        raise ConfigError(
            f"--schema_file: {analysis.schema_file!r} exists and holds something else. "
            "Name another file, or move it away."
        )
    documents.write_text(path, text)
    count = len(spec.features) + len(spec.labels)
    lines = [f"{analysis.schema_file}: a Schema of {count} features, from {run.spec}"]
    return "\n".join([*lines, *(f"  not in the Schema: {line}" for line in lost)])


def _content(path: str) -> Optional[bytes]:
    """The content of a file, or None if it does not exist."""
    if not tf.io.gfile.exists(path):
        return None
    with tf.io.gfile.GFile(path, "rb") as file:
        return bytes(file.read())
