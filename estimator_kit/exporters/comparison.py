"""Sends the same rows to an export and to the result of `--mode=transform`."""

from __future__ import annotations

import os
from typing import Any, Optional

import numpy as np
import tensorflow as tf

from estimator_kit.checkpoints import run_record
from estimator_kit.config.experiment_config import ExperimentConfig
from estimator_kit.errors import ConfigError, ExportError
from estimator_kit.exporters import c_session, quality_change, verification
from estimator_kit.exporters.sample_rows import SampleRows, sample_rows
from estimator_kit.model.session_errors import explained
from feature_specs.spec import FeatureSpec
from input_pipelines.errors import DataError
from input_pipelines.reading import files
from input_pipelines.record_files import kinds

ROWS = 1000
NOT_MEASURED = "the change of loss and AUC was not measured. Give --eval_files to measure it."


def kept_spec(source: str) -> Optional[FeatureSpec]:
    """The feature spec that an export keeps; None if it keeps none."""
    return run_record.kept_spec(os.path.dirname(spec_path(source)))


def spec_path(source: str) -> str:
    """Where an export keeps its feature spec."""
    return os.path.join(source, "assets.extra", "feature_spec", "spec.json")


def sample(config: ExperimentConfig, spec: FeatureSpec, field: str, count: int) -> SampleRows:
    """The first rows of the files of a flag.

    Raises:
      ConfigError: the name of a file says that it is a table.
      DataError: a record cannot be read or does not fit the spec, or the files have no records.
    """
    paths = record_files(config, field)
    # A prediction answers every row, but an evaluation reads only those that the filter keeps.
    filtered = field == "eval_files"
    with explained(spec, paths, with_labels=False, filtered=filtered):
        found = sample_rows(spec, paths, count=count, all_rows=not filtered)
    if found is None:
        raise no_record(field, paths, filtered=filtered and bool(spec.filter))
    return found


def record_files(config: ExperimentConfig, field: str) -> list[str]:
    paths = files.expand(getattr(config, field), flag=f"--{field}")
    for path in paths:
        kind = kinds.kind_of(path)
        if kind != kinds.TFRECORD:
            raise ConfigError(
                f"--{field}: expected TFRecord files, got the {kind} file {path}. Convert it with "
                "--mode=convert."
            )
    return paths


def no_record(field: str, paths: list[str], *, filtered: bool = False) -> DataError:
    others = " and the other files" if len(paths) > 1 else ""
    kept = " that the filter of the spec keeps" if filtered else ""
    return DataError(f"--{field}: no records{kept} in {paths[0]}{others}. Name files with records.")


def check_quality(
    config: ExperimentConfig,
    spec: FeatureSpec,
    records: list[bytes],
    before: dict[str, np.ndarray],
    after: dict[str, np.ndarray],
) -> list[str]:
    """`quality_change.check` on records of --eval_files; an error names a bad label."""
    limit = config.transform_max_loss_increase
    with explained(spec, record_files(config, "eval_files")):
        return quality_change.check(spec, records, before, after, limit=limit)


def records_signature(meta: Any, source: str) -> tuple[str, str]:
    """The name of a signature that takes serialized records, and the name of its input."""
    for name in ("predict_examples", tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY):
        inputs = dict(meta.signature_def[name].inputs) if name in meta.signature_def else {}
        if len(inputs) == 1 and next(iter(inputs.values())).dtype == tf.string.as_datatype_enum:
            return name, next(iter(inputs))
    raise ConfigError(
        f"--export_dir={source} has no signature that takes serialized records. Use an export of "
        "estimator_kit."
    )


def answers_of(export: str, name: str, key: str, records: list[bytes]) -> dict[str, np.ndarray]:
    """The answers of a signature to records, in TensorFlow's C++ loader."""
    with verification.started() as loader:
        if loader is None:
            raise ExportError(
                "this TensorFlow has no C library (libtensorflow_cc), which the comparison needs. "
                "Install a TensorFlow package that contains it."
            )
        request = {"signature": name, "inputs": {key: c_session.encoded(np.array(records, object))}}
        asked = loader.ask(export, [request])["answers"][0]
    return {key: c_session.decoded(value) for key, value in asked.items()}


def folder_bytes(folder: str) -> int:
    return sum(
        tf.io.gfile.stat(os.path.join(path, name)).length
        for path, _, names in tf.io.gfile.walk(folder)
        for name in names
        if name != "frozen_graph.pb"
    )
