"""`eval_history.jsonl`: the metrics of all evaluations of a model directory, one line for each.

    {"global_step": 800, "metrics": {"auc/click": 0.795, "loss": 0.179}}

A metric that was not finite is null. A training that starts again removes the lines of steps that
it repeats.
"""

from __future__ import annotations

import json
import os
from typing import Any, Optional

from estimator_kit import storage


class _Entry(storage.Form):
    global_step: int
    metrics: dict[str, Optional[float]]


class EvaluationHistory:
    """The evaluations of a model directory, ordered by step."""

    def __init__(self, model_dir: str):
        self._path = os.path.join(model_dir, "eval_history.jsonl")

    def read(self) -> list[dict[str, Any]]:
        """Returns the entries `{"global_step", "metrics"}`; empty before the first evaluation.

        Raises:
          ConfigError: a line has other content.
        """
        entries = storage.read_json_lines(self._path, _Entry)
        return [{name: entry[name] for name in ("global_step", "metrics")} for entry in entries]

    def add(self, global_step: int, metrics: dict[str, float]) -> list[dict[str, Any]]:
        """Adds an evaluation, and removes entries of this and later steps (before a restart).

        Returns all entries, of which the last is the new one.
        """
        entries = [entry for entry in self.read() if entry["global_step"] < global_step]
        entries.append({"global_step": global_step, "metrics": storage.plain(metrics)})
        text = "".join(json.dumps(entry, sort_keys=True) + "\n" for entry in entries)
        storage.write_text(self._path, text)
        return entries
