"""The best exporter: writes a SavedModel whenever a metric is better than ever before.

TensorFlow's `BestExporter` forgets its best value when the process ends, so it always exports the
first evaluation after a restart, even a worse one. This exporter keeps the value, the metric and
its direction in `best.json`, in the folder of the exports. It compares only values that mean the
same (`ScoresMeaning`). If they mean something else now, it begins again, and the earlier exports
stay until new ones replace them.

A process may die after an export has got its name, and before it is recorded. So the value is
stored as `pending` before the export begins, and the next start records the export.
"""

from __future__ import annotations

import math
import os
from typing import Annotated, Any, Literal, Optional

from pydantic import Field

from estimator_kit import storage
from estimator_kit.checkpoints.scores_meaning import ScoresMeaning
from estimator_kit.errors import ConfigError
from estimator_kit.exporters.versions import versions
from feature_specs.files import documents


def is_better(value: float, best: float, direction: str) -> bool:
    """Whether a value beats the best one so far; a tie does not, NaN never does."""
    if not math.isfinite(value):
        return False
    if not math.isfinite(best):
        return True
    return value < best if direction == "min" else value > best


class Kept(storage.Form):
    """An entry of a file of best exports; `scores` is the digest of what its value means."""

    value: Annotated[float, Field(allow_inf_nan=False)]
    global_step: int
    version: str
    scores: Optional[str] = None


class Pending(storage.Form):
    """An export that has begun; `above` is the newest version before it."""

    value: Annotated[float, Field(allow_inf_nan=False)]
    global_step: int
    above: int
    scores: Optional[str] = None


class _Kept(storage.Form):
    metric: str
    direction: Literal["min", "max"]
    history: list[Kept]
    pending: Optional[Pending] = None


def read_record(
    path: str, empty: dict[str, Any], form: Any, meaning: ScoresMeaning
) -> dict[str, Any]:
    """Reads a file of best exports.

    Args:
      path: the path of the file.
      empty: the result if the file does not exist; it has the expected metric and direction.
      form: the form of the file; see `storage.read_json`.
      meaning: says what the values of an earlier version of the kit mean.

    Raises:
      ConfigError: the file is damaged, or has another metric or direction.
    """
    kept: dict[str, Any] = storage.read_json(path, form) or empty
    metric, direction = empty["metric"], empty["direction"]
    if (kept["metric"], kept["direction"]) != (metric, direction):
        raise ConfigError(
            f"{path}: expected the metric {metric} ({direction}), got {kept['metric']} "
            f"({kept['direction']}). Use the metric of the earlier runs, or move the folder away."
        )
    pending = [kept["pending"]] if kept.get("pending") else []
    for entry in (*kept.get("history", ()), *kept.get("best", ()), *pending):
        entry.setdefault("scores", meaning.unmarked)
    return kept


def begin(path: str, kept: dict[str, Any], value: float, global_step: int, scores: str) -> None:
    """Stores in a file of best exports, which has the content `kept`, that an export begins."""
    above = _newest(os.path.dirname(path))
    kept["pending"] = {
        "value": value,
        "global_step": global_step,
        "above": above,
        "scores": scores,
    }
    documents.write_json(path, kept)


def begun(folder: str, kept: dict[str, Any]) -> Optional[tuple[float, int, str, str]]:
    """What a process did not record before it died, or None if nothing.

    These are the value, the step and the path of an export, and the digest of what its value means.

    Args:
      folder: the folder of the exports.
      kept: the content of the file of best exports.
    """
    found = kept.get("pending")
    if found is None:
        return None
    newest = _newest(folder)
    if newest <= found["above"]:
        return None
    path = os.path.join(folder, str(newest))
    return found["value"], found["global_step"], path, found["scores"]


def new_entry(value: float, global_step: int, path: str, scores: str) -> dict[str, Any]:
    """The entry of an export. It has only the name, because the model directory may be moved."""
    version = os.path.basename(path)
    return {"value": value, "global_step": global_step, "version": version, "scores": scores}


def _newest(folder: str) -> int:
    return max((int(os.path.basename(path)) for path in versions(folder)), default=-1)


class BestRecord:
    """The history of the best exporter, in `best.json`.

    Args:
      folder: the folder of the exports.
      metric, direction: what better means. They must be the same at each start.
      meaning: what values mean in this start.

    Raises:
      ConfigError: the file is damaged, or has another metric or direction.
    """

    def __init__(self, folder: str, metric: str, direction: str, meaning: ScoresMeaning):
        self._meaning = meaning
        self._path = os.path.join(folder, "best.json")
        empty = {"metric": metric, "direction": direction, "history": []}
        self._kept = read_record(self._path, empty, _Kept, meaning)
        unrecorded = begun(folder, self._kept)
        if unrecorded is not None:
            self.add(*unrecorded)

    @property
    def best(self) -> Optional[dict[str, Any]]:
        """`{"value", "global_step", "version", "scores"}` of the best export.

        None before the first one whose value means the same as in this start.
        """
        history = self._kept["history"]
        return history[-1] if history and self._meaning.is_of(history[-1].get("scores")) else None

    def replace(self, entry: dict[str, Any], path: str) -> None:
        """Records that another export of the same model is in the place of an entry."""
        entry["version"] = os.path.basename(path)
        documents.write_json(self._path, self._kept)

    def improves(self, value: float) -> bool:
        best = self.best["value"] if self.best else math.nan
        return is_better(value, best, self._kept["direction"])

    def begin(self, value: float, global_step: int) -> None:
        """Records that an export begins."""
        begin(self._path, self._kept, value, global_step, self._meaning.digest)

    def add(self, value: float, global_step: int, path: str, scores: Optional[str] = None) -> None:
        """Records an export that has been written; `scores` if its value means something else."""
        self._kept.pop("pending", None)
        self._kept["history"].append(
            new_entry(value, global_step, path, scores or self._meaning.digest)
        )
        documents.write_json(self._path, self._kept)
