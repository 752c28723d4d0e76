"""`RunResult`: what a run did. `ek.run` returns it, and `result.json` has the same content.

Imports no TensorFlow; `result_file` writes and reads the file.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Optional


@dataclasses.dataclass(frozen=True)
class RunResult:
    """What a run did.

    Attributes:
      mode: the mode it ran in.
      status: `running`, `done`, `stopped` (by SIGTERM or a hook of the model) or `failed`.
      stop_reason: why training ended: `max_steps`, `input_exhausted` (all epochs are done),
        `already_done` (an earlier start had finished), `early_stopped`, `sigterm`, or
        `stopped_by_hook` (a hook of the model asked TensorFlow to stop before the last step).
      global_step: the step of the latest checkpoint.
      metrics: the metrics of the latest evaluation.
      exports: the SavedModel of each exporter.
      export_path: the export to serve: the final one, else the best, else the latest.
      examples_per_second: the speed of training in this start, without evaluations and exports.
      rows_a_step: the most rows of a training step of this process, of all its devices.
      rows_trained: how many rows this start trained on.
      rows_lost: how many rows of the epochs were lost with a worker of --data_service.
      steps_planned: the global step at which training was to end.
      input_profile: with --profile_input, see `observing.profile.input_work.analyze`.
      profile: with --profile, see `observing.profile.costs.analyze`.
      rows_evaluated: how many rows the latest evaluation read.
      rows_selected: with a filter or negative down-sampling, the rows `read`, `kept` and `dropped`
        of the `train` files (in the first epoch) and of the `eval` files.
      input_cache: with --input_cache_dir, the files that the cache had (`hits`), the files that it
        did not have (`misses`) and their rows, the files that were removed to make room
        (`evicted`), and the seconds that the cache took.
      error: what went wrong, for `failed`.
      task: the task in a cluster, such as `worker:0`; None for a process that trains alone. The
        chief writes `result.json`; the evaluator adds metrics and exports to it.
      metrics_left_out: for an evaluation of an export, the metrics that only an evaluation of a
        checkpoint has, and why.
      scores: a digest of what the metrics mean; metrics with the same digest can be compared.
      bad_data: the bad records and files, if the run may leave them out or --mode=check_data ran.
    """

    mode: str
    status: str = "done"
    stop_reason: Optional[str] = None
    global_step: Optional[int] = None
    metrics: Mapping[str, float] = dataclasses.field(default_factory=dict)
    exports: Mapping[str, str] = dataclasses.field(default_factory=dict)
    examples_per_second: Optional[float] = None
    rows_a_step: Optional[int] = None
    rows_trained: int = 0
    rows_lost: int = 0
    steps_planned: Optional[int] = None
    input_profile: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    profile: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    rows_evaluated: int = 0
    rows_selected: Mapping[str, Mapping[str, int]] = dataclasses.field(default_factory=dict)
    input_cache: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    error: Optional[str] = None
    bad_data: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    metrics_left_out: Mapping[str, str] = dataclasses.field(default_factory=dict)
    task: Optional[str] = None
    scores: Optional[str] = None

    @property
    def export_path(self) -> Optional[str]:
        for name in ("final", "best", "latest"):
            if name in self.exports:
                return self.exports[name]
        return None
