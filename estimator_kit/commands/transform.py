"""`--mode=transform`: an export in another form, held against the export it is made of.

    freeze     variables become constants; besides, frozen_graph.pb, a GraphDef
    optimize   the same, and TensorFlow's Grappler prunes it and folds constants
    text       saved_model.pbtxt in the place of saved_model.pb
    binary     the other way

and files for other runtimes, by `runtimes.conversion`.

The result is a SavedModel with the same signatures and assets. Both are asked with rows, each in a
process of its own; a result that answers otherwise than the tolerance allows is deleted.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable
from typing import Any, Optional

import numpy as np
import tensorflow as tf
from google.protobuf import text_format
from tensorflow.core.protobuf import config_pb2
from tensorflow.python.grappler import tf_optimizer

from estimator_kit import storage
from estimator_kit.commands.inspect import op_counts, read_saved_model, serving_graph
from estimator_kit.config.experiment_config import ExperimentConfig
from estimator_kit.config.of_modes import TransformConfig
from estimator_kit.embeddings import dynamic_package, dynamic_problems
from estimator_kit.errors import ConfigError, ExportError
from estimator_kit.exporters import c_session, quality_change, skew, verification
from estimator_kit.exporters.sample_rows import SampleRows, on_cpu, sample_rows
from estimator_kit.exporters.versions import new_staging
from estimator_kit.model.session_errors import explained
from estimator_kit.result import RunResult
from feature_specs.parser import parser
from feature_specs.spec import FeatureSpec
from input_pipelines.errors import DataError
from input_pipelines.prepare.tables import kinds
from input_pipelines.reading import files
from input_pipelines.record_files import tfrecords

ROWS = 1000

SAVED_MODEL_FORMS = ("freeze", "optimize", "text", "binary")

NOT_MEASURED = "what it changes in loss and AUC was not measured; --eval_files says on what"

_MAIN_OPS = ("saved_model_main_op", "legacy_init_op")


def run(config: TransformConfig, tell: Callable[[str], None]) -> RunResult:
    """Runs the mode; see `transform`."""
    tell(transform(config))
    return RunResult(mode=config.mode)


def transform(config: ExperimentConfig) -> str:
    """Writes `transform_dir` from `export_dir`; returns what to tell the user.

    Raises:
      ConfigError: there is no such export, the folder is taken, or a file is a table by its name.
      DataError: a record cannot be read; names it.
      ExportError: the result does not answer, or answers otherwise; nothing of it is left.
    """
    source, target = str(config.export_dir), str(config.transform_dir)
    if tf.io.gfile.exists(target):
        raise ConfigError(f"--transform_dir={target} is there already; name a new folder")
    dynamic_problems.check_transform(source, str(config.transform))
    dynamic_package.load_ops_of(source)
    if config.transform not in SAVED_MODEL_FORMS:
        from estimator_kit.exporters.runtimes import conversion

        return conversion.convert(config)
    saved = read_saved_model(source)
    before = serving_graph(saved, source)
    records = _records(config, kept_spec(source))
    staged = new_staging(os.path.dirname(os.path.abspath(target)), time.time())
    try:
        _write(saved, source, staged, str(config.transform))
        after = serving_graph(read_saved_model(staged), staged)
        largest = _difference(before, source, staged, records, config.transform_tolerance)
        changes = _quality_changes(config, before, source, staged)
        tf.io.gfile.rename(staged, target)
    finally:
        if tf.io.gfile.exists(staged):
            tf.io.gfile.rmtree(staged)
    counts = [sum(op_counts(meta.graph_def).values()) for meta in (before, after)]
    return (
        f"{config.transform}: {target}\n"
        f"  bytes {folder_bytes(source):,} -> {folder_bytes(target):,}\n"
        f"  ops   {counts[0]:,} -> {counts[1]:,}\n"
        f"  largest difference on {len(records):,} rows: {largest:.2g}"
        + "".join(f"\n  {line}" for line in changes)
    )


def _write(saved: Any, source: str, staged: str, kind: str) -> None:
    tf.io.gfile.makedirs(staged)
    meta = serving_graph(saved, source)
    parts = ["assets", "assets.extra"]
    if kind in ("freeze", "optimize"):
        graph = frozen(source, meta)
        if kind == "optimize":
            graph = _optimized(meta, graph)
        meta.graph_def.CopyFrom(graph)
        meta.ClearField("saver_def")
        meta.ClearField("object_graph_def")
        for name in list(meta.collection_def):
            if name not in (*_MAIN_OPS, "saved_model_assets"):
                del meta.collection_def[name]
        with tf.io.gfile.GFile(os.path.join(staged, "frozen_graph.pb"), "wb") as file:
            file.write(graph.SerializeToString())
    else:
        parts.append("variables")
    for part in parts:
        storage.copy_folder(os.path.join(source, part), os.path.join(staged, part))
    name = "saved_model.pbtxt" if kind == "text" else "saved_model.pb"
    with tf.io.gfile.GFile(os.path.join(staged, name), "wb") as file:
        text = kind == "text"
        file.write(text_format.MessageToString(saved) if text else saved.SerializeToString())


def _kept_nodes(meta: Any) -> list[str]:
    """The nodes that a loaded SavedModel is asked by: outputs, inputs, what runs at its start."""
    tensors = [
        info.name
        for signature in meta.signature_def.values()
        for info in (*signature.outputs.values(), *signature.inputs.values())
    ]
    for name in _MAIN_OPS:
        if name in meta.collection_def:
            tensors += meta.collection_def[name].node_list.value
    tensors += [asset.tensor_info.name for asset in meta.asset_file_def]
    return sorted({tensor.partition(":")[0] for tensor in tensors})


def frozen(source: str, meta: Any) -> Any:
    """The GraphDef of an export with constants for its variables."""
    with tf.Graph().as_default() as graph, tf.compat.v1.Session(config=on_cpu()) as session:
        tf.compat.v1.saved_model.load(session, [tf.saved_model.SERVING], source)
        return tf.compat.v1.graph_util.convert_variables_to_constants(
            session, graph.as_graph_def(), _kept_nodes(meta)
        )


def _optimized(meta: Any, graph: Any) -> Any:
    """Pruned and folded by Grappler; the constants of asset paths, which loaders fill, stay."""
    item = type(meta)()
    item.CopyFrom(meta)
    item.graph_def.CopyFrom(graph)
    item.ClearField("asset_file_def")
    item.ClearField("collection_def")
    item.collection_def["train_op"].node_list.value.extend(_kept_nodes(meta))
    paths = {asset.tensor_info.name.partition(":")[0] for asset in meta.asset_file_def}
    kept = {}
    for node in item.graph_def.node:
        if node.name in paths:
            kept[node.name] = type(node).FromString(node.SerializeToString())
            node.op = "Placeholder"
            node.attr.pop("value")
            node.attr["shape"].shape.SetInParent()
    config = config_pb2.ConfigProto()
    options = config.graph_options.rewrite_options
    options.min_graph_nodes = -1
    options.optimizers.extend(["pruning", "function", "constfold", "arithmetic", "dependency"])
    options.meta_optimizer_iterations = 2
    result = tf_optimizer.OptimizeGraph(config, item)
    for node in result.node:
        if node.name in kept:
            node.CopyFrom(kept[node.name])
    return result


def kept_spec(source: str) -> Optional[FeatureSpec]:
    """The feature spec that an export keeps; None of another program's."""
    path = spec_path(source)
    return parser.load(path) if tf.io.gfile.exists(path) else None


def spec_path(source: str) -> str:
    """Where an export keeps its feature spec."""
    return os.path.join(source, "assets.extra", "feature_spec", "spec.json")


def _records(config: ExperimentConfig, spec: Optional[FeatureSpec]) -> list[bytes]:
    """The first records of `predict_files`, which fit the spec where there is one."""
    if spec is not None:
        return list(sample(config, spec, "predict_files", ROWS).records)
    paths = _record_files(config, "predict_files")
    with tfrecords.naming_what_is_corrupt(paths):
        blocks = tfrecords.blocks(paths).as_numpy_iterator()
        found = list(itertools.islice(itertools.chain.from_iterable(blocks), ROWS))
    if not found:
        raise _no_record("predict_files", paths)
    return found


def sample(config: ExperimentConfig, spec: FeatureSpec, field: str, count: int) -> SampleRows:
    """The first rows of the files of a flag.

    Raises:
      ConfigError: a file is a table, by its name.
      DataError: a record cannot be read, does not fit the spec, or there is none.
    """
    paths = _record_files(config, field)
    with explained(spec, paths, with_labels=False):
        found = sample_rows(spec, paths, count=count)
    if found is None:
        raise _no_record(field, paths)
    return found


def _record_files(config: ExperimentConfig, field: str) -> list[str]:
    paths = files.expand(getattr(config, field), flag=f"--{field}")
    for path in paths:
        kind = kinds.kind_of(path)
        if kind != kinds.TFRECORD:
            raise ConfigError(
                f"--{field}: {path} is {kind} by its name; --mode=transform asks with the records "
                "of TFRecord files: name some, as --mode=convert writes them"
            )
    return paths


def _no_record(field: str, paths: list[str]) -> DataError:
    others = " and the other files" if len(paths) > 1 else ""
    return DataError(f"--{field}: there is no record in {paths[0]}{others}; nothing to ask with")


def _difference(
    meta: Any, source: str, staged: str, records: list[bytes], tolerance: float
) -> float:
    """The largest difference between the answers of two exports, of the first fitting signature."""
    name, key = records_signature(meta, source)
    before, after = (answers_of(path, name, key, records) for path in (source, staged))
    try:
        return skew.check_answers(
            before, after, f"signature {name}", tolerance, ("before", "after")
        )
    except skew.Skew as error:
        raise ExportError(f"the result of --mode=transform was refused: {error}") from error


def _quality_changes(
    config: ExperimentConfig, meta: Any, source: str, staged: str
) -> list[str]:
    """What `quality_change` says of the result; that it was not asked, without --eval_files."""
    if not config.eval_files:
        return [NOT_MEASURED]
    spec = kept_spec(source)
    if spec is None:
        raise ConfigError(
            f"--eval_files: --export_dir={source} has no {spec_path(source)}, which says what the "
            "labels are; leave --eval_files out"
        )
    name, key = records_signature(meta, source)
    records = list(sample(config, spec, "eval_files", quality_change.ROWS).records)
    before, after = (answers_of(path, name, key, records) for path in (source, staged))
    return check_quality(config, spec, records, before, after)


def check_quality(
    config: ExperimentConfig, spec: FeatureSpec, records: list[bytes],
    before: dict[str, np.ndarray], after: dict[str, np.ndarray],
) -> list[str]:  # fmt: skip
    """`quality_change.check` on records of --eval_files; a label that cannot be used is named."""
    limit = config.transform_max_loss_increase
    with explained(spec, _record_files(config, "eval_files")):
        return quality_change.check(spec, records, before, after, limit=limit)


def records_signature(meta: Any, source: str) -> tuple[str, str]:
    """The name of a signature that takes serialized records, and of its input."""
    for name in ("predict_examples", tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY):
        inputs = dict(meta.signature_def[name].inputs) if name in meta.signature_def else {}
        if len(inputs) == 1 and next(iter(inputs.values())).dtype == tf.string.as_datatype_enum:
            return name, next(iter(inputs))
    raise ConfigError(f"--export_dir={source}: no signature that takes serialized records")


def answers_of(export: str, name: str, key: str, records: list[bytes]) -> dict[str, np.ndarray]:
    """What a signature of an export answers to records, in TensorFlow's C++ loader."""
    with verification.started() as loader:
        if loader is None:
            raise ExportError("TensorFlow is installed without its C library to compare with")
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
