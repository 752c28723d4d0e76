"""`--mode=transform`: writes an export in another form, and compares it with the export.

    freeze     variables become constants; also writes frozen_graph.pb, a GraphDef
    optimize   as freeze, and TensorFlow's Grappler prunes the graph and folds constants
    tables_int8, tables_float16   embedding tables with 8 or 16 bits for a number
    text       saved_model.pbtxt instead of saved_model.pb
    binary     saved_model.pb instead of saved_model.pbtxt

`runtimes.conversion` writes files for other runtimes, and `scoring.item_files` vectors of items and
an index over them.

The result is a SavedModel with the same signatures and assets. Both predict the same rows, each in
its own process. If their predictions differ by more than the tolerance, the result is deleted.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Optional

import tensorflow as tf
from google.protobuf import text_format

from estimator_kit.config.areas.data import Data
from estimator_kit.config.areas.transforming import SMALLER_TABLES, Transforming
from estimator_kit.config.modes import Transform
from estimator_kit.errors import ConfigError, ExportError
from estimator_kit.exporters import comparison, skew, smaller_tables
from estimator_kit.exporters.comparison import (
    NOT_MEASURED,
    ROWS,
    answers_of,
    check_quality,
    folder_bytes,
    kept_spec,
    no_record,
    record_files,
    records_signature,
    sample,
    spec_path,
)
from estimator_kit.exporters.runtimes import conversion
from estimator_kit.exporters.saved_model_graph import (
    MAIN_OPS,
    frozen,
    op_counts,
    optimized,
    read_saved_model,
    serving_graph,
)
from estimator_kit.result import RunResult
from estimator_kit.scoring import item_files
from feature_specs.files import file_systems, staged, versions
from feature_specs.spec import FeatureSpec
from input_pipelines.record_files import record_lists, tfrecords

SAVED_MODEL_FORMS = ("freeze", "optimize", *SMALLER_TABLES, "text", "binary")


def run(command: Transform, tell: Callable[[str], None]) -> RunResult:
    """Runs the mode; see `transform`."""
    tell(transform(command))
    return RunResult(mode=command.program.mode)


def transform(command: Transform) -> str:
    """Writes `transform_dir` from `export_dir`; returns the text for the user.

    Raises:
      ConfigError: the export does not exist, the folder exists, or a file is a table by its name.
      DataError: a record cannot be read; the message names it.
      ExportError: the result cannot predict, or predicts something else; it is deleted.
    """
    source, target = str(command.export.export_dir), str(command.transforming.transform_dir)
    file_systems.check(source, flag="--export_dir")
    staged.check_writable(target, flag="--transform_dir")
    if tf.io.gfile.exists(target):
        raise ConfigError(f"--transform_dir={target} exists already. Name a new folder.")
    versions.remove_left(os.path.dirname(file_systems.absolute(target)))
    if command.transforming.transform in item_files.KINDS:
        return item_files.write(command)
    if command.transforming.transform not in SAVED_MODEL_FORMS:
        return conversion.convert(command.export, command.data, command.transforming)
    saved = read_saved_model(source)
    before = serving_graph(saved, source)
    spec = kept_spec(source)
    records = _records(command.data, spec)
    with staged.folder(target) as staging:
        notes = _write(saved, spec, source, staging, str(command.transforming.transform))
        after = serving_graph(read_saved_model(staging), staging)
        largest = _difference(before, source, staging, records, command.transforming.tolerance)
        changes = _quality_changes(command.data, command.transforming, before, source, staging)
    counts = [sum(op_counts(meta.graph_def).values()) for meta in (before, after)]
    return (
        f"{command.transforming.transform}: {target}\n"
        f"  bytes {folder_bytes(source):,} -> {folder_bytes(target):,}\n"
        f"  ops   {counts[0]:,} -> {counts[1]:,}\n"
        f"  largest difference on {len(records):,} rows: {largest:.2g}"
        + "".join(f"\n  {line}" for line in (*notes, *changes))
    )


def _write(
    saved: Any, spec: Optional[FeatureSpec], source: str, staging: str, kind: str
) -> list[str]:
    """Writes the result; returns sentences for the user."""
    notes: list[str] = []
    meta = serving_graph(saved, source)
    parts = ["assets", "assets.extra"]
    if kind in ("freeze", "optimize"):
        graph = frozen(source, meta)
        if kind == "optimize":
            graph = optimized(meta, graph)
        meta.graph_def.CopyFrom(graph)
        meta.ClearField("saver_def")
        meta.ClearField("object_graph_def")
        for name in list(meta.collection_def):
            if name not in (*MAIN_OPS, "saved_model_assets"):
                del meta.collection_def[name]
        with tf.io.gfile.GFile(os.path.join(staging, "frozen_graph.pb"), "wb") as file:
            file.write(graph.SerializeToString())
    elif kind in SMALLER_TABLES:
        notes = smaller_tables.smaller(meta, spec, source, staging, kind)
    else:
        parts.append("variables")
    for part in parts:
        file_systems.copy_folder(os.path.join(source, part), os.path.join(staging, part))
    name = "saved_model.pbtxt" if kind == "text" else "saved_model.pb"
    with tf.io.gfile.GFile(os.path.join(staging, name), "wb") as file:
        text = kind == "text"
        file.write(text_format.MessageToString(saved) if text else saved.SerializeToString())
    return notes


def _records(data: Data, spec: Optional[FeatureSpec]) -> list[bytes]:
    """The first records of `predict_files`; if there is a spec, they fit it."""
    if spec is not None:
        return list(sample(data, spec, "predict_files", ROWS).records)
    paths = record_files(data, "predict_files")
    with tfrecords.naming_what_is_corrupt(paths):
        records = next(record_lists.of_files(paths, ROWS), [])
    if not records:
        raise no_record("predict_files", paths)
    return records


def _difference(
    meta: Any, source: str, staging: str, records: list[bytes], tolerance: float
) -> float:
    """The largest difference between the predictions of two exports, by one signature."""
    name, key = records_signature(meta, source)
    before, after = (answers_of(path, name, key, records) for path in (source, staging))
    try:
        return skew.check_answers(
            before,
            after,
            f"signature {name}",
            tolerance,
            ("before", "after"),
            skew.units_of(kept_spec(source)),
        )
    except skew.Skew as error:
        raise ExportError(
            f"the result of --mode=transform was refused: {error}. --transform_tolerance allows "
            f"{tolerance:g}."
        ) from error


def _quality_changes(
    data: Data, transforming: Transforming, meta: Any, source: str, staging: str
) -> list[str]:
    """The lines of `check_quality` for the result, or that it was not measured."""
    if not data.eval_files:
        return [NOT_MEASURED]
    spec = kept_spec(source)
    if spec is None:
        raise ConfigError(
            f"--eval_files: --export_dir={source} has no {spec_path(source)}, which says what the "
            "labels are. Remove --eval_files."
        )
    name, key = records_signature(meta, source)
    records = list(sample(data, spec, "eval_files", comparison.QUALITY_ROWS).records)
    before, after = (answers_of(path, name, key, records) for path in (source, staging))
    return check_quality(data, transforming, spec, records, before, after)
