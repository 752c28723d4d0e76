"""Writes the events of a training for TensorBoard, every `--summary_steps` steps.

The hook adds summaries to the graph, and TensorFlow's own hook runs them with the loss. Steps in
between cost nothing. It writes the examples a second itself, because no tensor has them, and images
at the 1st, 2nd, 4th, 8th ... summary: TensorBoard shows ten of them, and files should not grow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from estimator_kit.model.modes.training import IMAGES, IMAGES_SCOPE, MEANS_SCOPE
from estimator_kit.observing.tensorboard import summaries
from estimator_kit.optimizers.choice import GRADIENT_NORM_TENSOR, LEARNING_RATE_TENSOR
from estimator_kit.training.hooks.progress import ProgressHook, Speed


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
        with tf.name_scope("summaries"):
            for op in graph.get_operations():
                tag = names.get(op.name)
                if op.name.startswith(f"{MEANS_SCOPE}/"):
                    tag = op.name[len(MEANS_SCOPE) + 1 :]
                elif op.name.startswith(f"{IMAGES_SCOPE}/"):
                    self._images.append(_image(op))
                if tag is not None:
                    added.append(tf.raw_ops.ScalarSummary(tags=tag, values=op.outputs[0]))
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
