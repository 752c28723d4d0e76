"""The best-k exporter: keeps the k best models by a metric, over all starts.

`best_k.json`, in the folder of the exports, lists them and those that were dropped. The first entry
is the best model. It need not be the highest version, so use `best` for a server, which serves the
newest version. Only values that mean the same are compared (`ScoresMeaning`): models that were
measured otherwise come last, so new ones replace them first.
"""

from __future__ import annotations

import os
from typing import Any, Literal, Optional

from estimator_kit import storage
from estimator_kit.checkpoints.scores_meaning import ScoresMeaning
from estimator_kit.exporters.best import (
    Kept,
    Pending,
    begin,
    begun,
    is_better,
    new_entry,
    read_record,
)
from estimator_kit.exporters.versions import delete
from feature_specs.files import documents


class _Kept(storage.Form):
    metric: str
    direction: Literal["min", "max"]
    best: list[Kept]
    dropped: list[Kept]
    pending: Optional[Pending] = None


class BestKRecord:
    """The record of the best-k exporter.

    Args:
      folder: the folder of the exports.
      metric, direction: what better means. They must be the same at each start.
      count: the number of models to keep; it may change from start to start.
      meaning: what values mean in this start.

    Raises:
      ConfigError: the file is damaged, or has another metric or direction.
    """

    def __init__(
        self, folder: str, metric: str, direction: str, count: int, meaning: ScoresMeaning
    ):
        self._meaning = meaning
        self._path = os.path.join(folder, "best_k.json")
        self._count = count
        empty = {"metric": metric, "direction": direction, "best": [], "dropped": []}
        self._kept = read_record(self._path, empty, _Kept, meaning)
        unrecorded = begun(folder, self._kept)
        if unrecorded is not None:
            self.add(*unrecorded)
        for entry in self._kept["dropped"]:  # A process may die before it has deleted one.
            delete(folder, entry["version"])

    def replace(self, entry: dict[str, Any], path: str) -> None:
        """Records that another export of the same model is in the place of an entry of `best`."""
        entry["version"] = os.path.basename(path)
        documents.write_json(self._path, self._kept)

    @property
    def best(self) -> list[dict[str, Any]]:
        """`{"value", "global_step", "version", "scores"}` of the models that are kept.

        The best comes first. Models whose value means something else are not among them.
        """
        return [entry for entry in self._kept["best"] if self._meaning.is_of(entry.get("scores"))]

    def improves(self, value: float, global_step: Optional[int] = None) -> bool:
        """Whether a model with this value is among the best; a tie with the last one is not.

        Neither is a step whose export is recorded already.
        """
        best = self.best[: self._count]
        if any((e["global_step"], e["value"]) == (global_step, value) for e in best):
            return False
        if len(best) < self._count:
            return is_better(value, float("nan"), self._kept["direction"])
        return is_better(value, best[-1]["value"], self._kept["direction"])

    def begin(self, value: float, global_step: int) -> None:
        """Records that an export begins."""
        begin(self._path, self._kept, value, global_step, self._meaning.digest)

    def add(
        self, value: float, global_step: int, path: str, scores: Optional[str] = None
    ) -> list[str]:
        """Records an export, and returns the versions that are no longer among the best.

        `scores` is the digest of what its value means, by default the one of this start.
        """
        self._kept.pop("pending", None)
        entry = new_entry(value, global_step, path, scores or self._meaning.digest)
        # Sorting is stable: of two equal values, the older one comes first.
        sign = 1 if self._kept["direction"] == "min" else -1
        best = sorted(
            [*self._kept["best"], entry],
            key=lambda e: (not self._meaning.is_of(e.get("scores")), sign * e["value"]),
        )
        dropped = best[self._count :]
        self._kept["best"] = best[: self._count]
        self._kept["dropped"] += dropped
        documents.write_json(self._path, self._kept)
        return [entry["version"] for entry in dropped]
