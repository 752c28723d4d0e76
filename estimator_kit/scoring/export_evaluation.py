"""`--mode=evaluate --export_dir`: the metrics of an export on `--eval_files`, without a checkpoint.

    evaluated = evaluate(config)
    evaluated.result.metrics       # {"auc/click": 0.77, ...}, as in an evaluation of the checkpoint

The export returns the logits of each row. The objectives compute losses and metrics from logits and
labels, as in the evaluation of a model. `metrics_left_out` lists what an export does not contain.
The numbers go into `evaluation-<eval_name>.json` in `--model_dir`, or to standard output without
`--model_dir`. Never writes into the export, and never reads a checkpoint.
"""

from __future__ import annotations

import dataclasses
import logging
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Optional, TypeVar

import numpy as np
import tensorflow as tf

from estimator_kit.config.areas.data import Data
from estimator_kit.config.areas.program import Program
from estimator_kit.config.areas.reading import Reading
from estimator_kit.config.areas.run import Run
from estimator_kit.config.modes import Evaluate
from estimator_kit.errors import ConfigError
from estimator_kit.exporters.extra_files import Lineage, Metrics
from estimator_kit.exporters.sample_rows import on_cpu
from estimator_kit.model.heads import Head, joint, make_heads
from estimator_kit.model.session_errors import explained
from estimator_kit.observing import report
from estimator_kit.result import EvalSet, EvaluationResult, evaluation_path
from estimator_kit.scoring import export as exports
from estimator_kit.scoring.export import Export
from estimator_kit.training import bad_data, preparation
from estimator_kit.training.eval_input import EvalInput, all_paths
from estimator_kit.training.records import summary
from feature_specs.files import file_systems, staged
from feature_specs.parser import parser
from feature_specs.spec import FeatureSpec
from input_pipelines import input_fns
from input_pipelines.transform.transforms import Transform

_log = logging.getLogger("estimator_kit")

_Extra = TypeVar("_Extra", Lineage, Metrics)

_NO_LOSS = (
    "the model combines the losses of its objectives and adds its regularization, and an export "
    "contains neither"
)
_NO_FACTOR = "training learned it outside the model, and an export does not contain it"
_NO_STEP = "the export does not say at which step it was written"
_OTHER = "the evaluation of the checkpoint had it, but logits and labels are not enough for it"


@dataclasses.dataclass(frozen=True)
class Evaluated:
    """An evaluation of an export.

    Attributes:
      result: what the run did, which is the content of the file.
      path: the path of the file; None without a model directory.
      text: the summary that the user reads.
    """

    result: EvaluationResult
    path: Optional[str]
    text: str


def evaluate(command: Evaluate) -> Evaluated:
    """Evaluates `--export_dir` on `--eval_files`.

    The spec is `--spec`, which must mean the same as the spec that the export keeps; if it is
    empty, the spec that the export keeps.

    Raises:
      ConfigError: the export does not exist, it lacks a spec or an objective, or the file of the
        numbers cannot be in the model directory.
      DataError: a record cannot be used, or has no label; the message names it.
      ExportError: the export does not load, or does not answer for each row.
    """
    assert command.export.export_dir is not None
    preparation.write_default_data(command.data)
    file_systems.check(command.export.export_dir, flag="--export_dir")
    path = exports.newest(command.export.export_dir)
    kept_at = _place(command.run, command.reading, path)
    export = exports.read(path, command.run.spec)
    spec = exports.spec_of(export, "what the labels are")
    if command.run.spec:  # Means the same, but may filter rows and add metrics.
        spec = parser.load(command.run.spec)
    heads = make_heads(spec)
    _check_outputs(export, heads)
    lineage, kept = _extra(path, Lineage), _extra(path, Metrics)
    step = lineage.global_step if lineage is not None else None
    if command.reading.named_cache is not None:
        _log.info("--input_cache_dir is ignored: an export reads records")
    screened = bad_data.screen(
        command.program,
        command.reading,
        spec,
        all_paths(command.program, command.data, spec),
        remedy=exports.RECORD_REMEDY,
    )
    eval_input = EvalInput.of(command, spec, screened)
    counts = eval_input.counts
    files = eval_input.all_files
    with explained(spec, files, damaged=eval_input.damaged, remedy=exports.RECORD_REMEDY):
        metrics, *others = _metrics(
            command.program,
            command.reading,
            export,
            spec,
            heads,
            [eval_input, *eval_input.others.values()],
        )
    if step is not None:
        metrics["global_step"] = float(step)
    result = EvaluationResult(
        mode=command.program.mode,
        eval_name=command.reading.eval_name,
        export_dir=path,
        spec=spec.source,
        eval_files=eval_input.names,
        global_step=step,
        metrics=metrics,
        eval_sets={name: EvalSet.of(each) for name, each in zip(eval_input.others, others)},
        rows_evaluated=int(metrics["rows"]),
        rows_selected={"eval": summary([counts])} if counts else {},
        bad_data=screened.counts,
        metrics_left_out=_left_out(kept.root if kept else {}, heads, metrics),
    )
    if kept_at is not None:
        result.save(kept_at)
    return Evaluated(
        result,
        kept_at,
        _text(command.run, command.data, spec, path, result, kept_at),
    )


def _place(run: Run, reading: Reading, export: str) -> Optional[str]:
    """The path of the file for the numbers; None without a model directory.

    Raises:
      ConfigError: the model directory is inside the export or cannot be written, or the file has
        an evaluation of a checkpoint.
    """
    if run.model_dir is None:
        return None
    staged.check_writable(run.model_dir, flag="--model_dir")
    inside, outside = (
        folder.rstrip("/") if file_systems.scheme_of(folder) else os.path.realpath(folder)
        for folder in (run.model_dir, export)
    )
    if f"{inside}/".startswith(f"{outside}/"):
        raise ConfigError(
            f"--model_dir={run.model_dir} is inside the export {export}. The kit never writes "
            "into an export, because a server may use it. Name another folder, or remove "
            "--model_dir."
        )
    path = evaluation_path(run.model_dir, reading.eval_name)
    kept = EvaluationResult.load(path)
    if kept is not None and kept.checkpoint is not None:
        raise ConfigError(
            f"{path} has the evaluation of a checkpoint. Give the evaluation of the export another "
            "name, for example --eval_name=export."
        )
    return path


def _check_outputs(export: Export, heads: Mapping[str, Head]) -> None:
    """Raises ConfigError unless the export has the logits of each objective."""
    answered = {output.name: output for output in export.outputs}
    for name, head in heads.items():
        output = f"{name}/{head.logits_output}"
        if output not in answered:
            raise ConfigError(
                f"--export_dir={export.path} lacks the objective {name!r}: expected the output "
                f"{output!r} of the signature {export.signature}, got {', '.join(answered)}"
            )
        width = answered[output].width
        if width is not None and width != head.logits_dimension:
            raise ConfigError(
                f"--export_dir={export.path}: the output {output!r} has {width} numbers for each "
                f"row, expected {head.logits_dimension} for the objective {name!r} of the spec"
            )


class _MetricGraph(NamedTuple):
    """A graph that computes metrics batch by batch.

    Attributes:
      graph: the graph.
      records, logits: the placeholders of a batch; logits by objective.
      begin, updates, values: what to run at the start, with each batch, and at the end.
    """

    graph: tf.Graph
    records: tf.Tensor
    logits: Mapping[str, tf.Tensor]
    begin: Sequence[tf.Operation]
    updates: Sequence[tf.Operation]
    values: Mapping[str, tf.Tensor]


def _metric_graph(spec: FeatureSpec, heads: Mapping[str, Head]) -> _MetricGraph:
    v1 = tf.compat.v1
    with tf.Graph().as_default() as graph:
        records = v1.placeholder(tf.string, [None])
        logits = {
            name: v1.placeholder(tf.float32, [None, head.logits_dimension])
            for name, head in heads.items()
        }
        labels = joint.dense_labels(Transform(spec).features_and_labels(records)[1])
        weights = joint.weights_of(heads, labels)
        metrics = joint.metrics_of(heads, logits, labels, weights)
        begin = [v1.local_variables_initializer(), v1.tables_initializer()]
    updates = [update for _, update in metrics.values()]
    values = {name: value for name, (value, _) in metrics.items()}
    return _MetricGraph(graph, records, logits, begin, updates, values)


def _metrics(
    program: Program,
    reading: Reading,
    export: Export,
    spec: FeatureSpec,
    heads: Mapping[str, Head],
    sets: Sequence[EvalInput],
) -> list[dict[str, float]]:
    """`rows`, and the metrics of the objectives, of each set of rows."""
    metric_graph = _metric_graph(spec, heads)
    outputs = {name: f"{name}/{o.logits_output}" for name, o in heads.items()}
    model = exports.load(
        export.path,
        threads=program.threads,
    )
    # Not entered, which would end the eager execution that reads the files.
    session = tf.compat.v1.Session(graph=metric_graph.graph, config=on_cpu())

    def of_set(rows_of_set: EvalInput) -> dict[str, float]:
        batches = input_fns.eval_records(
            spec,
            rows_of_set.files,
            batch_size=reading.eval_batch_size,
            limit=reading.eval_steps,
            damaged=rows_of_set.damaged,
        )
        rows = 0
        session.run(metric_graph.begin)
        for batch in batches.as_numpy_iterator():
            answers = exports.ask(
                model, export.signature, export.argument, batch, list(outputs.values())
            )
            fed: dict[Any, np.ndarray] = {metric_graph.records: batch}
            for name, output in outputs.items():
                fed[metric_graph.logits[name]] = np.reshape(answers[output], (len(batch), -1))
            session.run(metric_graph.updates, fed)
            rows += len(batch)
        values = session.run(metric_graph.values)
        return {"rows": float(rows), **{name: float(value) for name, value in values.items()}}

    try:
        return list(map(of_set, sets))
    finally:
        session.close()
        model.close()


def _left_out(
    before: Mapping[str, Any], heads: Mapping[str, Head], metrics: Mapping[str, float]
) -> dict[str, str]:
    """The metrics that an evaluation of the export's checkpoint has but this one lacks, and why.

    Args:
      before: the metrics that the export keeps of its checkpoint; empty if it keeps none.
      heads: the heads of the objectives, by name.
      metrics: the metrics of this evaluation.
    """
    reasons = {"loss": _NO_LOSS}
    if "global_step" not in metrics:
        reasons["global_step"] = _NO_STEP
    if not before and len(heads) > 1:
        reasons["loss_factor/*"] = f"if the model has any: {_NO_FACTOR}"
    for name in before:
        if name not in metrics and name not in reasons:
            reasons[name] = _NO_FACTOR if name.startswith("loss_factor/") else _OTHER
    return reasons


def _extra(export: str, kind: type[_Extra]) -> Optional[_Extra]:
    """A file of `assets.extra`; None if the file does not exist or is damaged.

    No metric depends on these files, so a damaged one only causes a warning.
    """
    try:
        return kind.of(export)
    except ConfigError as error:
        _log.warning("%s Until then, it is treated as missing.", error)
        return None


def _text(
    run: Run,
    data: Data,
    spec: FeatureSpec,
    export: str,
    result: EvaluationResult,
    kept_at: Optional[str],
) -> str:
    lines = [report.summary(run, data, spec, result), f"the export is {export}"]
    lines += [f"not computed: {name}: {why}" for name, why in result.metrics_left_out.items()]
    if kept_at is not None:
        lines.append(f"the metrics of this evaluation are in {kept_at}")
    return "\n".join(lines)
