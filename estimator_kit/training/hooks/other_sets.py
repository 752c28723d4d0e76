"""Evaluates several sets of rows with one graph and one restored checkpoint.

    others = OtherSets(model_dir, eval_input.others, curves=curves_hook)
    metrics = trained.evaluate(others.reading(eval_input), hooks=[curves_hook, others])
    others.metrics       # {"test": {"auc/click": 0.75, ...}}

The set that judges is evaluated as without this hook. All other sets are read in the same session
before it: their data sets start the iterator of the same graph again, and after each of them the
local variables, which are the state of metrics, get their first values back. So another set costs
its rows and the start of its data set, but no model graph, checkpoint or session. The hooks of a
model see the rows of the judging set.

Needs an Estimator of `run_config.over_rows`, which tells the hook what an evaluation computes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Optional

import tensorflow as tf

from estimator_kit.model.names import read_metrics
from estimator_kit.model.own_session import EndOfInput
from estimator_kit.observing.progress import Progress
from estimator_kit.observing.tensorboard import summaries
from estimator_kit.training.eval_input import EvalInput
from estimator_kit.training.hooks.summaries import CurvesHook
from input_pipelines.eager import as_written
from input_pipelines.input_fns import InputFn
from input_pipelines.row_cache.cache import RowCache

# The ops that start the reading of a set, by its place; 0 is the judging set. An evaluation finds
# them by their names, because it may have the graph of an earlier one.
_STARTS = "evaluation_sets/start_{}"


class OtherSets(tf.compat.v1.train.SessionRunHook):
    """A hook for `Estimator.evaluate` that evaluates more sets of rows.

    Use one for all evaluations of a run. Without other sets it does nothing.

    Args:
      model_dir: the model directory. Metrics and curves go into the events of `eval_<name>`.
      others: the sets by name.
      curves: writes the curves of the report page and TensorBoard.
      prefix: what comes before the name in the names of files, such as `evaluate_`.
      check: called before each batch; raises an error to break off.
      every_secs: seconds between two lines of progress.

    Attributes:
      metrics: the metrics of each set in the last evaluation.
    """

    def __init__(
        self,
        model_dir: str,
        others: Mapping[str, EvalInput],
        *,
        curves: CurvesHook,
        prefix: str = "",
        check: Callable[[], None] = lambda: None,
        every_secs: float = 10.0,
    ):
        self.metrics: dict[str, dict[str, float]] = {}
        self._model_dir, self._others, self._curves = model_dir, others, curves
        self._prefix, self._check, self._every = prefix, check, every_secs

    def reading(self, judging: EvalInput, cache: Optional[RowCache] = None) -> InputFn:
        """The input_fn of an evaluation: of the judging set, and prepared for the other sets."""
        input_fn = judging.input_fn(cache)
        if not self._others:
            return input_fn
        others = {name: each.input_fn(cache) for name, each in self._others.items()}

        @as_written
        def read() -> Any:
            dataset = input_fn()
            iterator = tf.compat.v1.data.make_initializable_iterator(dataset)
            resource = iterator.initializer.inputs[1]
            # `Iterator.make_initializer` refuses ragged tensors, whose types it compares with `is`.
            for place, each in enumerate([dataset, *(other() for other in others.values())]):
                tf.raw_ops.MakeIterator(
                    dataset=tf.data.experimental.to_variant(each),
                    iterator=resource,
                    name=_STARTS.format(place),
                )
            return iterator.get_next()

        return read

    def measure(self, update: Any, values: Mapping[str, Any], hooks: Sequence[Any]) -> None:
        """Takes what the evaluation computes: the update op, the metrics, and its hooks."""
        self._update, self._values = update, values
        self._ends = [hook for hook in hooks if isinstance(hook, EndOfInput)]

    def begin(self) -> None:
        self.metrics = {}
        self._variables = tf.compat.v1.local_variables() if self._others else []

    def after_create_session(self, session: Any, coord: Any) -> None:
        if not self._others:
            return
        # The values are fed, because the graph is complete. All at once, because TensorFlow
        # prepares the graph again for each different call of `run`.
        restore = [variable.initializer for variable in self._variables]
        fed = [variable.initializer.inputs[1] for variable in self._variables]
        first = dict(zip(fed, session.run(self._variables)))
        for place, name in enumerate(self._others, start=1):
            session.run(session.graph.get_operation_by_name(_STARTS.format(place)))
            self._read_all(session, name)
            metrics = session.run(self._values)
            self.metrics[name] = read_metrics(metrics)
            label = f"{self._prefix}{name}"
            self._curves.write(session, label)
            self._summarize(session, label, self.metrics[name])
            session.run(restore, first)
        session.run(session.graph.get_operation_by_name(_STARTS.format(0)))

    def _read_all(self, session: Any, name: str) -> None:
        """Runs all batches of the data set that the iterator reads now."""
        batches = 0
        with Progress("evaluate", f"{name}, batch {{}}", every_secs=self._every) as progress:
            while True:
                self._check()
                try:
                    session.run(self._update)
                except tf.errors.OutOfRangeError:
                    for hook in self._ends:  # Raises an error if it is not the input that ended.
                        hook.end(session)
                    return
                batches += 1
                progress.update(batches)

    def _summarize(self, session: Any, label: str, metrics: Mapping[str, float]) -> None:
        """Writes the metrics for TensorBoard, as tf.estimator does for the judging set."""
        with session.graph.as_default():
            writer = tf.compat.v1.summary.FileWriterCache.get(
                os.path.join(self._model_dir, f"eval_{label}")
            )
        step = int(metrics["global_step"])
        values = [
            summaries.scalar(name, value)
            for name, value in metrics.items()
            if name != "global_step"
        ]
        writer.add_summary(summaries.of(values), step)
        writer.flush()
