"""`--mode=inspect`: shows what is in a model, an export, a checkpoint or a model directory.

    a model            its parts with parameters, bytes and operations, the memory that training
                       takes, and advice; needs --spec, and trains nothing
    an export          signatures with the features that each needs, variables, ops, assets,
                       vocabularies, how it was checked
    a checkpoint       its variables
    a model directory  the variables of its latest checkpoint, the ops of its training graph,
                       vocabularies, exports, and the same as of a model
    a retraining       a table of all cycles, and the versions that are served

With --graph_dir, it also writes the graph for TensorBoard. It trains nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Optional

import tensorflow as tf
from google.protobuf import text_format

from estimator_kit.checkpoints import model_outline, reading, run_record
from estimator_kit.commands.inspected_model import describe, statistics_beside
from estimator_kit.config.areas.run import ModelChoice, Run
from estimator_kit.config.flags import config_from_flagfile
from estimator_kit.config.modes import InFolder, Inspect
from estimator_kit.embeddings import growing_ids
from estimator_kit.errors import ConfigError
from estimator_kit.exporters.extra_files import Lineage
from estimator_kit.exporters.kinds import kept
from estimator_kit.exporters.saved_model_graph import (
    features_of_signatures,
    op_counts,
    read_saved_model,
    saved_model_file,
    serving_graph,
)
from estimator_kit.exporters.verification import Report
from estimator_kit.result import RunResult
from estimator_kit.retraining import cycle_files, modes
from estimator_kit.scoring.export import newest
from estimator_kit.tf_estimator import ModeKeys
from estimator_kit.training.preparation import make_model
from feature_specs.files import file_systems, staged, versions
from feature_specs.kinds import Vocabulary
from feature_specs.parser import parser
from feature_specs.spec import FeatureSpec

# How many ops are listed, the most frequent ones first.
_OPS = 20


def run(command: Inspect, tell: Callable[[str], None]) -> RunResult:
    """Runs the mode; see `inspect`."""
    for flag in ("export_dir", "model_dir"):
        if getattr(command.settings, flag) is not None:
            file_systems.check(getattr(command.settings, flag), flag=f"--{flag}")
    if command.looking.graph_dir is not None:
        staged.check_writable(command.looking.graph_dir, flag="--graph_dir")
    tell(inspect(command))
    return RunResult(mode=command.program.mode)


def inspect(command: Inspect) -> str:
    """Describes `export_dir`, else `model_dir`, else the model of `spec`; can write the graph.

    Raises:
      ConfigError: the folder has no export, no checkpoint and no cycle.
    """
    graph: Any = None
    flag = "export_dir" if command.export.export_dir is not None else "model_dir"
    folder = getattr(command.settings, flag)
    path = (folder or command.run.spec).rstrip("/") or "/"
    if command.export.export_dir is not None:
        path = newest(path)
    if folder is None:
        lines, graph = _model(command.run, command.choice)
    elif flag == "model_dir" and cycle_files.cycles(path):
        lines = modes.history(InFolder.of(command.run), command.retraining).splitlines()
    elif tf.io.gfile.isdir(path) and saved_model_file(path) is not None:
        lines, graph = _export(path)
    elif tf.io.gfile.exists(f"{path}.index"):
        lines = [f"checkpoint {path}", *_variables(path)]
    elif tf.io.gfile.isdir(path) and reading.latest(path) is not None:
        lines, graph = _model_dir(path)
    else:
        raise ConfigError(
            f"--{flag}={path}: expected an export (with saved_model.pb), a checkpoint (a path "
            "without .index), or a folder of a training or of cycles. For the model of --spec, "
            "give an empty --model_dir=."
        )
    if command.looking.graph_dir is not None:
        if graph is None:
            raise ConfigError(f"--graph_dir: {path} has no graph. Remove --graph_dir.")
        lines.append(f"graph for TensorBoard: {write_graph(graph, command.looking.graph_dir)}")
    return "\n".join(lines)


def write_graph(graph: Any, folder: str) -> str:
    """Writes an event file that TensorBoard shows as a graph; returns its path."""
    path = os.path.join(folder, "events.out.tfevents.0.graph")
    with staged.file(path) as temporary, tf.io.TFRecordWriter(temporary) as writer:
        writer.write(tf.compat.v1.Event(file_version="brain.Event:2").SerializeToString())
        event = tf.compat.v1.Event(graph_def=graph.SerializeToString())
        writer.write(event.SerializeToString())
    return path


def _export(path: str) -> tuple[list[str], Any]:
    meta = serving_graph(read_saved_model(path), path)
    spec = run_record.kept_spec(os.path.join(path, "assets.extra", "feature_spec"))
    lines = [f"export {path}, of TensorFlow {meta.meta_info_def.tensorflow_version}"]
    lineage = Lineage.of(path)
    if lineage is not None:
        lines.append(f"  of step {lineage.global_step}, exporter {lineage.exporter}")
        check = lineage.check
        if isinstance(check, Report):
            check = (
                f"checked with {check.rows} rows; the largest difference was "
                f"{check.largest_difference:.2g}"
            )
        lines.append(f"  {check}")
    features = features_of_signatures(meta, spec) if spec is not None else {}
    lines.append(f"{len(meta.signature_def)} signatures")
    for name, signature in sorted(meta.signature_def.items()):
        lines.append(f"  {name} ({signature.method_name.rpartition('/')[2]})")
        for what, entries in (("takes", signature.inputs), ("gives", signature.outputs)):
            lines += [f"    {what} {key}: {_tensor(i)}" for key, i in sorted(entries.items())]
        if spec is not None:
            lines.append(f"    needs {', '.join(features[name]) or 'no feature'}")
    variables = os.path.join(path, "variables", "variables")
    handles = any(node.op == "VarHandleOp" for node in meta.graph_def.node)
    if handles or tf.io.gfile.exists(f"{variables}.index"):
        lines += _variables(variables)
    else:
        lines.append("no variables: a transformation has made them constants of the graph")
    lines += _ops(meta.graph_def)
    lines += _files("assets", os.path.join(path, "assets"))
    lines += _vocabularies(spec)
    return lines, meta.graph_def


def _model(run: Run, choice: ModelChoice) -> tuple[list[str], Any]:
    lines, graph = _described(run, choice, parser.load(run.spec))
    return [f"spec {run.spec}", *lines], graph


def _trained_model(path: str, spec: Optional[FeatureSpec]) -> tuple[list[str], Any]:
    """The lines about the model of a model directory and its graph, or why they are unknown."""
    flags = os.path.join(path, "flags.txt")
    if spec is None or not tf.io.gfile.exists(flags):
        return ["no flags and spec of a training, so the parts of the model are unknown"], None
    try:
        config = config_from_flagfile(flags)
        return _described(config, config, spec)
    except ConfigError as error:
        return [f"the parts of the model are unknown: {error}"], None


def _described(run: Run, choice: ModelChoice, spec: FeatureSpec) -> tuple[list[str], Any]:
    """The lines about a model, and its training graph."""
    model = make_model(choice, spec)
    lines = describe(model, choice.model, statistics_beside(run.spec))
    graph, _ = model_outline.build(model, ModeKeys.TRAIN)
    return lines, graph.as_graph_def()


def _model_dir(path: str) -> tuple[list[str], Any]:
    checkpoint = reading.latest(path)
    assert checkpoint is not None
    lines = [f"model directory {path}, latest checkpoint {os.path.basename(checkpoint)}"]
    lines += _variables(checkpoint)
    spec = run_record.kept_spec(os.path.join(path, "feature_spec"))
    of_model, graph = _trained_model(path, spec)
    text = os.path.join(path, "graph.pbtxt")  # Written by trainings without the kit.
    if graph is None and tf.io.gfile.exists(text):
        graph = _read_graph(text)
    if graph is not None:
        lines += _ops(graph)
    lines += _vocabularies(spec)
    exports = os.path.join(path, "export")
    for exporter in sorted(tf.io.gfile.listdir(exports)) if tf.io.gfile.isdir(exports) else ():
        folder = os.path.join(exports, exporter.rstrip("/"))
        names = [str(number) for number in versions.numbers(folder)]
        protected = kept(folder)
        marked = [f"{n} (pinned or live)" if n in protected else n for n in names]
        lines.append(f"exports of {exporter.rstrip('/')}: {', '.join(marked) or 'none'}")
    return [*lines, *of_model], graph


def _read_graph(path: str) -> Any:
    """The GraphDef in a text file."""
    data = file_systems.read(path) or b""
    try:
        return text_format.Parse(data.decode(), tf.compat.v1.GraphDef())
    except (ValueError, text_format.ParseError) as error:
        raise ConfigError(f"{path} is damaged: {error}. Remove it.") from error


def _tensor(info: Any) -> str:
    dims = ", ".join("?" if dim.size < 0 else str(dim.size) for dim in info.tensor_shape.dim)
    return f"{tf.as_dtype(info.dtype).name} [{dims}]"


def _variables(checkpoint: str) -> list[str]:
    try:
        reader = tf.train.load_checkpoint(checkpoint)
    except (tf.errors.OpError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise ConfigError(f"{checkpoint}: the checkpoint cannot be read: {reason}") from error
    shapes, dtypes = reader.get_variable_to_shape_map(), reader.get_variable_to_dtype_map()
    rows, total, numbers = [], 0, 0
    for name, shape in sorted(shapes.items()):
        count = 1
        for size in shape:
            count *= size
        size = count * dtypes[name].size
        total, numbers = total + size, numbers + count
        rows.append(f"  {size:>14,}  {dtypes[name].name} {list(shape)}  {name}")
    used = [
        f"growing ids {name}: {part.used:,} of {part.rows:,} rows have a value, {part.waiting:,} "
        "other values are counted"
        for name, part in growing_ids.rows_used(reader).items()
    ]
    return [f"{len(rows)} variables, {numbers:,} numbers, {total:,} bytes", *rows, *used]


def _ops(graph: Any) -> list[str]:
    counts = op_counts(graph)
    rows = [f"  {count:>14,}  {op}" for op, count in counts.most_common(_OPS)]
    left = len(counts) - len(rows)
    more = [f"  and {left} more types"] if left > 0 else []
    return [f"{sum(counts.values()):,} ops of {len(counts)} types", *rows, *more]


def _files(what: str, folder: str) -> list[str]:
    names = file_systems.names_in(folder)
    sizes = [file_systems.stamp(os.path.join(folder, name))[0] for name in names]
    return [f"{len(names)} {what}", *(f"  {s:>14,}  {n}" for n, s in zip(names, sizes))]


def _vocabularies(spec: Optional[FeatureSpec]) -> list[str]:
    if spec is None:
        return ["no feature spec, so vocabularies and features are unknown"]
    vocabularies = spec.of_kind(Vocabulary)
    lines = [f"{len(vocabularies)} vocabularies"]
    for name, column in vocabularies.items():
        if column.words is not None:
            lines.append(f"  {len(column.words):>14,}  {name}: a list in the spec")
            continue
        words = column.path(spec).read_bytes().count(b"\n")
        lines.append(f"  {column.size or words:>14,}  {name}: {column.file}")
    return lines
