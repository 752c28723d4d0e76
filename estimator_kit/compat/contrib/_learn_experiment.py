"""Experiment of tf.contrib.learn: the arguments of `tf.estimator.train_and_evaluate` in one object.

It trains, evaluates each new checkpoint and exports at the end. Each process of a cluster does its
part, which TF_CONFIG says.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Callable, NamedTuple, Optional, Union

import tensorflow.compat.v1 as tf


class ExportStrategy(NamedTuple):
    """A name, and a function (estimator, folder, checkpoint, metrics) -> folder of the export."""

    name: str
    export_fn: Callable[..., Any]
    strip_default_attrs: Optional[bool] = None

    def export(
        self,
        estimator: Any,
        export_path: str,
        checkpoint_path: Optional[str] = None,
        eval_result: Any = None,
    ) -> Any:
        """Exports `estimator` to a new folder in `export_path`."""
        return self.export_fn(estimator, export_path, checkpoint_path, eval_result)


class _Exporter(tf.estimator.Exporter):
    def __init__(self, strategy: ExportStrategy, each_time: bool) -> None:
        self._strategy, self._each_time = strategy, each_time

    @property
    def name(self) -> str:
        return self._strategy.name

    def export(
        self,
        estimator: Any,
        export_path: str,
        checkpoint_path: str,
        eval_result: Any,
        is_the_final_export: bool,
    ) -> Any:
        if not (self._each_time or is_the_final_export):
            return None
        return self._strategy.export(estimator, export_path, checkpoint_path, eval_result)


class Experiment:
    """An Estimator with its input functions, and how to train and evaluate it."""

    def __init__(
        self,
        estimator: Any,
        train_input_fn: Callable[..., Any],
        eval_input_fn: Callable[..., Any],
        eval_metrics: Any = None,
        train_steps: Optional[int] = None,
        eval_steps: Optional[int] = 100,
        train_monitors: Optional[Sequence[Any]] = None,
        eval_hooks: Optional[Sequence[Any]] = None,
        local_eval_frequency: Optional[int] = None,
        eval_delay_secs: float = 120,
        continuous_eval_throttle_secs: float = 60,
        min_eval_frequency: Optional[int] = None,
        delay_workers_by_global_step: bool = False,
        export_strategies: Union[ExportStrategy, Sequence[ExportStrategy], None] = None,
        train_steps_per_iteration: Optional[int] = None,
        checkpoint_and_export: bool = False,
        saving_listeners: Any = None,
        check_interval_secs: float = 5,
    ) -> None:
        """`min_eval_frequency` and the delays are accepted and ignored: each checkpoint is
        evaluated, at most one in `continuous_eval_throttle_secs`."""
        if not isinstance(estimator, tf.estimator.Estimator):
            raise ValueError(f"`estimator` must be a `tf.estimator.Estimator`, got {estimator}")
        if eval_metrics is not None:
            raise ValueError(
                "`eval_metrics` must be `None` with `tf.estimator.Estimator`. Use "
                "tf.estimator.add_metrics, or return eval_metric_ops from the model_fn."
            )
        if export_strategies is None or isinstance(export_strategies, ExportStrategy):
            export_strategies = [export_strategies] if export_strategies else []
        self._estimator, self._train_steps, self._eval_steps = estimator, train_steps, eval_steps
        self._train_input_fn, self._eval_input_fn = train_input_fn, eval_input_fn
        self._train_hooks = list(train_monitors or [])
        self._eval_hooks = list(eval_hooks or [])
        self._exports = [_Exporter(s, checkpoint_and_export) for s in export_strategies]
        self._throttle, self._listeners = continuous_eval_throttle_secs, saving_listeners

    estimator = property(lambda self: self._estimator)
    eval_metrics = property(lambda self: None)
    train_steps = property(lambda self: self._train_steps)
    eval_steps = property(lambda self: self._eval_steps)

    def extend_train_hooks(self, additional_hooks: Sequence[Any]) -> None:
        self._train_hooks.extend(additional_hooks)

    def train(self, delay_secs: Optional[float] = None) -> Any:
        """Trains to `train_steps`, without evaluation."""
        return self._estimator.train(
            self._train_input_fn,
            hooks=self._train_hooks,
            max_steps=self._train_steps,
            saving_listeners=self._listeners,
        )

    def evaluate(self, delay_secs: Optional[float] = None, name: Optional[str] = None) -> Any:
        """The metrics of the last checkpoint."""
        return self._estimator.evaluate(
            self._eval_input_fn, self._eval_steps, self._eval_hooks, name=name
        )

    def train_and_evaluate(self) -> Any:
        """Trains, evaluates each checkpoint, and exports; returns the metrics and the exports.

        If training has already finished, it evaluates the last checkpoint, and exports nothing.
        """
        metrics, exports = tf.estimator.train_and_evaluate(
            self._estimator,
            tf.estimator.TrainSpec(
                self._train_input_fn, self._train_steps, self._train_hooks,
                saving_listeners=self._listeners,
            ),
            tf.estimator.EvalSpec(
                self._eval_input_fn, self._eval_steps, hooks=self._eval_hooks,
                exporters=self._exports, start_delay_secs=0, throttle_secs=self._throttle,
            ),
        ) or (None, None)  # fmt: skip
        return (self.evaluate() if metrics is None else metrics), exports

    # A parameter server is the part of this process in a cluster.
    local_run = continuous_train_and_eval = run_std_server = train_and_evaluate

    def test(self) -> Any:
        """One step of training, one evaluation and the exports."""
        self._estimator.train(self._train_input_fn, steps=1, hooks=self._train_hooks)
        metrics = self._estimator.evaluate(self._eval_input_fn, 1, self._eval_hooks)
        path = tf.train.latest_checkpoint(self._estimator.model_dir)
        exports = [
            e.export(self._estimator, os.path.join(self._estimator.model_dir, "export", e.name),
                     path, metrics, True)
            for e in self._exports
        ]  # fmt: skip
        return metrics, exports
