"""`--profile_input`: how long training steps wait for input, and which input stage is busiest.

After some warm-up steps, TensorFlow's profiler runs for up to 100 steps. Its trace shows how long
each step waited for a batch, and what the input threads did. `analyze` computes the working time of
each stage from the trace, without the time in which it waited for another stage.

    profile = InputProfile()
    estimator.train(input_fn, hooks=[profile])
    print(text(profile.result))

The profiler slows these steps down. Nothing else changes.
"""

from __future__ import annotations

import glob
import logging
import os
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any, Optional

import tensorflow as tf
from tensorflow.tsl.profiler.protobuf import xplane_pb2

_log = logging.getLogger("estimator_kit")

READING, SHUFFLING, PARSING = "reading files", "shuffling and batching", "parsing and transforming"

_ADVICE = {
    READING: "write the data to more files, without GZIP, use a faster disk, or read with several "
    "machines (--data_service)",
    SHUFFLING: "raise --batch_size, or store the rows in random order "
    "(--mode=convert --convert_order=shuffled) and read with --noshuffle",
    PARSING: "use more cores, raise --batch_size, list features that the model does not need under "
    "`ignored` in the spec, cache transformed rows for later epochs and runs (--input_cache_dir), "
    "or parse on several machines (--data_service)",
}
_MODEL = "the model takes longer than its input, so a faster input would help little"

_WAIT = "IteratorGetNextOp::DoCompute"
_PICOSECONDS = 1e-12


class InputProfile(tf.compat.v1.train.SessionRunHook):
    """Profiles some steps, and logs the result.

    Args:
      warm_up: the number of steps before profiling starts.
      steps: the number of steps to profile; fewer if training ends before.
      clock: returns seconds; an argument for tests.

    Attributes:
      result: the result of `analyze`, or None until the steps are done.
    """

    def __init__(
        self, *, warm_up: int = 10, steps: int = 100, clock: Callable[[], float] = time.monotonic
    ):
        self.result: Optional[dict[str, Any]] = None
        self._warm_up, self._steps, self._clock = warm_up, steps, clock
        self._seen = 0
        self._seconds = 0.0
        self._started = 0.0
        self._folder: Optional[tempfile.TemporaryDirectory[str]] = None

    def before_run(self, run_context: Any) -> None:
        if self._seen == self._warm_up and self._folder is None and self.result is None:
            self._folder = tempfile.TemporaryDirectory()
            tf.profiler.experimental.start(self._folder.name)
        self._started = self._clock()

    def after_run(self, run_context: Any, run_values: Any) -> None:
        if self._folder is not None:
            self._seconds += self._clock() - self._started
        self._seen += 1
        if self._seen >= self._warm_up + self._steps:
            self._finish()

    def end(self, session: Any) -> None:
        self._finish()

    def _finish(self) -> None:
        if self._folder is None:
            return
        tf.profiler.experimental.stop()
        pattern = os.path.join(glob.escape(self._folder.name), "**", "*.xplane.pb")
        space = xplane_pb2.XSpace()
        for path in glob.glob(pattern, recursive=True):
            with open(path, "rb") as file:
                space.MergeFromString(file.read())
        self._folder.cleanup()
        self._folder = None
        self.result = analyze(space, steps=self._seen - self._warm_up, seconds=self._seconds)
        _log.info(text(self.result))

    def close(self) -> None:
        """Stops the profiler after an error. Does nothing after `end`."""
        if self._folder is not None:
            tf.profiler.experimental.stop(save=False)
            self._folder.cleanup()
            self._folder = None


def analyze(space: Any, *, steps: int, seconds: float) -> dict[str, Any]:
    """Computes the waiting time and the work of the input from a trace.

    Args:
      space: an XSpace of the profiler.
      steps: how many steps the trace covers.
      seconds: how long these steps took.

    Returns:
      `steps`, `seconds_a_step`, `share_waiting` (the share of the step time, from 0 to 1),
      `busy_seconds` (for each stage, the sum over all threads), `busiest` (None if the trace has no
      input) and `advice`.
    """
    waited, busy = 0.0, {READING: 0.0, SHUFFLING: 0.0, PARSING: 0.0}
    for plane in space.planes:
        names = {key: found.name for key, found in plane.event_metadata.items()}
        for line in plane.lines:
            own, parents = _own_times(line)
            is_input = line.name.startswith("tf_data")
            for event, picoseconds in own.items():
                name = names[line.events[event].metadata_id]
                if name == _WAIT:
                    waited += line.events[event].duration_ps * _PICOSECONDS
                above = [names[line.events[i].metadata_id] for i in parents[event]]
                stage = _stage(name, above) if is_input else None
                if stage is not None:
                    busy[stage] += picoseconds * _PICOSECONDS
    share = min(1.0, waited / seconds) if seconds else 0.0
    busiest = max(busy, key=lambda stage: busy[stage]) if any(busy.values()) else None
    advice = _MODEL if share < 0.5 or busiest is None else _ADVICE[busiest]
    return {
        "steps": steps,
        "seconds_a_step": seconds / steps if steps else 0.0,
        "share_waiting": share,
        "busy_seconds": busy,
        "busiest": busiest,
        "advice": advice,
    }


def text(result: dict[str, Any]) -> str:
    """The lines that are printed."""
    total = sum(result["busy_seconds"].values())
    lines = [
        f"input of {result['steps']} steps: a step takes {1000 * result['seconds_a_step']:.2f} ms "
        f"and waits for a batch {result['share_waiting']:.0%} of that time"
    ]
    for stage, seconds in sorted(result["busy_seconds"].items(), key=lambda item: -item[1]):
        lines.append(f"  {stage:<26} {seconds / total if total else 0:>4.0%} of the input's work")
    return "\n".join([*lines, f"  {result['advice']}"])


def _own_times(line: Any) -> tuple[dict[int, int], dict[int, list[int]]]:
    """For each event of a thread, its own picoseconds (without nested events) and its parents."""
    order = sorted(
        range(len(line.events)),
        key=lambda i: (line.events[i].offset_ps, -line.events[i].duration_ps),
    )
    own: dict[int, int] = defaultdict(int)
    parents: dict[int, list[int]] = {}
    stack: list[int] = []
    for i in order:
        event = line.events[i]
        while stack and _end(line.events[stack[-1]]) <= event.offset_ps:
            stack.pop()
        own[i] += event.duration_ps
        if stack:
            own[stack[-1]] -= event.duration_ps
        parents[i] = list(stack)
        stack.append(i)
    return own, parents


def _end(event: Any) -> int:
    return int(event.offset_ps + event.duration_ps)


def _stage(name: str, above: list[str]) -> Optional[str]:
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
    if any("TFRecord" in outer or "Interleave" in outer for outer in above):
        return READING
    return SHUFFLING if "Shuffle" in op else PARSING
