"""What a model directory stores of its evaluations and its training, one JSON object per line.

`eval_history.jsonl` has the metrics of all evaluations:

    {"global_step": 800, "metrics": {"auc/click": 0.795, "loss": 0.179}, "scores": "9f86d081..."}

A metric that was not finite is null. `scores` is a digest of what the metrics mean; see
`ScoresMeaning`. `eval_sets` has the other sets of --eval_files, by name.

`observed/training.jsonl` has the measurements of a training:

    {"step": 800, "loss": 0.181, "losses": {"click": 0.171, "purchase": 0.02},
     "learning_rate": 0.05, "gradient_norm": 0.83, "examples_per_second": 71500.0}

`step` is the global step after the batch, as in TensorBoard. `loss` and `losses` are for one batch,
and with several devices the mean of their batches. `gradient_norm` is the norm of all gradients
together, before clipping. `examples_per_second` is the rate since the previous measurement. If a
model does not have a number, the number is left out. The file has at most 2,000 lines. If it would
have more, the training removes every second line and writes half as often.

A training that starts again removes the lines of steps that it repeats, from both files.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import Optional

from estimator_kit.checkpoints.scores_meaning import ScoresMeaning
from estimator_kit.result import EvalSet
from feature_specs.files import documents


class Evaluation(documents.Document):
    """A line. An earlier version of the kit stored no `scores`."""

    global_step: int
    metrics: Mapping[str, Optional[float]]
    scores: Optional[str] = None
    eval_sets: Mapping[str, EvalSet] = {}


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
        entries: list[Evaluation] = []
        for entry in self.read():
            if entries and entry.scores != entries[-1].scores:
                entries = []
            entries.append(entry)
        return entries

    def alike(self, meaning: ScoresMeaning) -> list[Evaluation]:
        """`latest` if its scores mean this, else an empty list: nothing can be compared."""
        entries = self.latest()
        return entries if entries and meaning.is_of(entries[-1].scores) else []

    def forget_after(self, step: int) -> None:
        """Removes the entries of later steps, which a training repeats that went back by hand."""
        entries = self.read()
        if entries and entries[-1].global_step > step:
            kept = [entry for entry in entries if entry.global_step <= step]
            documents.save_lines(self._path, kept)

    def add(
        self,
        global_step: int,
        metrics: Mapping[str, Optional[float]],
        meaning: ScoresMeaning,
        eval_sets: Mapping[str, EvalSet] = MappingProxyType({}),
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
        evaluation = Evaluation(
            global_step=global_step,
            metrics=metrics,
            scores=meaning.digest,
            **({"eval_sets": dict(eval_sets)} if eval_sets else {}),
        )
        documents.save_lines(self._path, [*entries, evaluation])
        return self.alike(meaning)


MOST_LINES = 2000


class Measurement(documents.Document):
    """A line."""

    step: int
    loss: Optional[float]
    losses: Mapping[str, Optional[float]] = {}
    learning_rate: Optional[float] = None
    gradient_norm: Optional[float] = None
    examples_per_second: Optional[float] = None


def path_of(model_dir: str) -> str:
    return os.path.join(model_dir, "observed", "training.jsonl")


def read(model_dir: str) -> list[Measurement]:
    """Returns the measurements, ordered by step. Empty if the file does not exist.

    Raises:
      ConfigError: a line has other content.
    """
    return documents.load_lines(path_of(model_dir), Measurement)


class TrainingLog:
    """Collects the measurements of a training, and writes them at checkpoints.

    Args:
      model_dir: the model directory.
      start_step: the first step of this start. Later entries of earlier starts are removed.
    """

    def __init__(self, model_dir: str, start_step: int):
        self._path = path_of(model_dir)
        self._entries = [entry for entry in read(model_dir) if entry.step <= start_step]
        self._every = 1
        self._seen = 0

    def add(self, entry: Measurement) -> None:
        if self._seen % self._every == 0:
            self._entries.append(entry)
        self._seen += 1
        if len(self._entries) > MOST_LINES:
            self._entries = self._entries[::2]
            self._every *= 2

    def write(self) -> None:
        documents.save_lines(self._path, self._entries)
