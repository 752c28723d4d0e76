"""What a training measures of itself: events for TensorBoard, and numbers for the report page.

`SummariesHook` adds summaries to the graph, and TensorFlow's own hook runs them with the loss every
`--summary_steps` steps. Steps in between cost nothing. It writes the examples a second itself,
because no tensor has them, and images at the 1st, 2nd, 4th, 8th ... summary: TensorBoard shows ten
of them, and files should not grow. `TrainingLogHook` writes the training log
(`observing.histories`), and `CurvesHook` the curves of an evaluation when it ends.
"""

from __future__ import annotations

import os
from collections.abc import Callable, MutableMapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import tensorflow as tf

from estimator_kit.model.heads import streaming
from estimator_kit.model.modes.training import IMAGES, IMAGES_SCOPE, MEANS_SCOPE
from estimator_kit.model.names import LOSS_TENSOR, LOSSES_SCOPE
from estimator_kit.observing import curves
from estimator_kit.observing.histories import Measurement, TrainingLog
from estimator_kit.observing.tensorboard import summaries
from estimator_kit.optimizers.choice import GRADIENT_NORM_TENSOR, LEARNING_RATE_TENSOR
from estimator_kit.training.hooks.progress import ProgressHook, Speed, of_devices


class SummariesHook(tf.compat.v1.train.SessionRunHook):
    """Learning rate, gradient norm, means of a batch, examples a second, images and histograms.

    Args:
      model_dir: the model directory, which gets the events.
      progress: knows the rows and the seconds. Put it before this hook.
      first: returns the values that a start writes once; see `tensorboard.once.start`.
      every_steps: steps between two summaries; the first step has one, too.
      histograms: whether the values of all trainable variables are written.
    """

    def __init__(
        self,
        model_dir: str,
        progress: ProgressHook,
        first: Callable[[], Sequence[Any]] = tuple,
        *,
        every_steps: int = 100,
        histograms: bool = False,
    ):
        self._model_dir, self._progress, self._first = model_dir, progress, first
        self._every, self._histograms = every_steps, histograms
        self._started = False

    def begin(self) -> None:
        self._steps = self._summaries = 0
        self._speed = Speed(self._progress)
        self._images = []
        names = {LEARNING_RATE_TENSOR: "learning_rate", GRADIENT_NORM_TENSOR: "gradient_norm"}
        graph, added = tf.compat.v1.get_default_graph(), []
        scalars: dict[str, tf.Tensor] = {}
        with tf.name_scope("summaries"):
            for op in graph.get_operations():
                tag = names.get(op.name)
                if op.name.startswith(f"{MEANS_SCOPE}/"):
                    tag = op.name[len(MEANS_SCOPE) + 1 :]
                elif op.name.startswith(f"{IMAGES_SCOPE}/"):
                    self._images.append(_image(op))
                if tag is not None:
                    scalars[tag] = op.outputs[0]
            if scalars:
                values = tf.stack(list(scalars.values()))
                added.append(tf.raw_ops.ScalarSummary(tags=list(scalars), values=values))
            if self._histograms:
                for variable in tf.compat.v1.trainable_variables():
                    tag = variable.op.name
                    if "/replica_" not in tag:
                        added.append(tf.raw_ops.HistogramSummary(tag=tag, values=variable))
        for summary in added:  # TensorFlow's own functions would number tags that are op names.
            graph.add_to_collection(tf.compat.v1.GraphKeys.SUMMARIES, summary)

    def after_create_session(self, session: Any, coord: Any) -> None:
        with session.graph.as_default():
            self._writer = tf.compat.v1.summary.FileWriterCache.get(self._model_dir)
        if not self._started:
            self._started = True
            step = int(session.run(tf.compat.v1.train.get_global_step(session.graph)))
            self._writer.add_summary(summaries.of(self._first()), step)

    def before_run(self, run_context: Any) -> Any:
        self._due = self._steps % self._every == 0
        self._steps += 1
        if not self._due:
            return None
        self._summaries += 1
        if self._images and self._summaries & (self._summaries - 1) == 0:
            return tf.compat.v1.train.SessionRunArgs(self._images)
        return None

    def after_run(self, run_context: Any, run_values: Any) -> None:
        if not self._due:
            return
        session = run_context.session
        step = int(session.run(tf.compat.v1.train.get_global_step(session.graph)))
        for image in run_values.results or ():
            self._writer.add_summary(image, step)
        rate = self._speed()
        if rate is not None:
            self._writer.add_summary(
                summaries.of([summaries.scalar("examples_per_second", rate)]), step
            )

    def end(self, session: Any) -> None:
        self._writer.flush()


def _image(op: tf.Operation) -> tf.Tensor:
    name = op.name[len(IMAGES_SCOPE) + 1 :]
    return tf.raw_ops.ImageSummary(tag=f"image/{name}", tensor=op.outputs[0], max_images=IMAGES)


class CurvesHook(tf.compat.v1.train.SessionRunHook):
    """A hook for `Estimator.evaluate` that reads the totals of the objectives after the last batch.

    Args:
      model_dir: the model directory. The hook writes `observed/curves/<step>.json` there, and the
        precision-recall curves of binary objectives into the events of the evaluation.
      name: the name of a separate evaluation (`--eval_name`), or "" in a training.
    """

    def __init__(self, model_dir: str, name: str = ""):
        self._model_dir = model_dir
        self._name = name
        # By graph, because several evaluations may share one. With names, because a tensor would
        # keep its graph in memory.
        self._offered: MutableMapping[tf.Graph, list[tuple[str, str, str]]] = WeakKeyDictionary()

    def begin(self) -> None:
        graph = tf.compat.v1.get_default_graph()
        if graph not in self._offered:
            self._offered[graph] = [
                (each.objective, each.kind, each.total.name) for each in streaming.take(graph)
            ]
        self._observed = self._offered[graph]
        self._step = tf.compat.v1.train.get_global_step(graph)

    def end(self, session: Any) -> None:
        self.write(session, self._name)

    def write(self, session: Any, name: str) -> None:
        """Writes the curves of the rows so far, for the evaluation with this name."""
        totals, step = session.run([[total for _, _, total in self._observed], self._step])
        # Where a prediction was NaN, the curve is undefined.
        defined = [
            (objective, kind, total)
            for (objective, kind, _), total in zip(self._observed, totals)
            if not (total.size and np.isnan(total).all())
        ]
        values = {objective: curves.curve(kind, total) for objective, kind, total in defined}
        if values:
            curves.write(self._model_dir, int(step), values, name)
        drawn = [
            summaries.pr_curve(f"pr_curve/{objective}", total)
            for objective, kind, total in defined
            if kind == "histogram"
        ]
        if drawn:
            # The folder to which the Estimator writes the metrics of this evaluation.
            folder = os.path.join(self._model_dir, f"eval_{name}" if name else "eval")
            with session.graph.as_default():
                writer = tf.compat.v1.summary.FileWriterCache.get(folder)
            writer.add_summary(summaries.of(drawn), int(step))


_EVERY = 100


class TrainingLogHook(tf.compat.v1.train.SessionRunHook):
    """Fetches losses, learning rate and gradient norm of every 100th step, from the first.

    Args:
      log: gets the entries.
      progress: knows the examples a second. Put it before this hook.
    """

    def __init__(self, log: TrainingLog, progress: ProgressHook):
        self._log = log
        self._progress = progress
        self._tensors: dict[str, list[tf.Tensor]] = {}
        self._steps = 0

    def begin(self) -> None:
        self._speed = Speed(self._progress)
        graph = tf.compat.v1.get_default_graph()
        names = {
            "loss": LOSS_TENSOR,
            "learning_rate": LEARNING_RATE_TENSOR,
            "gradient_norm": GRADIENT_NORM_TENSOR,
        }
        outputs = {operation.name for operation in graph.get_operations()}
        names.update({name: name for name in outputs if name.startswith(f"{LOSSES_SCOPE}/")})
        self._tensors = {
            key: of_devices(graph, name) for key, name in names.items() if name in outputs
        }

    def before_run(self, run_context: Any) -> Any:
        due = self._steps % _EVERY == 0
        self._steps += 1
        return tf.compat.v1.train.SessionRunArgs(self._tensors) if due else None

    def after_run(self, run_context: Any, run_values: Any) -> None:
        if run_values.results is None:
            return
        counts = {
            name: sum(map(float, values)) / len(values)
            for name, values in run_values.results.items()
        }
        # Read after the step, as TensorBoard's events: fetched with it, it may be the one before.
        session = run_context.session
        step = int(session.run(tf.compat.v1.train.get_global_step(session.graph)))
        prefix = f"{LOSSES_SCOPE}/"
        losses = {
            name[len(prefix) :]: counts.pop(name)
            for name in list(counts)
            if name.startswith(prefix)
        }
        rate = self._speed()
        if rate is not None:
            counts["examples_per_second"] = rate
        self._log.add(Measurement(step=step, losses=losses, **counts))


class WriteAtSave(tf.compat.v1.train.CheckpointSaverListener):
    """Writes the entries together with each checkpoint, so that both are of the same steps."""

    def __init__(self, log: TrainingLog):
        self._log = log

    def after_save(self, session: Any, global_step_value: int) -> None:
        self._log.write()
