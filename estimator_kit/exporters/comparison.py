"""Compares an export with the result of `--mode=transform`, on the same rows.

    answers = answers_of(export, name, key, records)
    lines = check_quality(config, spec, records, before, after)

Answers that differ by less than a tolerance can still rank or calibrate worse, for example in int8.
So loss and AUC of both are compared on rows of `--eval_files`, computed from the logits of each
export as in an evaluation (`heads`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Optional

import numpy as np
import tensorflow as tf

from estimator_kit.checkpoints import run_record
from estimator_kit.config.areas.data import Data
from estimator_kit.config.areas.transforming import Transforming
from estimator_kit.errors import ConfigError, ExportError
from estimator_kit.exporters import c_session, verification
from estimator_kit.exporters.sample_rows import SampleRows, on_cpu, sample_rows
from estimator_kit.model.heads import joint, make_heads
from estimator_kit.model.session_errors import explained
from feature_specs.spec import FeatureSpec
from input_pipelines.errors import DataError
from input_pipelines.reading import files
from input_pipelines.record_files import kinds
from input_pipelines.transform.transforms import Transform

# The number of rows of --eval_files. Runtimes take one row at a time.
QUALITY_ROWS = 10_000

Answers = Mapping[str, np.ndarray]


def check(
    spec: FeatureSpec, records: Sequence[bytes], before: Answers, after: Answers, *, limit: float
) -> list[str]:
    """Returns a line for each objective with its loss and AUC before and after.

    Args:
      spec: the feature spec of the export.
      records: serialized records with labels.
      before, after: the answers of the export and of the result, including the logits.
      limit: the relative increase of a loss that is allowed; 0.01 is one percent.

    Raises:
      ExportError: a loss increased by more.
    """
    old, new = (metrics_of(spec, records, answers) for answers in (before, after))
    lines = []
    for name in old:
        texts = [f"{key}/{name} {old[name][key]:.4g} -> {new[name][key]:.4g}" for key in old[name]]
        lines.append(f"{', '.join(texts)} on {len(records):,} rows")
        was, now = old[name]["loss"], new[name]["loss"]
        if np.isnan(was):  # All rows have weight 0 for this objective.
            continue
        if not now - was <= limit * abs(was):
            raise ExportError(
                f"the result of --mode=transform was refused: {lines[-1]} of --eval_files; "
                f"--transform_max_loss_increase={limit:g} allows {was + limit * abs(was):.4g}"
            )
    return lines


def metrics_of(
    spec: FeatureSpec, records: Sequence[bytes], answers: Answers
) -> dict[str, dict[str, float]]:
    """`loss`, and `auc` if the head has it, by objective, computed as in an evaluation."""
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session(config=on_cpu()) as session:
        _, labels = Transform(spec).features_and_labels(tf.constant(list(records)))
        labels = joint.dense_labels(labels)
        heads = make_heads(spec)
        metrics = joint.metrics_of(
            heads,
            {n: tf.constant(answers[f"{n}/{o.logits_output}"]) for n, o in heads.items()},
            labels,
            joint.weights_of(heads, labels),
        )
        shown = {
            name: {k: metrics[f"{k}/{name}"] for k in ("loss", "auc") if f"{k}/{name}" in metrics}
            for name in heads
        }
        session.run([v1.local_variables_initializer(), v1.tables_initializer()])
        session.run([update for metrics in shown.values() for _, update in metrics.values()])
        values = {n: {k: value for k, (value, _) in m.items()} for n, m in shown.items()}
        return {
            name: {key: float(value) for key, value in metrics.items()}
            for name, metrics in session.run(values).items()
        }


ROWS = 1000
NOT_MEASURED = "the change of loss and AUC was not measured. Give --eval_files to measure it."


def kept_spec(source: str) -> Optional[FeatureSpec]:
    """The feature spec that an export keeps; None if it keeps none."""
    return run_record.kept_spec(os.path.dirname(spec_path(source)))


def spec_path(source: str) -> str:
    """Where an export keeps its feature spec."""
    return os.path.join(source, "assets.extra", "feature_spec", "spec.json")


def sample(data: Data, spec: FeatureSpec, field: str, count: int) -> SampleRows:
    """The first rows of the files of a flag.

    Raises:
      ConfigError: the name of a file says that it is a table.
      DataError: a record cannot be read or does not fit the spec, or the files have no records.
    """
    paths = record_files(data, field)
    # A prediction answers every row, but an evaluation reads only those that the filter keeps.
    filtered = field == "eval_files"
    with explained(spec, paths, with_labels=False, filtered=filtered):
        rows = sample_rows(spec, paths, count=count, all_rows=not filtered)
    if rows is None:
        raise no_record(field, paths, filtered=filtered and bool(spec.filter))
    return rows


def record_files(data: Data, field: str) -> list[str]:
    paths = files.expand(data.plain(field), flag=f"--{field}")
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
    data: Data,
    transforming: Transforming,
    spec: FeatureSpec,
    records: list[bytes],
    before: dict[str, np.ndarray],
    after: dict[str, np.ndarray],
) -> list[str]:
    """`check` on records of --eval_files; an error names a bad label."""
    limit = transforming.transform_max_loss_increase
    with explained(spec, record_files(data, "eval_files")):
        return check(spec, records, before, after, limit=limit)


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
