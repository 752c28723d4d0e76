"""`--mode=transform` to a file for another runtime, which it compares with the export.

    <transform_dir>/model.tflite or model.onnx
    <transform_dir>/signature.json   names, dtypes and shapes of inputs and outputs; the TensorFlow
                                     ops that the runtime must provide
    <transform_dir>/assets.extra     the spec and the lineage of the export

It sends rows to the export and to the file. If the answers differ by more than the tolerance, the
file is deleted.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import tensorflow as tf

from estimator_kit.config.areas.data import Data
from estimator_kit.config.areas.run import FromExport
from estimator_kit.config.areas.transforming import Transforming
from estimator_kit.embeddings import growing_ids
from estimator_kit.errors import ConfigError, ExportError
from estimator_kit.exporters import comparison, skew
from estimator_kit.exporters.comparison import (
    NOT_MEASURED,
    ROWS,
    answers_of,
    check_quality,
    folder_bytes,
    kept_spec,
    records_signature,
    sample,
    spec_path,
)
from estimator_kit.exporters.runtimes import lite, onnx_graph
from estimator_kit.exporters.runtimes.requests import Inputs, inputs_of, placed
from estimator_kit.exporters.sample_rows import SampleRows
from estimator_kit.exporters.saved_model_graph import (
    frozen,
    op_counts,
    read_saved_model,
    serving_graph,
)
from feature_specs.files import documents, file_systems, staged
from feature_specs.spec import FeatureSpec

# The number of rows that decide the ranges of int8.
REPRESENTATIVE_ROWS = 500

_SIGNATURE = "predict"


def convert(export: FromExport, data: Data, transforming: Transforming) -> str:
    """Writes `transform_dir` from `export_dir`; returns the summary for the user.

    Raises:
      ConfigError: the export does not exist, or the extra is not installed.
      DataError: a record cannot be read.
      ExportError: the runtime cannot express or run the model, or its answers differ; nothing is
        left of the result.
    """
    source, target, kind = (
        str(export.export_dir),
        str(transforming.transform_dir),
        str(transforming.transform),
    )
    if kind == "onnx":
        onnx_graph.packages()
    meta = serving_graph(read_saved_model(source), source)
    spec = _spec(source)
    growing = growing_ids.columns(spec)
    if growing:
        runtime = "ONNX" if kind == "onnx" else "TensorFlow Lite"
        raise ConfigError(
            f"--transform={kind}: column {next(iter(growing))!r} is growing, and {runtime} has no "
            "table that could hold its ids. Serve the SavedModel, or train with a vocabulary "
            "column, which can start warm from this model."
        )
    rows = sample(data, spec, "predict_files", ROWS)
    inputs = inputs_of(meta, source, spec, transforming.transform_inputs)
    _check_sendable(inputs, rows, "predict_files")
    with staged.folder(target) as folder:
        content, inputs = _content(data, transforming, source, folder, meta, spec, inputs)
        name = "model.onnx" if kind == "onnx" else "model.tflite"
        with tf.io.gfile.GFile(os.path.join(folder, name), "wb") as file:
            file.write(content)
        model: Any = onnx_graph.Model(content) if kind == "onnx" else lite.Model(content)
        answers = model.ask([{k: row[k] for k in inputs.tensors} for row in inputs.rows(rows)])
        largest = _difference(transforming, source, meta, rows, inputs, answers)
        changes = _quality_changes(data, transforming, source, meta, spec, inputs, model)
        needs = [] if kind == "onnx" else model.flex
        documents.write_json(
            os.path.join(folder, "signature.json"), _signature(inputs, answers, needs)
        )
        file_systems.copy_folder(
            os.path.join(source, "assets.extra", "feature_spec"),
            os.path.join(folder, "assets.extra", "feature_spec"),
        )
        tf.io.gfile.copy(
            os.path.join(source, "assets.extra", "lineage.json"),
            os.path.join(folder, "assets.extra", "lineage.json"),
        )
    before = sum(op_counts(meta.graph_def).values())
    lines = [
        f"{kind}: {os.path.join(target, name)}, from {inputs.form}",
        f"  bytes {folder_bytes(source):,} -> {len(content):,}",
        f"  ops   {before:,} -> {sum(model.ops.values()):,}: "
        + ", ".join(f"{op} {count}" for op, count in sorted(model.ops.items())),
    ]
    if kind != "onnx":
        lines.append(
            f"  needs the Flex delegate for {', '.join(needs)}; send two rows once before one row"
            if needs
            else "  needs no delegate"
        )
    if kind == "tflite_int8":
        lines.append(f"  ops that give int8: {model.int8_ops}")
    asked = int(inputs.sendable(rows).sum())
    lines.append(f"  largest difference on {asked:,} rows: {largest:.2g}")
    if asked < len(rows.records):
        left = len(rows.records) - asked
        lines.append(f"  not asked: {left:,} rows that predict_raw cannot take")
    return "\n".join([*lines, *(f"  {line}" for line in changes)])


def _content(
    data: Data,
    transforming: Transforming,
    source: str,
    within: str,
    meta: Any,
    spec: FeatureSpec,
    inputs: Inputs,
) -> tuple[bytes, Inputs]:
    """The content of the model file, and the inputs that the model has."""
    if transforming.transform == "onnx":
        graph, inputs = placed(frozen(source, meta), inputs)
        return onnx_graph.convert(graph, inputs), inputs
    representative = []
    if transforming.transform == "tflite_int8":
        rows = sample(data, spec, "predict_files", REPRESENTATIVE_ROWS)
        representative = inputs.rows(rows)
    folder, signature = source, "predict_raw"
    if inputs.form == "columns":
        graph, inputs = placed(frozen(source, meta), inputs)
        folder, signature = os.path.join(within, "columns"), _SIGNATURE
        _save(graph, inputs, folder)
    kind = str(transforming.transform)
    content = lite.convert(folder, signature, kind, representative, inputs.tensors)
    if folder != source:
        tf.io.gfile.rmtree(folder)
    return content, inputs


def _save(graph_def: Any, inputs: Inputs, folder: str) -> None:
    """Writes a SavedModel without variables and with one signature."""
    with tf.Graph().as_default() as graph, tf.compat.v1.Session() as session:
        tf.import_graph_def(graph_def, name="")
        builder = tf.compat.v1.saved_model.Builder(folder)
        signature = tf.compat.v1.saved_model.predict_signature_def(
            {k: graph.get_tensor_by_name(name) for k, (name, _, _) in inputs.tensors.items()},
            {k: graph.get_tensor_by_name(name) for k, name in inputs.outputs.items()},
        )
        builder.add_meta_graph_and_variables(
            session, [tf.saved_model.SERVING], signature_def_map={_SIGNATURE: signature}
        )
        builder.save()


def _difference(
    transforming: Transforming,
    source: str,
    meta: Any,
    sample: SampleRows,
    inputs: Inputs,
    answers: dict[str, np.ndarray],
) -> float:
    name, key = records_signature(meta, source)
    before = answers_of(source, name, key, list(sample.records))
    before = {k: v[inputs.sendable(sample)] for k, v in before.items() if k in inputs.outputs}
    sides, what = ("before", "after"), str(transforming.transform)
    units = skew.units_of(kept_spec(source))
    largest = 0.0
    try:
        largest = skew.check_answers(before, answers, what, np.inf, sides, units)
        skew.check_answers(before, answers, what, transforming.tolerance, sides, units)
    except skew.Skew as error:
        raise ExportError(
            f"the result of --mode=transform was refused: {error}. The largest difference is "
            f"{largest:.2g}, and --transform_tolerance={transforming.tolerance:g}."
            + (" int8 changes answers." if transforming.transform in lite.KINDS[1:] else "")
        ) from error
    return largest


def _quality_changes(
    data: Data,
    transforming: Transforming,
    source: str,
    meta: Any,
    spec: FeatureSpec,
    inputs: Inputs,
    model: Any,
) -> list[str]:
    """The lines of `check_quality`; without --eval_files, a line that says so."""
    if not data.eval_files:
        return [NOT_MEASURED]
    rows = sample(data, spec, "eval_files", comparison.QUALITY_ROWS)
    _check_sendable(inputs, rows, "eval_files")
    sent = [record for record, is_sent in zip(rows.records, inputs.sendable(rows)) if is_sent]
    name, key = records_signature(meta, source)
    before = answers_of(source, name, key, sent)
    after = model.ask([{k: row[k] for k in inputs.tensors} for row in inputs.rows(rows)])
    return check_quality(data, transforming, spec, sent, before, after)


def _check_sendable(inputs: Inputs, rows: SampleRows, field: str) -> None:
    if not inputs.sendable(rows).any():
        raise ConfigError(
            f"--{field}: none of the first {len(rows.records):,} rows can be sent as tensors, "
            "because each has a list that ends with a missing value. Name other files, or use "
            "--transform_inputs=columns."
        )


def _spec(source: str) -> FeatureSpec:
    spec = kept_spec(source)
    if spec is None:
        raise ConfigError(
            f"--export_dir={source} has no {spec_path(source)}, which says how to send rows. Use "
            "an export of estimator_kit."
        )
    return spec


def _signature(inputs: Inputs, answers: dict[str, np.ndarray], needs: list[str]) -> dict[str, Any]:
    return {
        "inputs": {
            name: {"dtype": dtype.name, "shape": list(shape)}
            for name, (_, dtype, shape) in inputs.tensors.items()
        },
        "outputs": {
            name: {
                "dtype": "string" if value.dtype.kind in "OS" else value.dtype.name,
                "shape": [None, *value.shape[1:]],
            }
            for name, value in answers.items()
        },
        "input_form": inputs.form,
        "tensorflow_ops": needs,
    }
