"""The exporters best and best_k: SavedModels of the models with the best values of a metric.

TensorFlow's `BestExporter` forgets its best value when the process ends, so it always exports the
first evaluation after a restart, even a worse one. These exporters keep the values, the metric and
its direction in `best.json` and `best_k.json`, in the folder of the exports. They compare only
values that mean the same (`ScoresMeaning`). If they mean something else now, `best` begins again,
and the earlier exports stay; for `best_k` the earlier models come last, so new ones replace them
first. The best model of `best_k` is its first entry. It need not be the highest version, so use
`best` for a server, which serves the newest version.

A process may die after an export has got its name, and before it is recorded. So the value is
stored as `pending` before the export begins, and the next start records the export.
"""

from __future__ import annotations

import math
import os
from typing import Annotated, Any, Generic, Literal, Optional, TypeVar

from pydantic import Field

from estimator_kit.checkpoints.scores_meaning import ScoresMeaning
from estimator_kit.errors import ConfigError
from estimator_kit.exporters.versions import delete
from feature_specs.files import documents, versions


def is_better(value: float, best: float, direction: str) -> bool:
    """Whether a value beats the best one so far; a tie does not, NaN never does."""
    if not math.isfinite(value):
        return False
    if not math.isfinite(best):
        return True
    return value < best if direction == "min" else value > best


Direction = Literal["min", "max"]


class Entry(documents.Part):
    """An export; `scores` is the digest of what its value means, and `version` its name.

    It has only the name, because the model directory may be moved.
    """

    value: Annotated[float, Field(allow_inf_nan=False)]
    global_step: int
    version: str
    scores: Optional[str] = None


class _Pending(documents.Part):
    """An export that has begun; `above` is the newest version before it."""

    value: Annotated[float, Field(allow_inf_nan=False)]
    global_step: int
    above: int
    scores: Optional[str] = None


class Listing(documents.Document):
    """What `best.json` and `best_k.json` have in common."""

    metric: str
    direction: Direction
    entries: list[Entry]
    pending: Optional[_Pending] = None


_L = TypeVar("_L", bound=Listing)


class Record(Generic[_L]):
    """The record of an exporter. Goes on with what a process did not record before it died.

    Args:
      path: the file, in the folder of the exports.
      empty: what it has at first. Metric and direction must be the same at each start.
      meaning: what values mean in this start.

    Raises:
      ConfigError: the file is damaged, or has another metric or direction.
    """

    def __init__(self, path: str, empty: _L, meaning: ScoresMeaning):
        self._folder, self._path, self._meaning = os.path.dirname(path), path, meaning
        self._kept = kept = type(empty).load(path) or empty
        if (kept.metric, kept.direction) != (empty.metric, empty.direction):
            raise ConfigError(
                f"{path}: expected the metric {empty.metric} ({empty.direction}), got "
                f"{kept.metric} ({kept.direction}). Use the metric of the earlier runs, or move "
                "the folder away."
            )
        begun, newest = kept.pending, self._newest()
        if begun is not None and newest > begun.above:
            scores = begun.scores or meaning.unmarked
            self.add(begun.value, begun.global_step, str(newest), scores)

    def replace(self, entry: Entry, path: str) -> None:
        """Records that another export of the same model is in the place of an entry."""
        new = entry.model_copy(update={"version": os.path.basename(path)})
        self._save(entries=[new if each == entry else each for each in self._kept.entries])

    def begin(self, value: float, global_step: int) -> None:
        """Records that an export begins."""
        above, scores = self._newest(), self._meaning.digest
        pending = _Pending(value=value, global_step=global_step, above=above, scores=scores)
        self._save(pending=pending)

    def add(
        self, value: float, global_step: int, path: str, scores: Optional[str] = None
    ) -> list[str]:
        """Records an export, and returns the versions that are no longer among the best.

        `scores` is the digest of what its value means, by default the one of this start.
        """
        scores, version = scores or self._meaning.digest, os.path.basename(path)
        return self._add(
            Entry(value=value, global_step=global_step, version=version, scores=scores)
        )

    def _add(self, entry: Entry) -> list[str]:
        raise NotImplementedError

    def _is_better(self, value: float, best: float) -> bool:
        return is_better(value, best, self._kept.direction)

    def _newest(self) -> int:
        return max(versions.numbers(self._folder), default=-1)

    def _save(self, **changes: Any) -> None:
        """Writes the file with some other fields. An export is no longer pending."""
        self._kept = self._kept.model_copy(update={"pending": None, **changes})
        if "pending" not in changes:
            self._kept.model_fields_set.discard("pending")
        self._kept.save(self._path)


class _Best(Listing):
    entries: list[Entry] = Field(alias="history")


class BestRecord(Record[_Best]):
    """The history of the best exporter, in `best.json` of a folder; see `Record`."""

    def __init__(self, folder: str, metric: str, direction: Direction, meaning: ScoresMeaning):
        empty = _Best(metric=metric, direction=direction, history=[])
        super().__init__(os.path.join(folder, "best.json"), empty, meaning)

    @property
    def best(self) -> Optional[Entry]:
        """The best export. None before the first one whose value means the same as now."""
        last = self._kept.entries[-1:]
        return last[0] if last and self._meaning.is_of(last[0].scores) else None

    def improves(self, value: float) -> bool:
        return self._is_better(value, self.best.value if self.best else math.nan)

    def _add(self, entry: Entry) -> list[str]:
        self._save(entries=[*self._kept.entries, entry])
        return []


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
