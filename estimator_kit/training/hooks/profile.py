"""`--profile`: TensorFlow's profiler runs for some steps of a training.

    hook = Profile(model_dir, range(100, 201), of_ops=True)
    estimator.train(input_fn, hooks=[hook])
    hook.ops["shares"]

The trace stays below `model_dir/plugins/profile`, where TensorBoard finds it. What it says about
ops is computed by `observing.profile`; this module computes how long the steps wait for input, and
the working time of each stage of the input, without the time in which the stage waits for another
one. The profiler slows these steps down. Nothing else changes.
"""

from __future__ import annotations

import logging
import os
import time
from typing import Any, Optional

import tensorflow as tf

from estimator_kit.config.areas import watching
from estimator_kit.config.areas.cluster import DataService
from estimator_kit.config.areas.run import Run
from estimator_kit.config.areas.watching import Watching
from estimator_kit.observing import profile
from estimator_kit.observing.profile import PICOSECONDS, WAIT, own_times, threads
from estimator_kit.result import InputProfile

READING, SHUFFLING, PARSING = "reading files", "shuffling and batching", "parsing and transforming"

_ADVICE = {
    READING: "write the data to more files, without GZIP, use a faster disk, or read with several "
    "machines (--data_service)",
    SHUFFLING: "raise --batch_size, or store the rows in random order "
    "(--mode=convert --convert_order=shuffled) and read with --noshuffle",
    PARSING: "use more cores, raise --batch_size, list features that the model does not need under "
    "`ignored` in the spec, or parse on several machines (--data_service)",
}
_MODEL = "the model takes longer than its input: a faster input would save at most {:.0%} of a step"


def input_profile(
    space: Any, *, steps: int, seconds: float, trace: Optional[str] = None
) -> InputProfile:
    """Computes the waiting time and the work of the input from a trace.

    Args:
      space: an XSpace of the profiler.
      steps: how many steps the trace covers.
      seconds: how long these steps took.
      trace: the folder of the trace.
    """
    waited, busy = 0.0, {READING: 0.0, SHUFFLING: 0.0, PARSING: 0.0}
    for thread in threads(space):
        for event, own, around in own_times(thread.events):
            if event.name == WAIT:
                waited += event.duration * PICOSECONDS
            stage = _stage(event.name, around) if thread.of_input else None
            if stage is not None:
                busy[stage] += own * PICOSECONDS
    share = min(1.0, waited / seconds) if seconds else 0.0
    busiest = max(busy, key=lambda stage: busy[stage]) if any(busy.values()) else None
    advice = _MODEL.format(share) if share < 0.5 or busiest is None else _ADVICE[busiest]
    return InputProfile(
        steps=steps,
        seconds_a_step=seconds / steps if steps else 0.0,
        share_waiting=share,
        busy_seconds=busy,
        busiest=busiest,
        advice=advice,
        trace=trace,
    )


def input_text(result: InputProfile) -> str:
    """The lines that are printed."""
    total = sum(result.busy_seconds.values())
    lines = [
        f"input of {result.steps} steps: a step takes {1000 * result.seconds_a_step:.2f} ms "
        f"and waits for a batch {result.share_waiting or 0:.0%} of that time"
    ]
    for stage, seconds in sorted(result.busy_seconds.items(), key=lambda item: -item[1]):
        lines.append(f"  {stage:<26} {seconds / total if total else 0:>4.0%} of the input's work")
    return "\n".join([*lines, f"  {result.advice}"])


def _stage(name: str, around: list[str]) -> Optional[str]:
    """The stage that does the work of an event. None if the event waits or only starts others."""
    if name.startswith("Iterator::"):
        last = name.rpartition("::")[2]
        if "TFRecord" in last:
            return READING
        if "Interleave" in name:  # Cuts one file into blocks, and alternates between files.
            return READING if last.startswith("Batch") else None
        return SHUFFLING if last.startswith(("Rebatch", "Shuffle", "Batch")) else None
    _, colon, op = name.rpartition(":")
    if not colon or name.endswith("::") or "::" in name:
        return None
    if any("TFRecord" in outer or "Interleave" in outer for outer in around):
        return READING
    return SHUFFLING if "Shuffle" in op else PARSING


_log = logging.getLogger("estimator_kit")


class Profile(tf.compat.v1.train.SessionRunHook):
    """Profiles some steps, and logs the results.

    Args:
      model_dir: gets the trace.
      steps: the steps to profile, counted from 1 in this start; fewer if training ends before.
      of_ops: whether the costs of ops are computed.
      of_input: whether the work of the input is computed.

    Attributes:
      ops: the result of `profile.analyze` and the folder of the `trace`; empty until it is there.
      input: the result of `input_profile`.
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
    def of(run: Run, service: DataService, watching_settings: Watching) -> Optional[Profile]:
        """The hook for the flags of a training, or None if they ask for no profile."""
        if watching_settings.profile is None:
            return None
        return Profile(
            str(run.model_dir),
            watching.steps_of(watching_settings.profile),
            of_ops=True,
            of_input=service.data_service is None,  # Else other processes compute the input.
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
        space = profile.read(folder)
        facts: dict[str, Any] = {
            "steps": self._seen - self._steps[0] + 1,
            "seconds": self._seconds,
        }
        if self._of_input:
            self.input = input_profile(space, **facts, trace=folder)
            _log.info(input_text(self.input))
        if self._of_ops:
            self.ops = {**profile.analyze(space, **facts), "trace": folder}
            _log.info(profile.text(self.ops))
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
