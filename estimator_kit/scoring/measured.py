"""What is measured of an export: `slices.json`, `importance.json` and `flops.json`.

    write("runs/ads", spec, "runs/ads/export/final/1700000000", files, by=["country"])

They go into `observed/` of the model directory, where the report page finds them. The export
answers rows of `--eval_files`. It changes neither the training nor its checkpoints.

The floating-point operations of a prediction are the matrix products in the graph of an export;
`model.operations` says how they are counted. Counting reads the graph and runs nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Optional

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from estimator_kit import tensorflow_errors
from estimator_kit.checkpoints import kept_files
from estimator_kit.errors import ConfigError
from estimator_kit.exporters.saved_model_graph import read_saved_model, serving_graph
from estimator_kit.model import operations
from estimator_kit.model.names import PREDICT_EXAMPLES
from estimator_kit.observing.measured_export import Flops, path_of
from estimator_kit.scoring import importance, slices
from estimator_kit.scoring.eval_rows import EvalRows, answers, by_row
from feature_specs.files import file_systems
from feature_specs.heads import HEADS
from feature_specs.spec import FeatureSpec
from input_pipelines.reading.selection import Selection
from input_pipelines.record_files import tfrecords
from input_pipelines.transform.serving_inputs import EXAMPLES

_log = logging.getLogger("estimator_kit")

# Rows whose features are shuffled: enough for an AUC that is right to about 0.01.
MOST_ROWS = 20_000
_BATCH = 2048


def check(spec: FeatureSpec, *, by: Sequence[str], with_importance: bool) -> None:
    """Raises ConfigError if there would be nothing to measure. The arguments are as in `write`."""
    slices.check(spec, by)
    if (by or with_importance) and not judged(spec):
        heads = dict.fromkeys(entry.head for entry in spec.objectives.values())
        names = [name for name, head in HEADS.items() if head.answer is not None]
        flag = "--slices" if by else "--importance"
        raise ConfigError(
            f"{flag}: expected an objective with a metric of single rows, got only the heads "
            f"{', '.join(heads)}. Remove {flag}, or add an objective with one of the heads "
            f"{', '.join(names)} without steps."
        )


def write(
    model_dir: str,
    spec: FeatureSpec,
    export: str,
    files: Sequence[str],
    *,
    damaged: tfrecords.Damaged = tfrecords.NO_DAMAGE,
    by: Sequence[str] = (),
    with_importance: bool = False,
    batch_size: int = _BATCH,
) -> None:
    """Measures an export and writes the files; without `by` and importance it does nothing.

    Args:
      model_dir: gets the files.
      spec: the feature spec.
      export: the folder of the SavedModel.
      files: of the evaluation.
      damaged: the files of which only the good records are read.
      by: features of the slices.
      with_importance: whether the importance of features is measured.
      batch_size: rows that the export is asked for at a time.
    """
    objectives = judged(spec)
    if by:
        _log.info("measuring slices of %s", ", ".join(by))
        rows = EvalRows(spec, files, features=by, batch_size=batch_size, damaged=damaged)
        measured_slices = slices.slices(spec, rows, rows.predictions(export, objectives), by)
        measured_slices.save(path_of(model_dir, "slices.json"))
    if with_importance:
        _log.info("measuring the importance of %d features", len(importance.groups(spec)))
        asked = importance.importance(
            spec, asker(spec, export, objectives, batch_size), records(spec, files, damaged)
        )
        asked.save(path_of(model_dir, "importance.json"))


def forget(model_dir: str, *, by: Sequence[str], with_importance: bool) -> None:
    """Removes the files that `write` will write. They are of an older export."""
    for name, is_written in (("slices.json", bool(by)), ("importance.json", with_importance)):
        path = path_of(model_dir, name)
        if is_written and tf.io.gfile.exists(path):
            tf.io.gfile.remove(path)


def judged(spec: FeatureSpec) -> list[str]:
    """The objectives that have a metric of rows."""
    return [name for name, entry in spec.objectives.items() if entry.judged]


def records(
    spec: FeatureSpec,
    files: Sequence[str],
    damaged: tfrecords.Damaged = tfrecords.NO_DAMAGE,
) -> list[bytes]:
    """Up to MOST_ROWS records that the spec's filter keeps, the same number of each file."""
    share = -(-MOST_ROWS // len(files))
    kept_records: list[bytes] = []
    for path in file_systems.ordered(files):
        kept_records += next(Selection(spec).lists([path], share, damaged=damaged), [])
    return kept_records[:MOST_ROWS]


def asker(
    spec: FeatureSpec,
    export: str,
    objectives: Sequence[str],
    batch_size: int = _BATCH,
    outputs: Optional[Mapping[str, str]] = None,
) -> importance.Ask:
    """A function from serialized records to predictions by objective.

    Args:
      spec, export, objectives, batch_size: see `write`.
      outputs: the output of the export for each objective; by default the `answers`.
    """
    kept_files.check_export(export)
    with tensorflow_errors.as_export_error(f"{export} does not load"):
        loaded = tf.saved_model.load(export)
    predict = loaded.signatures[PREDICT_EXAMPLES]
    outputs = answers(spec, objectives) if outputs is None else outputs

    def ask(asked: NDArray[Any]) -> Mapping[str, NDArray[Any]]:
        parts: dict[str, list[Any]] = {name: [] for name in objectives}
        for start in range(0, len(asked), batch_size):
            batch = tf.constant(list(asked[start : start + batch_size]))
            answer = predict(**{EXAMPLES: batch})
            for name, output in outputs.items():
                parts[name].append(answer[output].numpy())
        return {
            name: by_row(spec.objectives[name], np.concatenate(values))
            for name, values in parts.items()
        }

    return ask


def write_flops(model_dir: str, export: str) -> None:
    """Counts the operations of an export, and writes the file into the model directory."""
    count(export).save(path_of(model_dir, "flops.json"))


def count(export: str) -> Flops:
    """The operations of a prediction for one row.

    Args:
      export: the folder of a SavedModel of the kit.
    """
    meta = serving_graph(read_saved_model(export), export)
    outputs = meta.signature_def[PREDICT_EXAMPLES].outputs.values()
    graph = tf.Graph()
    with graph.as_default():
        tf.import_graph_def(meta.graph_def, name="")
    by_op: dict[str, int] = {}
    varying = 0
    for op in operations.needed(graph.get_tensor_by_name(output.name) for output in outputs):
        if op.type in operations.PRODUCTS:
            count_of_op, varies = operations.of_product(op)
            by_op[op.type] = by_op.get(op.type, 0) + count_of_op
            varying += varies
    return Flops(a_row=sum(by_op.values()), by_op=by_op, varying=varying)
