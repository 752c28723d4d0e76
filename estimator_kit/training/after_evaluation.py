"""Runs after each evaluation: stores its metrics, exports models, and checks for early stopping.

It is one `tf.estimator.Exporter`, because tf.estimator passes the metrics and the checkpoint of an
evaluation only to exporters.
"""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Optional

import tensorflow as tf

from estimator_kit.checkpoints.scores_meaning import ScoresMeaning
from estimator_kit.compat.tf_estimator import estimator
from estimator_kit.config.areas.exports import metric_of
from estimator_kit.config.mode_configs import ModelDirConfig
from estimator_kit.exporters.best import BestRecord, Direction, Entry, Record
from estimator_kit.exporters.best_k import BestKRecord
from estimator_kit.exporters.run_exports import RunExports, export_folder
from estimator_kit.exporters.step import StepRecord
from estimator_kit.exporters.versions import delete, delete_old, kept
from estimator_kit.model.names import read_metrics
from estimator_kit.observing.evaluation_history import Evaluation, EvaluationHistory
from estimator_kit.observing.progress import Progress
from estimator_kit.result import read_result
from estimator_kit.training import unfinished
from estimator_kit.training.hooks.curves import CurvesHook
from estimator_kit.training.hooks.early_stopping import stops
from estimator_kit.training.hooks.progress import EvaluationProgressHook
from estimator_kit.training.hooks.stop import EARLY_STOPPED, InterruptHook, StopRequest
from feature_specs.files import staged, versions
from feature_specs.spec import FeatureSpec
from input_pipelines.record_files import tfrecords

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
    known = [each for each in earlier if each is not None and not math.isnan(each)]
    better = all(value > each if direction == "max" else value < each for each in known)
    if known and better:
        texts[watched] += " (best so far)"
    return f"step {step} evaluated: {', '.join(list(texts.values())[:2])}"


class AfterEvaluation(estimator.Exporter):
    """Writes the history and all exports except the final one, and requests an early stop.

    Args:
      config: names the exporters, and says when training has stalled.
      spec: the feature spec of the exports.
      request: receives the request for an early stop.
      meaning: what the scores of this start mean. None if it evaluates nothing.
      files: the evaluation files. Each export is verified with their first rows.
      damaged: the files in `files` of which only the good records are read.

    Attributes:
      metrics: the metrics of the last evaluation, as floats.
      exports: `{exporter: path}`, the last export of each exporter.
    """

    name = "after_evaluation"

    def __init__(
        self,
        config: ModelDirConfig,
        spec: FeatureSpec,
        request: StopRequest,
        files: Sequence[str] = (),
        damaged: tfrecords.Damaged = tfrecords.NO_DAMAGE,
        *,
        meaning: Optional[ScoresMeaning] = None,
    ):
        self._config = config
        self._model_dir = config.model_dir
        # `--mode=train` evaluates and exports nothing, and reads no setting of exporters.
        self._exporters = config.exporter_names if config.mode != "train" else ()
        self._exports = RunExports(config, spec, files, damaged)
        self._request = request
        self._history = EvaluationHistory(config.model_dir)
        # Whether an earlier start may have written some of the exports.
        before = read_result(config.model_dir)
        ended = before is not None and before.status == "done"
        self._repeats = not ended or unfinished.step_of(config.model_dir) is not None
        self._meaning = meaning
        # This also finds a damaged history before training, not after it.
        self._say_changes(self._history.latest())
        self.read_records()
        self.metrics: dict[str, float] = {}
        self._progress = EvaluationProgressHook(every_secs=config.log_every_secs)

    def read_records(self) -> None:
        """Reads the records of the exporters again, since an evaluator may have changed them."""
        config = self._config
        for exporter in self._exporters:
            folder = export_folder(self._model_dir, exporter)
            staged.check_writable(folder, flag="--model_dir")
            kept(folder)  # A damaged keep.json is found before training, not after it.
        self._best: Optional[BestRecord] = None
        if "best" in self._exporters:
            folder = export_folder(self._model_dir, "best")
            self._best = BestRecord(
                folder, metric_of(config.best_metric), self._direction, self._means
            )
        self._best_k: Optional[BestKRecord] = None
        if "best_k" in self._exporters:
            folder = export_folder(self._model_dir, "best_k")
            self._best_k = BestKRecord(
                folder, metric_of(config.best_metric), self._direction, config.best_k, self._means
            )
        self._step: Optional[StepRecord] = None
        if "step" in self._exporters:
            folder = export_folder(self._model_dir, "step")
            assert config.export_every_steps is not None
            self._step = StepRecord(folder, config.export_every_steps)

    def known(self, step: int) -> Optional[dict[str, float]]:
        """The metrics of an earlier evaluation of a step, or None. They mean the same as now."""
        for entry in self._history.alike(self._means):
            if entry.global_step == step:
                found = entry.metrics.items()
                return {name: math.nan if value is None else value for name, value in found}
        return None

    def hooks(self) -> list[tf.compat.v1.train.SessionRunHook]:
        """The hooks of an evaluation: they answer SIGTERM, write curves, and show the progress."""
        return [InterruptHook(self._request), CurvesHook(self._model_dir), self._progress]

    @property
    def _means(self) -> ScoresMeaning:
        assert self._meaning is not None, "this start evaluates nothing"
        return self._meaning

    @property
    def _direction(self) -> Direction:
        return self._config.best_direction or "min"

    @property
    def exports(self) -> dict[str, str]:
        found = {}
        for exporter in {"latest", "step"}.intersection(self._exporters):
            paths = versions.paths(export_folder(self._model_dir, exporter))
            if paths:
                found[exporter] = paths[-1]
        if self._best is not None and self._best.best is not None:
            folder = export_folder(self._model_dir, "best")
            found["best"] = os.path.join(folder, self._best.best.version)
        if self._best_k is not None and self._best_k.best:
            folder = export_folder(self._model_dir, "best_k")
            found["best_k"] = os.path.join(folder, self._best_k.best[0].version)
        return found

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
        step = int(eval_result["global_step"])
        self._means.write(self._model_dir)
        entries = self._history.add(step, self.metrics, self._means)
        self._say(step, [entry.metrics for entry in entries[:-1]])
        if "latest" in self._exporters:
            self._write(trained, "latest", checkpoint_path)
            self._delete_old("latest")
        if self._best is not None:
            value = self._watched(metric_of(self._config.best_metric))
            if self._best.improves(value):
                self._best.begin(value, step)
                self._best.add(value, step, self._write(trained, "best", checkpoint_path))
            self._delete_old("best")
        if self._best_k is not None:
            value = self._watched(metric_of(self._config.best_metric))
            if self._best_k.improves(value, step):
                self._best_k.begin(value, step)
                path = self._write(trained, "best_k", checkpoint_path)
                for version in self._best_k.add(value, step, path):
                    delete(os.path.dirname(path), version)
        if self._step is not None:
            if self._step.is_due(step):
                self._write(trained, "step", checkpoint_path)
                self._step.add(step)
            self._delete_old("step")
        metric = self._config.early_stopping_metric
        if metric is not None:
            self._watched(metric_of(metric))
        if stops(self._config, entries):
            self._request.ask(EARLY_STOPPED)

    def recall(self, step: int) -> None:
        """Takes the metrics of the evaluation of a step, if the last scores mean the same."""
        self.metrics = self.known(step) or {}

    def export_again(self, trained: Any) -> None:
        """Writes `latest` and the best exports again, of the same checkpoints.

        The exports of the exporter `step` stay as they are, as a record of these steps. So do those
        whose checkpoint is deleted, and a line names them.
        """
        if "latest" in self._exporters:
            self._write(trained, "latest")
            self._delete_old("latest")
        old = []
        for exporter, record, entry in self._best_exports():
            step, version = entry.global_step, entry.version
            checkpoint = os.path.join(self._model_dir, f"model.ckpt-{step}")
            if not tf.io.gfile.exists(f"{checkpoint}.index"):
                old.append(f"{exporter}/{version} (step {step})")
                continue
            path = self._write(trained, exporter, checkpoint, self.known(step))
            if os.path.basename(path) != version:
                record.replace(entry, path)
                delete(os.path.dirname(path), version)
        if old:
            _log.warning(
                "these exports keep their earlier outputs, because their checkpoints were deleted: "
                "%s",
                ", ".join(old),
            )

    def _best_exports(self) -> Iterator[tuple[str, Record[Any], Entry]]:
        """The exporter, the record and the entry of each of the best exports."""
        if self._best is not None and self._best.best is not None:
            yield "best", self._best, self._best.best
        if self._best_k is not None:
            yield from (("best_k", self._best_k, entry) for entry in self._best_k.best)

    def export_final(self, trained: Any) -> str:
        """Writes the `final` export from the latest checkpoint, and returns its path."""
        return self._write(trained, "final")

    def _write(
        self,
        trained: Any,
        exporter: str,
        checkpoint: Optional[str] = None,
        metrics: Optional[Mapping[str, float]] = None,
    ) -> str:
        metrics = self.metrics if metrics is None else metrics
        if self._repeats:
            made = self._exports.made(trained, exporter, checkpoint, metrics)
            if made is not None:
                return made
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
        watched = metric_of(self._config.best_metric)
        earlier = [metrics.get(watched) for metrics in before]
        line = evaluation_line(step, self.metrics, watched, self._direction, earlier)
        seconds = self._progress.seconds
        if seconds is not None:
            line += f", {seconds:.1f} s"
        numbers = {"phase": "evaluate", "step": step, "metrics": self.metrics, "seconds": seconds}
        _log.info("%s", line, extra={"numbers": numbers})

    def _watched(self, metric: str) -> float:
        value = self.metrics[metric]
        if math.isnan(value):
            _log.warning(
                "%s is undefined: the evaluation files have no rows for it, or the model answers "
                "NaN. This model is not the best one.",
                metric,
            )
        return value

    def _delete_old(self, exporter: str) -> None:
        delete_old(export_folder(self._model_dir, exporter), self._config.exports_to_keep)
