"""The step exporter: exports the model every N steps, whatever its metrics.

Evaluations come with checkpoints, so the exporter takes the first evaluated checkpoint at or after
each multiple of N. `step.json`, in the folder of the exports, has the last step for the next start.
"""

from __future__ import annotations

import os

from feature_specs.files import documents


class _Kept(documents.Document):
    last: int


class StepRecord:
    """The record of the step exporter.

    Args:
      folder: the folder of the exports.
      every: the number of steps between exports.

    Raises:
      ConfigError: the file is damaged.
    """

    def __init__(self, folder: str, every: int):
        self._path = os.path.join(folder, "step.json")
        self._every = every
        kept = _Kept.load(self._path)
        self._last = 0 if kept is None else kept.last

    def is_due(self, global_step: int) -> bool:
        """Whether a multiple was reached since the last export."""
        return global_step // self._every > self._last // self._every

    def add(self, global_step: int) -> None:
        self._last = global_step
        _Kept(last=global_step).save(self._path)
