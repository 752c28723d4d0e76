"""The best exporter: writes a SavedModel whenever a metric is better than ever before.

TensorFlow's `BestExporter` forgets its best value when the process ends, so it always exports the
first evaluation after a restart, even a worse one. This exporter keeps the value, the metric and
its direction in `best.json`, in the folder of the exports.

A process may die after an export has got its name, and before it is recorded. So the value is
stored as `pending` before the export begins, and the next start records the export.
"""

from __future__ import annotations

import math
import os
from typing import Annotated, Any, Literal, Optional

from pydantic import Field

from estimator_kit import storage
from estimator_kit.errors import ConfigError
from estimator_kit.exporters.versions import versions


def is_better(value: float, best: float, direction: str) -> bool:
    """Whether a value beats the best one so far; a tie does not, NaN never does."""
    if not math.isfinite(value):
        return False
    if not math.isfinite(best):
        return True
    return value < best if direction == "min" else value > best


class Kept(storage.Form):
    """An entry of a file of best exports."""

    value: Annotated[float, Field(allow_inf_nan=False)]
    global_step: int
    version: str


class Pending(storage.Form):
    """An export that has begun; `above` is the newest version before it."""

    value: Annotated[float, Field(allow_inf_nan=False)]
    global_step: int
    above: int


class _Kept(storage.Form):
    metric: str
    direction: Literal["min", "max"]
    history: list[Kept]
    pending: Optional[Pending] = None


def read_record(path: str, empty: dict[str, Any], form: Any) -> dict[str, Any]:
    """Reads a file of best exports.

    Args:
      path: the path of the file.
      empty: the result if the file does not exist; it has the expected metric and direction.
      form: the form of the file; see `storage.read_json`.

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
    return kept


def begin(path: str, kept: dict[str, Any], value: float, global_step: int) -> None:
    """Stores in a file of best exports, which has the content `kept`, that an export begins."""
    above = _newest(os.path.dirname(path))
    kept["pending"] = {"value": value, "global_step": global_step, "above": above}
    storage.write_json(path, kept)


def begun(folder: str, kept: dict[str, Any]) -> Optional[tuple[float, int, str]]:
    """The value, step and path of an export that a process did not record before it died, or None.

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
    return found["value"], found["global_step"], os.path.join(folder, str(newest))


def _newest(folder: str) -> int:
    return max((int(os.path.basename(path)) for path in versions(folder)), default=-1)


class BestRecord:
    """The history of the best exporter, in `best.json`.

    Args:
      folder: the folder of the exports.
      metric, direction: what better means. They must be the same at each start.

    Raises:
      ConfigError: the file is damaged, or has another metric or direction.
    """

    def __init__(self, folder: str, metric: str, direction: str):
        self._path = os.path.join(folder, "best.json")
        empty = {"metric": metric, "direction": direction, "history": []}
        self._kept = read_record(self._path, empty, _Kept)
        unrecorded = begun(folder, self._kept)
        if unrecorded is not None:
            self.add(*unrecorded)

    @property
    def best(self) -> Optional[dict[str, Any]]:
        """`{"value", "global_step", "version"}` of the best export, or None before the first."""
        return self._kept["history"][-1] if self._kept["history"] else None

    def improves(self, value: float) -> bool:
        best = self.best["value"] if self.best else math.nan
        return is_better(value, best, self._kept["direction"])

    def begin(self, value: float, global_step: int) -> None:
        """Records that an export begins."""
        begin(self._path, self._kept, value, global_step)

    def add(self, value: float, global_step: int, path: str) -> None:
        """Records an export that has been written."""
        self._kept.pop("pending", None)
        # Only the name, because the model directory may be moved.
        version = os.path.basename(path)
        self._kept["history"].append(
            {"value": value, "global_step": global_step, "version": version}
        )
        storage.write_json(self._path, self._kept)
