"""`--profile`: TensorFlow's profiler runs for some steps of a training.

    profile = Profile(model_dir, range(100, 201), of_ops=True)
    estimator.train(input_fn, hooks=[profile])
    profile.ops["shares"]

The trace stays below `model_dir/plugins/profile`, where TensorBoard finds it. What it says about
the steps is computed by `observing.profile`. The profiler slows these steps down. Nothing else
changes.
"""

from __future__ import annotations

import logging
import os
import time
from typing import Any, Optional

import tensorflow as tf

from estimator_kit.config.areas import watching
from estimator_kit.config.experiment_config import ExperimentConfig
from estimator_kit.observing.profile import costs, input_work, trace
from estimator_kit.result import InputProfile

_log = logging.getLogger("estimator_kit")


class Profile(tf.compat.v1.train.SessionRunHook):
    """Profiles some steps, and logs the results.

    Args:
      model_dir: gets the trace.
      steps: the steps to profile, counted from 1 in this start; fewer if training ends before.
      of_ops: whether the costs of ops are computed.
      of_input: whether the work of the input is computed.

    Attributes:
      ops: the result of `costs.analyze` with the folder of the `trace`; empty until it is computed.
      input: the same of `input_work.analyze`.
    """

    def __init__(
        self,
        model_dir: str,
        steps: range,
        *,
        of_ops: bool = False,
        of_input: bool = False,
    ):
        self.ops: dict[str, Any] = {}
        self.input = InputProfile()
        self._model_dir, self._steps = model_dir, steps
        self._of_ops, self._of_input = of_ops, of_input
        self._seen = 0
        self._seconds = 0.0
        self._started = 0.0
        self._runs = False
        self._earlier: set[str] = set()

    @staticmethod
    def of(config: ExperimentConfig) -> Optional[Profile]:
        """The hook for the flags of a training, or None if they ask for no profile."""
        if config.profile is None:
            return None
        return Profile(
            str(config.model_dir),
            watching.steps_of(config.profile),
            of_ops=True,
            of_input=config.data_service is None,  # Else other processes compute the input.
        )

    def before_run(self, run_context: Any) -> None:
        if self._seen == self._steps[0] - 1 and not self._runs:
            self._earlier = set(_traces(self._model_dir))
            tf.profiler.experimental.start(self._model_dir)
            self._runs = True
        self._started = time.monotonic()

    def after_run(self, run_context: Any, run_values: Any) -> None:
        if self._runs:
            self._seconds += time.monotonic() - self._started
        self._seen += 1
        if self._seen >= self._steps[-1]:
            self._finish()

    def end(self, session: Any) -> None:
        self._finish()
        if self._seen < self._steps[0]:
            _log.warning(
                "no step was profiled: training ended after %d steps, and the profile starts at "
                "step %d. Choose earlier steps with --profile.",
                self._seen,
                self._steps[0],
            )

    def _finish(self) -> None:
        if not self._runs:
            return
        self._runs = False
        tf.profiler.experimental.stop()
        folder = max(set(_traces(self._model_dir)) - self._earlier or _traces(self._model_dir))
        space = trace.read(folder)
        facts: dict[str, Any] = {
            "steps": self._seen - self._steps[0] + 1,
            "seconds": self._seconds,
        }
        if self._of_input:
            self.input = input_work.analyze(space, **facts, trace=folder)
            _log.info(input_work.text(self.input))
        if self._of_ops:
            self.ops = {**costs.analyze(space, **facts), "trace": folder}
            _log.info(costs.text(self.ops))
        _log.info(
            "the trace is in %s. TensorBoard shows it on its page Profile, with the extra "
            "'profile': pip install 'estimator-kit[profile]'",
            folder,
        )

    def close(self) -> None:
        """Stops the profiler after an error. Does nothing after `end`."""
        if self._runs:
            self._runs = False
            tf.profiler.experimental.stop(save=False)


def _traces(model_dir: str) -> list[str]:
    """The folders of the traces of a model directory."""
    folder = os.path.join(model_dir, "plugins", "profile")
    if not tf.io.gfile.isdir(folder):
        return []
    return [os.path.join(folder, name.rstrip("/")) for name in tf.io.gfile.listdir(folder)]
