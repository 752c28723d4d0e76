"""The export that predicts: how it differs from other exports, its signature, spec and answers.

    export = read(newest(path), spec_path)
    model = load(export.path)
    ask(model, export.signature, export.argument, records, ["click/logits"])

    for batch in predictions(export, paths, 128): ...    # does all of this for TFRecord files

Never writes into an export.
"""

from __future__ import annotations

import dataclasses
import hashlib
import logging
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Optional

import numpy as np
import tensorflow as tf

from estimator_kit import tensorflow_errors
from estimator_kit.checkpoints import run_record
from estimator_kit.errors import ConfigError, ExportError
from estimator_kit.exporters.saved_model_graph import (
    read_saved_model,
    saved_model_file,
    serving_graph,
)
from estimator_kit.model.names import PREDICT_EXAMPLES
from estimator_kit.scoring.prediction import check_outputs
from estimator_kit.serving.loaded_model import LoadedModel
from feature_specs.files import versions
from feature_specs.parser import parser
from feature_specs.spec import FeatureSpec
from input_pipelines.prepare.tables.table_format import Output
from input_pipelines.reading.selection import Selection
from input_pipelines.record_files import record_lists, tfrecords
from input_pipelines.transform.serving_inputs import EXAMPLES

_log = logging.getLogger("estimator_kit")

# The remedies for a record and for a row of a table. Another spec would need another export.
RECORD_REMEDY = (
    "Use records that fit the spec of the export, or leave out the other records with "
    "--corrupt_data_policy=skip_record."
)
ROW_REMEDY = "Use rows that fit the spec of the export."

_SPEC = os.path.join("assets.extra", "feature_spec")


@dataclasses.dataclass(frozen=True)
class Export:
    """A SavedModel to predict with.

    Attributes:
      path: its folder.
      digest: a digest of its graph, its variables, its assets and the spec that it keeps.
      signature: the signature that answers all objectives for serialized records.
      argument: the name of the signature's input.
      outputs: the outputs of the signature, sorted by name.
      spec: its feature spec, or None if neither the export nor the user has one.
      fixed_inputs: the values of the signature's other inputs, such as `k`. Arrays of the shape [1]
        are for each row.
    """

    path: str
    digest: str
    signature: str
    argument: str
    outputs: tuple[Output, ...]
    spec: Optional[FeatureSpec]
    fixed_inputs: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)

    @property
    def version(self) -> str:
        return os.path.basename(os.path.normpath(self.path))


def newest(path: str) -> str:
    """The export at a path: the folder itself, or the newest complete version in it.

    Raises:
      ConfigError: the path is neither an export nor a folder of versions.
    """
    if saved_model_file(path) is not None:
        return path
    paths = versions.paths(path)
    complete = [version for version in paths if saved_model_file(version) is not None]
    if not complete:
        is_folder = tf.io.gfile.isdir(path)
        got = "a folder with neither" if is_folder else "a folder that does not exist"
        raise ConfigError(
            f"--export_dir={path}: expected an export (a folder with saved_model.pb) or a folder "
            f"of versions with one, got {got}. Check the path, or write an export with "
            "--mode=export."
        )
    for version in paths[paths.index(complete[-1]) + 1 :]:
        _log.warning("%s has no saved_model.pb. Using %s.", version, complete[-1])
    return complete[-1]


def read(path: str, spec_path: str, *, top_k: Optional[int] = None) -> Export:
    """Reads what can be known about an export without loading it.

    Args:
      path: its folder.
      spec_path: the `--spec` of the user; usually empty, because an export keeps its spec.
      top_k: how many items to ask the signature `top_k/<objective>` for; None asks for all outputs.

    Raises:
      ConfigError: the export does not exist, its signature does not take serialized records, or
        `spec_path` means something else than the spec that it keeps.
      ExportError: its graph is damaged.
      SpecError: a spec cannot be read.
    """
    try:
        graph = serving_graph(read_saved_model(path), path)
    except (ConfigError, ExportError) as error:
        raise type(error)(f"--export_dir: {error}") from error
    if top_k is not None:
        return _top_k(path, spec_path, graph.signature_def, top_k)
    name = PREDICT_EXAMPLES
    if name not in graph.signature_def:  # Another program's.
        name = tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY
    inputs = dict(graph.signature_def[name].inputs) if name in graph.signature_def else {}
    if len(inputs) != 1 or next(iter(inputs.values())).dtype != tf.string.as_datatype_enum:
        raise ConfigError(
            f"--export_dir={path} has no signature that takes serialized records: neither "
            f"{PREDICT_EXAMPLES} nor {tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY} does. Use "
            "an export of estimator_kit."
        )
    outputs = graph.signature_def[name].outputs
    return Export(
        path,
        _digest(path),
        name,
        next(iter(inputs)),
        tuple(_output(key, outputs[key], path) for key in sorted(outputs)),
        _spec(path, spec_path),
    )


def _top_k(path: str, spec_path: str, signatures: Any, k: int) -> Export:
    """The export with its signature `top_k/<objective>`."""
    names = sorted(name for name in signatures if name.startswith("top_k/"))
    if len(names) != 1:
        raise ConfigError(
            f"--top_k={k}: expected one signature top_k/<objective> in {path}, got "
            f"{', '.join(names) or 'none'}. Use an export with one objective of the head "
            "next_item, or remove --top_k."
        )
    (name,) = names
    outputs = signatures[name].outputs
    # Exports of earlier releases of the kit have one k for all rows.
    shape = [1] if signatures[name].inputs["k"].tensor_shape.dim else []
    return Export(
        path,
        _digest(path),
        name,
        EXAMPLES,
        tuple(_output(key, outputs[key], path) for key in sorted(outputs)),
        _spec(path, spec_path),
        {"k": np.full(shape, k, np.int32)},
    )


def spec_of(export: Export, what_it_says: str) -> FeatureSpec:
    """The feature spec of an export.

    Args:
      export: as `read` returns it.
      what_it_says: what the caller needs from the spec; it completes "the spec says".

    Raises:
      ConfigError: neither the export nor the user has one.
    """
    if export.spec is None:
        raise ConfigError(
            f"--export_dir={export.path} has no feature spec, which says {what_it_says}. Pass the "
            "spec that it was made with as --spec."
        )
    return export.spec


def choose(export: Export, names: Sequence[str]) -> Export:
    """The export with only these outputs, in this order; with all outputs if `names` is empty.

    Raises:
      ConfigError: the export has no output of that name.
    """
    if not names:
        return export
    outputs = {output.name: output for output in export.outputs}
    check_outputs(names, outputs)
    return dataclasses.replace(export, outputs=tuple(outputs[name] for name in names))


def load(path: str, *, threads: int = 0) -> LoadedModel:
    """Loads an export. The caller closes it.

    Raises:
      ExportError: the export does not load.
    """
    with tensorflow_errors.as_export_error(f"--export_dir={path} does not load"):
        return LoadedModel(
            path,
            0,
            threads=threads,
        )


def ask(
    model: LoadedModel,
    signature: str,
    argument: str,
    records: np.ndarray,
    names: Sequence[str],
    other_inputs: Optional[Mapping[str, np.ndarray]] = None,
) -> dict[str, np.ndarray]:
    """Asks an export with serialized records; returns `{output: [rows, ...]}`.

    Raises:
      ExportError: an output does not have one value for each row.
      tf.errors.OpError: a record cannot be used.
    """
    others = {
        key: np.repeat(value, len(records), axis=0) if value.ndim else value
        for key, value in (other_inputs or {}).items()
    }
    answers = model.run(signature, {argument: records, **others}, names)
    for name in names:
        shape = np.shape(answers[name])
        if shape[:1] != (len(records),):
            raise ExportError(
                f"--export_dir={model.path}: the output {name!r} must have one value for each of "
                f"{len(records)} rows, got the shape {list(shape)}"
            )
    return answers


def predictions(
    export: Export,
    paths: Sequence[str],
    batch_size: int,
    *,
    damaged: tfrecords.Damaged = tfrecords.NO_DAMAGE,
    filtered_by: Optional[FeatureSpec] = None,
    threads: int = 0,
    model: Optional[LoadedModel] = None,
) -> Iterator[dict[str, np.ndarray]]:
    """Batches of predictions for the records of TFRecord files, which are read as they are given.

    The export is loaded when the first batch is requested, and closed after the last one.

    Args:
      export: the export; `choose` limits its outputs.
      paths: the files.
      batch_size: the number of records in each batch but the last.
      damaged: the files of which only the good records are read.
      filtered_by: leaves out the records that the filter of this spec drops; None predicts all.
      threads: of the export's session; 0 lets TensorFlow choose.
      model: the export, if it is loaded already. It stays open.

    Raises:
      ExportError: the export does not load, or an output does not have one value for each record.
      tf.errors.OpError: a record cannot be used.
    """

    def batches() -> Iterator[np.ndarray]:  # The export is loaded before a file is opened.
        if filtered_by is None:
            lists = record_lists.of_files(paths, batch_size, damaged=damaged)
        else:
            lists = Selection(filtered_by).lists(paths, batch_size, damaged=damaged)
        for records in lists:
            yield np.array(records, np.object_)

    yield from answers(export, batches(), threads=threads, model=model)


def answers(
    export: Export,
    batches: Iterable[np.ndarray],
    *,
    threads: int = 0,
    model: Optional[LoadedModel] = None,
) -> Iterator[dict[str, np.ndarray]]:
    """The predictions for batches of serialized records; see `predictions`."""
    loaded = model or load(export.path, threads=threads)
    try:
        names = [output.name for output in export.outputs]
        for records in batches:
            if not len(records):  # All records of the files are dropped.
                continue
            yield ask(
                loaded, export.signature, export.argument, records, names, export.fixed_inputs
            )
    finally:
        if model is None:
            loaded.close()


def _output(name: str, info: Any, path: str) -> Output:
    dtype = tf.as_dtype(info.dtype)
    shape = info.tensor_shape
    sizes = [dimension.size for dimension in shape.dim]
    if not shape.unknown_rank and (not sizes or sizes[0] >= 0):
        raise ConfigError(
            f"--export_dir={path}: the output {name!r} must have one value for each row, got the "
            f"shape {sizes}. Export the model with another output."
        )
    is_open = shape.unknown_rank or min(sizes[1:], default=0) < 0
    return Output(name, dtype.name, None if is_open else math.prod(sizes[1:]))


def _spec(path: str, spec_path: str) -> Optional[FeatureSpec]:
    """The spec that the export keeps, or the user's spec if it keeps none.

    Raises ConfigError if both exist and do not mean the same.
    """
    own_spec = parser.load(spec_path) if spec_path else None
    folder = os.path.join(path, _SPEC)
    kept = run_record.kept_spec(folder)
    if kept is None:
        return own_spec
    changes = [] if own_spec is None else run_record.changes_since(folder, own_spec)
    if changes:
        listing = "\n".join(f"  {change}" for change in changes)
        raise ConfigError(
            f"--spec={spec_path} differs from the spec of the export {path}:\n{listing}\n"
            "Remove --spec: an export is used with the spec that it keeps."
        )
    return kept


def _digest(path: str) -> str:
    """Sixteen hex digits of everything that decides what an export answers.

    Of the variables, only the index is read: it has a checksum of each variable.
    """
    digest = hashlib.sha256()
    for folder, _, names in sorted(tf.io.gfile.walk(path)):
        where = os.path.relpath(folder, path)
        for name in sorted(names):
            graph = where == "." and name.startswith("saved_model.")
            index = where == "variables" and name.endswith(".index")
            spec = where == _SPEC or where.startswith(_SPEC + os.sep)
            if graph or index or spec or where.split(os.sep)[0] == "assets":
                with tf.io.gfile.GFile(os.path.join(folder, name), "rb") as file:
                    content = hashlib.sha256(file.read()).hexdigest()
                digest.update(f"{where}/{name} {content}\n".encode())
    return digest.hexdigest()[:16]
