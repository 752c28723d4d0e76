"""Writes the curves of an evaluation, when it ends: for the report page, and for TensorBoard."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import tensorflow as tf

from estimator_kit.model.heads import streaming
from estimator_kit.observing import curves
from estimator_kit.observing.tensorboard import summaries


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
        self._observed: list[streaming.Observed] = []

    def begin(self) -> None:
        graph = tf.compat.v1.get_default_graph()
        self._observed = streaming.take(graph)
        self._step = tf.compat.v1.train.get_global_step(graph)

    def end(self, session: Any) -> None:
        totals, step = session.run([[each.total for each in self._observed], self._step])
        # A prediction was NaN, so the curve is undefined.
        undefined = [bool(total.size) and bool(np.isnan(total).all()) for total in totals]
        self._observed = [each for each, no in zip(self._observed, undefined) if not no]
        totals = [total for total, no in zip(totals, undefined) if not no]
        made = {
            each.objective: curves.curve(each.kind, total)
            for each, total in zip(self._observed, totals)
        }
        if made:
            curves.write(self._model_dir, int(step), made, self._name)
        drawn = [
            summaries.pr_curve(f"pr_curve/{each.objective}", total)
            for each, total in zip(self._observed, totals)
            if each.kind == "histogram"
        ]
        if drawn:
            # The folder to which the Estimator writes the metrics of this evaluation.
            folder = os.path.join(self._model_dir, f"eval_{self._name}" if self._name else "eval")
            with session.graph.as_default():
                writer = tf.compat.v1.summary.FileWriterCache.get(folder)
            writer.add_summary(summaries.of(drawn), int(step))
