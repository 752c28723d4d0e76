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

import logging
import math
import os
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Generic, Literal, Optional, TypeVar

from pydantic import Field

from estimator_kit.checkpoints.scores_meaning import ScoresMeaning
from estimator_kit.config.areas.exports import Exports, metric_of
from estimator_kit.config.modes import InFolder
from estimator_kit.errors import ConfigError
from estimator_kit.exporters.kinds import Evaluated, Exporter, Written, delete
from feature_specs.files import documents, versions

_log = logging.getLogger("estimator_kit")


def is_better(value: float, best: float, direction: str) -> bool:
    """Whether a value beats the best one so far; a tie does not, NaN never does."""
    if not math.isfinite(value):
        return False
    if not math.isfinite(best):
        return True
    return value < best if direction == "min" else value > best


def has_stalled(
    values: Sequence[Optional[float]], direction: str, *, patience: int, min_delta: float = 0.0
) -> bool:
    """Whether none of the last `patience` evaluations is better than the best one before them.

    For the values 3, 2, 2, 2 and the direction `min`, training has stalled with a patience of 2,
    but not with a patience of 3. With a `min_delta` of 2, it has stalled with 3, too.

    Args:
      values: the metric in each evaluation, ordered by step. None or NaN is never better.
      direction: `min` or `max`.
      patience: 1 or more.
      min_delta: a smaller change than this does not count. Several small ones together do,
        because each value is compared with the last improvement.
    """
    best = math.nan
    since = 0
    for value in values:
        better = value is not None and is_better(value, best, direction)
        if better and value is not None and not abs(value - best) < min_delta:
            best, since = value, 0
        elif math.isfinite(best):  # Training cannot stall before the first value.
            since += 1
    return since >= patience


def watched(metrics: Mapping[str, float], metric: str) -> float:
    """A metric that chooses models. Logs a warning if it is undefined."""
    value = metrics[metric]
    if math.isnan(value):
        _log.warning(
            "%s is undefined: the evaluation files have no rows for it, or the model answers "
            "NaN. This model is not the best one.",
            metric,
        )
    return value


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


class _Listing(documents.Document):
    """What `best.json` and `best_k.json` have in common."""

    metric: str
    direction: Literal["min", "max"]
    entries: list[Entry]
    pending: Optional[_Pending] = None


_L = TypeVar("_L", bound=_Listing)


class _ByMetric(Exporter, Generic[_L]):
    """An exporter that compares --best_metric. It records what a process that died has not.

    A subclass gives the `models` that it compares with, and says how one is added.

    Raises:
      ConfigError: its file is damaged, or has another metric or direction.
    """

    def __init__(self, name: str, run: InFolder, exports: Exports, meaning: ScoresMeaning):
        super().__init__(name, run, exports, meaning)
        metric = metric_of(exports.best_metric)
        empty = self._empty(metric=metric, direction=exports.best_direction or "min")
        self._path = path = os.path.join(self.folder, f"{name}.json")
        self._stored = stored = type(empty).load(path) or empty
        if (stored.metric, stored.direction) != (empty.metric, empty.direction):
            raise ConfigError(
                f"{path}: expected the metric {empty.metric} ({empty.direction}), got "
                f"{stored.metric} ({stored.direction}). Use the metric of the earlier runs, or "
                "move the folder away."
            )
        begun, newest = stored.pending, self._newest_number()
        if begun is not None and newest > begun.above:
            self._add(
                Entry(
                    value=begun.value,
                    global_step=begun.global_step,
                    version=str(newest),
                    scores=begun.scores or meaning.unmarked,
                )
            )

    @property
    def models(self) -> list[Entry]:
        """The exports whose values mean the same as now; the best comes first."""
        raise NotImplementedError

    def due(self, now: Evaluated) -> bool:
        return self._improves(watched(now.metrics, self._stored.metric), now.step)

    def begin(self, now: Evaluated) -> None:
        self._save(pending=_Pending(**self._facts(now), above=self._newest_number()))

    def done(self, now: Evaluated, path: str) -> None:
        self._add(Entry(**self._facts(now), version=os.path.basename(path)))

    @property
    def newest(self) -> Optional[str]:
        models = self.models
        return os.path.join(self.folder, models[0].version) if models else None

    def of_other_outputs(self, now: Evaluated) -> list[Written]:
        return [Written(entry.global_step, entry.version) for entry in self.models]

    def replace(self, old: Written, path: str) -> None:
        new = {"version": os.path.basename(path)}
        self._save(
            entries=[
                entry.model_copy(update=new) if entry.version == old.version else entry
                for entry in self._stored.entries
            ]
        )
        delete(self.folder, old.version)

    def _empty(self, **of: Any) -> _L:
        raise NotImplementedError

    def _improves(self, value: float, step: int) -> bool:
        best = self.models[0].value if self.models else math.nan
        return is_better(value, best, self._stored.direction)

    def _add(self, entry: Entry) -> None:
        raise NotImplementedError

    def _facts(self, now: Evaluated) -> dict[str, Any]:
        value = now.metrics[self._stored.metric]
        return {"value": value, "global_step": now.step, "scores": self.meaning.digest}

    def _newest_number(self) -> int:
        return max(versions.numbers(self.folder), default=-1)

    def _save(self, **changes: Any) -> None:
        """Writes the file with some other fields. An export is no longer pending."""
        self._stored = self._stored.model_copy(update={"pending": None, **changes})
        if "pending" not in changes:
            self._stored.model_fields_set.discard("pending")
        self._stored.save(self._path)


class _Best(_Listing):
    entries: list[Entry] = Field(alias="history")


class Best(_ByMetric[_Best]):
    """The exporter best: whenever --best_metric is better than ever before."""

    @property
    def models(self) -> list[Entry]:
        return [e for e in self._stored.entries[-1:] if self.meaning.is_of(e.scores)]

    def _empty(self, **of: Any) -> _Best:
        return _Best(**of, history=[])

    def _add(self, entry: Entry) -> None:
        self._save(entries=[*self._stored.entries, entry])


class _BestK(_Listing):
    entries: list[Entry] = Field(alias="best")
    dropped: list[Entry]


class BestK(_ByMetric[_BestK]):
    """The exporter best_k: whenever --best_metric is among the best values.

    The number may change from start to start. The file also lists the models that were dropped.
    """

    def __init__(self, name: str, run: InFolder, exports: Exports, meaning: ScoresMeaning):
        self._count = exports.best_k
        super().__init__(name, run, exports, meaning)
        for entry in self._stored.dropped:  # A process may die before it has deleted one.
            delete(self.folder, entry.version)

    @property
    def models(self) -> list[Entry]:
        return [entry for entry in self._stored.entries if self.meaning.is_of(entry.scores)]

    def delete_old(self) -> None:
        """Deletes nothing: `_add` has deleted the version that is no longer among the best."""

    def _empty(self, **of: Any) -> _BestK:
        return _BestK(**of, best=[], dropped=[])

    def _improves(self, value: float, step: int) -> bool:
        """A tie with the last of the best is not better. Neither is an export that is recorded."""
        best = self.models[: self._count]
        if any((entry.global_step, entry.value) == (step, value) for entry in best):
            return False
        last = best[-1].value if len(best) == self._count else math.nan
        return is_better(value, last, self._stored.direction)

    def _add(self, entry: Entry) -> None:
        # Sorting is stable: of two equal values, the older one comes first.
        sign = 1 if self._stored.direction == "min" else -1
        best = sorted(
            [*self._stored.entries, entry],
            key=lambda e: (not self.meaning.is_of(e.scores), sign * e.value),
        )
        dropped = best[self._count :]
        self._save(entries=best[: self._count], dropped=[*self._stored.dropped, *dropped])
        for each in dropped:
            delete(self.folder, each.version)
