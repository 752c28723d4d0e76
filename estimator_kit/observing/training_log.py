"""`observed/training.jsonl`: the measurements of a training, one JSON object per line.

    {"step": 800, "loss": 0.181, "losses": {"click": 0.171, "purchase": 0.02},
     "learning_rate": 0.05, "gradient_norm": 0.83, "examples_per_second": 71500.0}

`step` is the global step after the batch, as in TensorBoard. `loss` and `losses` are for one batch,
and with several devices the mean of their batches. `gradient_norm` is the norm of all gradients
together, before clipping. `examples_per_second` is the rate since the previous measurement. If a
model does not have a number, the number is left out.

A training that starts again removes the lines of steps that it repeats. The file has at most 2,000
lines. If it would have more, the training removes every second line and writes half as often.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Optional

from feature_specs.files import documents

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
