"""The best-k exporter: keeps the k best models by a metric, over all starts.

`best_k.json`, in the folder of the exports, lists them and those that were dropped. The first entry
is the best model. It need not be the highest version, so use `best` for a server, which serves the
newest version. Only values that mean the same are compared (`ScoresMeaning`): models that were
measured otherwise come last, so new ones replace them first.
"""

from __future__ import annotations

import os
from typing import Optional

from pydantic import Field

from estimator_kit.checkpoints.scores_meaning import ScoresMeaning
from estimator_kit.exporters.best import Direction, Entry, Listing, Record
from estimator_kit.exporters.versions import delete


class _BestK(Listing):
    entries: list[Entry] = Field(alias="best")
    dropped: list[Entry]


class BestKRecord(Record[_BestK]):
    """The record of the best-k exporter, in `best_k.json` of a folder; see `Record`.

    `count` is the number of models to keep; it may change from start to start.
    """

    def __init__(
        self, folder: str, metric: str, direction: Direction, count: int, meaning: ScoresMeaning
    ):
        self._count = count
        empty = _BestK(metric=metric, direction=direction, best=[], dropped=[])
        super().__init__(os.path.join(folder, "best_k.json"), empty, meaning)
        for entry in self._kept.dropped:  # A process may die before it has deleted one.
            delete(folder, entry.version)

    @property
    def best(self) -> list[Entry]:
        """The models that are kept and whose values mean the same as now; the best comes first."""
        return [entry for entry in self._kept.entries if self._meaning.is_of(entry.scores)]

    def improves(self, value: float, global_step: Optional[int] = None) -> bool:
        """Whether a model with this value is among the best; a tie with the last one is not.

        Neither is a step whose export is recorded already.
        """
        best = self.best[: self._count]
        if any((e.global_step, e.value) == (global_step, value) for e in best):
            return False
        return self._is_better(value, float("nan") if len(best) < self._count else best[-1].value)

    def _add(self, entry: Entry) -> list[str]:
        # Sorting is stable: of two equal values, the older one comes first.
        sign = 1 if self._kept.direction == "min" else -1
        best = sorted(
            [*self._kept.entries, entry],
            key=lambda e: (not self._meaning.is_of(e.scores), sign * e.value),
        )
        dropped = best[self._count :]
        self._save(entries=best[: self._count], dropped=[*self._kept.dropped, *dropped])
        return [entry.version for entry in dropped]
