"""`eval_history.jsonl`: the metrics of all evaluations of a model directory, one line for each.

    {"global_step": 800, "metrics": {"auc/click": 0.795, "loss": 0.179}, "scores": "9f86d081..."}

A metric that was not finite is null. `scores` is a digest of what the metrics mean; see
`ScoresMeaning`. A training that starts again removes the lines of steps that it repeats.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, Optional

from estimator_kit import storage
from estimator_kit.checkpoints.scores_meaning import ScoresMeaning
from feature_specs.files import documents

_KEYS = ("global_step", "metrics", "scores")


class _Entry(storage.Form):
    global_step: int
    metrics: dict[str, Optional[float]]
    scores: Optional[str] = None


class EvaluationHistory:
    """The evaluations of a model directory, ordered by step."""

    def __init__(self, model_dir: str):
        self._path = os.path.join(model_dir, "eval_history.jsonl")

    def read(self) -> list[dict[str, Any]]:
        """Returns the entries `{"global_step", "metrics", "scores"}`.

        Empty before the first evaluation. An earlier version of the kit stored no `scores`.

        Raises:
          ConfigError: a line has other content.
        """
        entries = storage.read_json_lines(self._path, _Entry)
        return [{name: entry[name] for name in _KEYS if name in entry} for entry in entries]

    def latest(self) -> list[dict[str, Any]]:
        """The entries since what the scores mean was last changed."""
        found: list[dict[str, Any]] = []
        for entry in self.read():
            if found and entry.get("scores") != found[-1].get("scores"):
                found = []
            found.append(entry)
        return found

    def alike(self, meaning: ScoresMeaning) -> list[dict[str, Any]]:
        """`latest` if its scores mean this, else an empty list: nothing can be compared."""
        found = self.latest()
        return found if found and meaning.is_of(found[-1].get("scores")) else []

    def forget_after(self, step: int) -> None:
        """Removes the entries of later steps, which a training repeats that went back by hand."""
        entries = self.read()
        if entries and entries[-1]["global_step"] > step:
            self._write([entry for entry in entries if entry["global_step"] <= step])

    def add(
        self, global_step: int, metrics: dict[str, float], meaning: ScoresMeaning
    ) -> list[dict[str, Any]]:
        """Adds an evaluation, and removes entries of this and later steps (before a restart).

        An entry of this step whose scores mean something else stays.

        Returns the entries whose scores mean the same, of which the last is the new one.
        """
        entries = [
            {"scores": meaning.unmarked, **entry}
            for entry in self.read()
            if entry["global_step"] < global_step
            or (entry["global_step"] == global_step and not meaning.is_of(entry.get("scores")))
        ]
        new = {"global_step": global_step, "metrics": documents.plain(metrics)}
        entries.append({**new, "scores": meaning.digest})
        self._write(entries)
        return self.alike(meaning)

    def _write(self, entries: Sequence[Mapping[str, Any]]) -> None:
        text = "".join(json.dumps(entry, sort_keys=True) + "\n" for entry in entries)
        documents.write_text(self._path, text)
