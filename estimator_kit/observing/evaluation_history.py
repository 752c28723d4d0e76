"""`eval_history.jsonl`: the metrics of all evaluations of a model directory, one line for each.

    {"global_step": 800, "metrics": {"auc/click": 0.795, "loss": 0.179}, "scores": "9f86d081..."}

A metric that was not finite is null. `scores` is a digest of what the metrics mean; see
`ScoresMeaning`. A training that starts again removes the lines of steps that it repeats.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Optional

from estimator_kit.checkpoints.scores_meaning import ScoresMeaning
from feature_specs.files import documents


class Evaluation(documents.Document):
    """A line. An earlier version of the kit stored no `scores`."""

    global_step: int
    metrics: Mapping[str, Optional[float]]
    scores: Optional[str] = None


class EvaluationHistory:
    """The evaluations of a model directory, ordered by step."""

    def __init__(self, model_dir: str):
        self._path = os.path.join(model_dir, "eval_history.jsonl")

    def read(self) -> list[Evaluation]:
        """Returns the evaluations; empty before the first one.

        Raises:
          ConfigError: a line has other content.
        """
        return documents.load_lines(self._path, Evaluation)

    def latest(self) -> list[Evaluation]:
        """The evaluations since what the scores mean was last changed."""
        found: list[Evaluation] = []
        for entry in self.read():
            if found and entry.scores != found[-1].scores:
                found = []
            found.append(entry)
        return found

    def alike(self, meaning: ScoresMeaning) -> list[Evaluation]:
        """`latest` if its scores mean this, else an empty list: nothing can be compared."""
        found = self.latest()
        return found if found and meaning.is_of(found[-1].scores) else []

    def forget_after(self, step: int) -> None:
        """Removes the entries of later steps, which a training repeats that went back by hand."""
        entries = self.read()
        if entries and entries[-1].global_step > step:
            kept = [entry for entry in entries if entry.global_step <= step]
            documents.save_lines(self._path, kept)

    def add(
        self, global_step: int, metrics: Mapping[str, Optional[float]], meaning: ScoresMeaning
    ) -> list[Evaluation]:
        """Adds an evaluation, and removes entries of this and later steps (before a restart).

        An entry of this step whose scores mean something else stays.

        Returns the entries whose scores mean the same, of which the last is the new one.
        """
        entries = [
            entry.model_copy(update={"scores": entry.scores or meaning.unmarked})
            for entry in self.read()
            if entry.global_step < global_step
            or (entry.global_step == global_step and not meaning.is_of(entry.scores))
        ]
        made = Evaluation(global_step=global_step, metrics=metrics, scores=meaning.digest)
        documents.save_lines(self._path, [*entries, made])
        return self.alike(meaning)
