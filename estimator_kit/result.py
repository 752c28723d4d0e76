"""`RunResult`: what a run did, as `ek.run` returns it and `result.json` keeps it.

No TensorFlow; `result_file` writes and reads the file.
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
      status: `running`, `done`, `stopped` (by SIGTERM) or `failed`.
      stop_reason: why training ended: `max_steps`, `input_exhausted` (the epochs are through),
        `already_done` (an earlier start had trained to the end) or `early_stopped`.
      global_step: of the latest checkpoint.
      metrics: of the latest evaluation.
      exports: the SavedModel of each exporter.
      export_path: the one to serve: the final one, else the best, else the latest.
      examples_per_second: of this start's training, evaluations and exports not counted.
      rows_trained: in this start.
      rows_lost: of the epochs, with a worker of --data_service.
      steps_planned: the global step that training was to end at.
      input_profile: with --profile_input, see `hooks.input_profile.analyze`.
      rows_evaluated: in the latest evaluation.
      rows_selected: with a filter or negative down-sampling, the rows `read`, `kept` and `dropped`
        of the `train` files (in the first epoch) and of the `eval` files.
      input_cache: with --input_cache_dir, the files that were there (`hits`), those that were not
        (`misses`) and their rows, the files removed for room (`evicted`), and the seconds it took.
      error: what went wrong, for `failed`.
      task: of a cluster, as `worker:0`; None for a process that is alone. `result.json` is the
        chief's; the evaluator puts metrics and exports into it.
      metrics_left_out: of an export's evaluation, the metrics that a checkpoint's has and that an
        export does not give, and why.
      bad_data: what was found, where records or files may be left out or --mode=check_data looked.
    """

    mode: str
    status: str = "done"
    stop_reason: Optional[str] = None
    global_step: Optional[int] = None
    metrics: Mapping[str, float] = dataclasses.field(default_factory=dict)
    exports: Mapping[str, str] = dataclasses.field(default_factory=dict)
    examples_per_second: Optional[float] = None
    rows_trained: int = 0
    rows_lost: int = 0
    steps_planned: Optional[int] = None
    input_profile: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    rows_evaluated: int = 0
    rows_selected: Mapping[str, Mapping[str, int]] = dataclasses.field(default_factory=dict)
    input_cache: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    error: Optional[str] = None
    bad_data: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    metrics_left_out: Mapping[str, str] = dataclasses.field(default_factory=dict)
    task: Optional[str] = None

    @property
    def export_path(self) -> Optional[str]:
        for name in ("final", "best", "latest"):
            if name in self.exports:
                return self.exports[name]
        return None
