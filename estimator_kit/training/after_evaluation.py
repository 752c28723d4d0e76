"""Runs after each evaluation: stores its metrics, exports models, and checks for early stopping.

It is one `tf.estimator.Exporter`, because tf.estimator passes the metrics and the checkpoint of an
evaluation only to exporters.
"""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any, Optional

import tensorflow as tf

from estimator_kit.checkpoints import reading
from estimator_kit.checkpoints.scores_meaning import ScoresMeaning
from estimator_kit.config.areas.exports import metric_of
from estimator_kit.config.areas.training import only_stalling_ends
from estimator_kit.config.modes import Train
from estimator_kit.exporters.best import is_better, watched
from estimator_kit.exporters.kinds import Evaluated, exporters_of
from estimator_kit.exporters.saved_model import RunExports
from estimator_kit.model.names import read_metrics
from estimator_kit.observing.histories import Evaluation, EvaluationHistory
from estimator_kit.observing.progress import Progress
from estimator_kit.result import EARLY_STOPPED, BestEvaluation, EvalSet, read_result
from estimator_kit.tf_estimator import estimator
from estimator_kit.training import unfinished
from estimator_kit.training.eval_input import EvalInput
from estimator_kit.training.hooks.other_sets import OtherSets
from estimator_kit.training.hooks.progress import EvaluationProgressHook
from estimator_kit.training.hooks.stop import InterruptHook, StopRequest, stops
from estimator_kit.training.hooks.summaries import CurvesHook
from feature_specs.spec import FeatureSpec
from input_pipelines.errors import DataError
from input_pipelines.input_fns import InputFn
from input_pipelines.record_files import tfrecords
from input_pipelines.row_cache.cache import RowCache

_log = logging.getLogger("estimator_kit")


def evaluation_line(
    step: int,
    metrics: Mapping[str, float],
    watched: str,
    direction: str,
    earlier: Sequence[Optional[float]],
) -> str:
    """One line on an evaluation: the metric that chooses the best export, and the loss or an AUC.

    Args:
      step: the global step of the checkpoint.
      metrics: its metrics.
      watched: the name of the metric that chooses the best export.
      direction: "max" or "min", where this metric is best.
      earlier: this metric in the earlier evaluations; None or NaN where it is undefined.
    """
    aucs = [name for name in metrics if name.startswith("auc")]
    shown = [name for name in (watched, "loss", *aucs) if name in metrics]
    texts = {name: f"{name} {metrics[name]:.4f}" for name in dict.fromkeys(shown)}
    value = metrics.get(watched, math.nan)
    defined = [each for each in earlier if each is not None and not math.isnan(each)]
    better = all(value > each if direction == "max" else value < each for each in defined)
    if defined and better:
        texts[watched] += " (best so far)"
    return f"step {step} evaluated: {', '.join(list(texts.values())[:2])}"


class AfterEvaluation(estimator.Exporter):
    """Writes the history and the exports, and requests an early stop.

    Args:
      config: names the exporters, and says when training has stalled.
      spec: the feature spec of the exports.
      request: receives the request for an early stop.
      meaning: what the scores of this start mean. None if it evaluates nothing.
      eval_input: what is evaluated. Each export is verified with the first rows of the judging set.
        None if nothing is evaluated.

    Attributes:
      metrics: the metrics of the last evaluation, as floats.
      eval_sets: the other sets in the last evaluation, by name.
      exporters: the exporters of --exporters.
    """

    name = "after_evaluation"

    def __init__(
        self,
        command: Train,
        spec: FeatureSpec,
        request: StopRequest,
        eval_input: Optional[EvalInput] = None,
        *,
        meaning: Optional[ScoresMeaning] = None,
    ):
        self._command = command
        self._model_dir = command.run.model_dir
        files = eval_input.files if eval_input is not None else []
        damaged = eval_input.damaged if eval_input is not None else tfrecords.NO_DAMAGE
        self._exports = RunExports(command, spec, files, damaged)
        self._request = request
        self._history = EvaluationHistory(command.run.model_dir)
        # Whether an earlier start may have written some of the exports.
        before = read_result(command.run.model_dir)
        ended = before is not None and before.status == "done"
        self._repeats = not ended or unfinished.unfinished_step(command.run.model_dir) is not None
        self._meaning = meaning
        # This also finds a damaged history before training, not after it.
        self._say_changes(self._history.latest())
        self.read_records()
        self.metrics: dict[str, float] = {}
        self.eval_sets: dict[str, EvalSet] = {}
        self._eval_input = eval_input
        self._scores_of_others: Mapping[str, str] = {}
        if eval_input is not None and meaning is not None:
            self._scores_of_others = eval_input.scores_of_others(meaning)
        self._curves = CurvesHook(command.run.model_dir)
        self._others = OtherSets(
            command.run.model_dir,
            eval_input.others if eval_input is not None else {},
            curves=self._curves,
            check=request.check,
            every_secs=command.program.log_every_secs,
        )
        self._progress = EvaluationProgressHook(every_secs=command.program.log_every_secs)

    def read_records(self) -> None:
        """Reads the records of the exporters again, since an evaluator may have changed them."""
        # `--mode=train` evaluates and exports nothing, and reads no setting of exporters.
        of_evaluations = self._command.program.mode != "train"
        self.exporters = (
            exporters_of(self._command.run, self._command.exports, self._means)
            if of_evaluations
            else []
        )

    def metrics_of(self, step: int) -> Optional[dict[str, float]]:
        """The metrics of an earlier evaluation of a step, or None. They mean the same as now."""
        entry = self._evaluation_of(step)
        return None if entry is None else _as_floats(entry.metrics)

    def _evaluation_of(self, step: int) -> Optional[Evaluation]:
        entries = self._history.alike(self._means)
        return next((entry for entry in entries if entry.global_step == step), None)

    def reading(self, cache: Optional[RowCache] = None) -> InputFn:
        """The input_fn of the evaluations, for use with `hooks`."""
        assert self._eval_input is not None, "this start evaluates nothing"
        return self._others.reading(self._eval_input, cache)

    def hooks(self) -> list[tf.compat.v1.train.SessionRunHook]:
        """The hooks of an evaluation.

        They answer SIGTERM, write curves, show the progress, and evaluate the other sets.
        """
        return [InterruptHook(self._request), self._curves, self._progress, self._others]

    @property
    def _means(self) -> ScoresMeaning:
        assert self._meaning is not None, "this start evaluates nothing"
        return self._meaning

    @property
    def exports(self) -> dict[str, str]:
        """`{exporter: path}`, the export of each exporter that `result.json` names."""
        paths = {exporter.name: exporter.newest for exporter in self.exporters}
        return {name: path for name, path in paths.items() if path is not None}

    def evaluate(self, trained: Any, eval_input: Any, checkpoint: str) -> None:
        """Evaluates and exports a checkpoint. Takes the metrics of an earlier start if it can.

        Meanwhile `unfinished.json` must name its step, so that a start after a kill finds it.
        """
        entry = self._evaluation_of(step_in_name(checkpoint))
        if entry is not None and has_sets(entry.eval_sets, self._scores_of_others):
            metrics: Any = _as_floats(entry.metrics)
            self._others.metrics = {
                name: _as_floats(each.metrics) for name, each in entry.eval_sets.items()
            }
        else:
            metrics = trained.evaluate(eval_input, hooks=self.hooks(), checkpoint_path=checkpoint)
        self.export(trained, "", checkpoint, metrics, is_the_final_export=False)

    def export(
        self,
        estimator: Any,
        export_path: str,
        checkpoint_path: str,
        eval_result: dict[str, Any],
        is_the_final_export: bool,
    ) -> None:
        """Runs after an evaluation; tf.estimator calls it."""
        del export_path, is_the_final_export
        trained = estimator
        self.metrics = read_metrics(eval_result)
        self.eval_sets = {
            name: EvalSet.of(metrics, self._scores_of_others.get(name))
            for name, metrics in self._others.metrics.items()
        }
        step = int(eval_result["global_step"])
        self._means.write(self._model_dir)
        entries = self._history.add(step, self.metrics, self._means, self.eval_sets)
        self._say(step, [entry.metrics for entry in entries[:-1]])
        self._run_exporters(trained, checkpoint_path, at_end=False)
        metric = self._command.training.early_stopping_metric
        if metric is not None and math.isnan(watched(self.metrics, metric_of(metric))):
            self._check_length(step, metric_of(metric))
        if stops(self._command.training, entries):
            self._request.ask(EARLY_STOPPED)

    def _check_length(self, step: int, metric: str) -> None:
        """Raises DataError if only an undefined metric would end the training."""
        if only_stalling_ends(self._command.training):
            raise DataError(
                f"{metric} is undefined in the evaluation of step {step}, so it cannot say when "
                f"training is to end. The {self.metrics.get('rows', 0):.0f} rows of --eval_files "
                "have no rows for it, such as rows with both labels for an AUC. Use other "
                "evaluation rows, another metric, such as --best_metric=loss, or give --max_steps."
            )

    def recall(self, step: int) -> None:
        """Takes the metrics of the evaluation of a step, if the last scores mean the same."""
        entry = self._evaluation_of(step)
        if entry is not None and has_sets(entry.eval_sets, self._scores_of_others):
            self.metrics, self.eval_sets = _as_floats(entry.metrics), dict(entry.eval_sets)

    def of_result(self, stop_reason: Optional[str]) -> dict[str, Any]:
        """The fields of `RunResult` about evaluations. It describes which one they are of."""
        best = self._best()
        metrics, eval_sets = self.metrics, self.eval_sets
        if best is not None and stop_reason == EARLY_STOPPED:
            metrics, eval_sets = _as_floats(best.metrics), dict(best.eval_sets)
        return {
            "metrics": metrics,
            "eval_sets": eval_sets,
            "best": best,
            "rows_evaluated": int(metrics.get("rows", 0)),
        }

    def _best(self) -> Optional[BestEvaluation]:
        """The evaluation with the best --best_metric, of those whose scores mean the same."""
        if self._meaning is None:
            return None
        metric = metric_of(self._command.exports.best_metric)
        direction = self._command.exports.best_direction or "min"
        best, found = math.nan, None
        for entry in self._history.alike(self._means):
            value = entry.metrics.get(metric)
            if value is not None and is_better(value, best, direction):
                best, found = value, entry
        if found is None:
            return None
        return BestEvaluation(
            metric=metric,
            global_step=found.global_step,
            metrics=found.metrics,
            eval_sets=found.eval_sets,
        )

    def is_of_latest(self) -> bool:
        """Whether the last evaluation was of the latest checkpoint."""
        step = self.metrics.get("global_step")
        return step is not None and int(step) == reading.latest_step(self._model_dir)

    def export_again(self, trained: Any) -> None:
        """Writes exports again, of the same checkpoints, because their outputs mean something else.

        Those whose checkpoint is deleted stay as they are, and a line names them.
        """
        old = []
        now = self._now()
        for exporter in self.exporters:
            for written in exporter.of_other_outputs(now):
                checkpoint = os.path.join(self._model_dir, f"model.ckpt-{written.step}")
                if not tf.io.gfile.exists(f"{checkpoint}.index"):
                    old.append(f"{exporter.name}/{written.version} (step {written.step})")
                    continue
                metrics = self.metrics_of(written.step)
                path = self._write(trained, exporter.name, checkpoint, metrics)
                if os.path.basename(path) != written.version:
                    exporter.replace(written, path)
        if old:
            _log.warning(
                "these exports keep their earlier outputs, because their checkpoints were deleted: "
                "%s",
                ", ".join(old),
            )

    def finish(self, trained: Any) -> None:
        """Writes the exports of the end of a training, from the latest checkpoint."""
        self._run_exporters(trained, None, at_end=True)

    def _run_exporters(self, trained: Any, checkpoint: Optional[str], *, at_end: bool) -> None:
        now = self._now()
        for exporter in self.exporters:
            if exporter.at_end is not at_end:
                continue
            if exporter.due(now):
                exporter.begin(now)
                exporter.done(now, self._write(trained, exporter.name, checkpoint))
            exporter.delete_old()

    def _now(self) -> Evaluated:
        return Evaluated(int(self.metrics["global_step"]), self.metrics)

    def _write(
        self,
        trained: Any,
        exporter: str,
        checkpoint: Optional[str] = None,
        metrics: Optional[Mapping[str, float]] = None,
    ) -> str:
        metrics = self.metrics if metrics is None else metrics
        if self._repeats:
            path = self._exports.written_before(trained, exporter, checkpoint, metrics)
            if path is not None:
                return path
        with Progress("export", exporter):
            return self._exports.write(trained, exporter, checkpoint, metrics)

    def _say_changes(self, entries: Sequence[Evaluation]) -> None:
        """Warns if the scores of the latest evaluations mean something else."""
        meaning = self._meaning
        if meaning is not None and entries and not meaning.is_of(entries[-1].scores):
            _log.warning(
                "scores are measured otherwise since step %d (%s). best, best_k and early stopping "
                "begin again; eval_history.jsonl keeps the earlier scores",
                entries[-1].global_step,
                "; ".join(meaning.changes) or "eval_meaning.json does not say what they were",
            )

    def _say(self, step: int, before: Sequence[Mapping[str, Optional[float]]]) -> None:
        """Logs the evaluation as one line, compared with the metrics `before` it."""
        metric = metric_of(self._command.exports.best_metric)
        direction = self._command.exports.best_direction or "min"
        earlier = [metrics.get(metric) for metrics in before]
        line = evaluation_line(step, self.metrics, metric, direction, earlier)
        line += "".join(
            f", {name} {value:.4f}"
            for name, each in self.eval_sets.items()
            if (value := each.metrics.get(metric)) is not None
        )
        seconds = self._progress.seconds
        if seconds is not None:
            line += f", {seconds:.1f} s"
        numbers = {"phase": "evaluate", "step": step, "metrics": self.metrics, "seconds": seconds}
        _log.info("%s", line, extra={"numbers": numbers})


def has_sets(kept: Mapping[str, EvalSet], scores: Mapping[str, str]) -> bool:
    """Whether an evaluation has all other sets, with scores that mean the same as now."""
    return all(name in kept and kept[name].scores == means for name, means in scores.items())


def _as_floats(metrics: Mapping[str, Optional[float]]) -> dict[str, float]:
    return {name: math.nan if value is None else value for name, value in metrics.items()}


def step_in_name(checkpoint: str) -> int:
    """The step of `model.ckpt-<step>`."""
    return int(checkpoint.rpartition("-")[2])
