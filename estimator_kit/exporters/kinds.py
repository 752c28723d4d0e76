"""`Exporter`: after which evaluations a SavedModel is written, and which of them stay.

    for exporter in exporters_of(run, exports, meaning):
        if exporter.due(now):
            exporter.begin(now)
            exporter.done(now, write(exporter.name))
        exporter.delete_old()

`config.areas.exports.EXPORTERS` lists all of them. To add one, write its class and list it
there. A process may die between any two of these calls, and the next start makes a new `Exporter`
from the files in its folder. So `begin` writes what a start needs to find an export that has its
name, but was not recorded.

Users may write `keep.json` into the folder of an exporter. The kit only reads it, and never deletes
a version that it names:

    <folder>/keep.json    {"pinned": {version: why}, "live": [version]}
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from typing import ClassVar, NamedTuple, Optional, Union

import pydantic

from estimator_kit.checkpoints.scores_meaning import ScoresMeaning
from estimator_kit.config.areas.exports import EXPORTERS, Exports
from estimator_kit.config.modes import InFolder
from estimator_kit.exporters.saved_model import export_folder
from feature_specs.files import documents, file_systems, staged, versions


class _Keep(documents.Document):
    """`keep.json`. A misspelled field is an error, or its versions could be deleted."""

    model_config = pydantic.ConfigDict(extra="forbid")
    remedy = "Repair it: without it, versions that are pinned or live could be deleted."

    pinned: dict[str, pydantic.JsonValue] = pydantic.Field({})
    live: list[Union[str, int]] = pydantic.Field([])


def delete_old(folder: str, keep: int) -> list[str]:
    """Deletes all but the newest `keep` versions of a folder; returns the deleted paths.

    Versions that are pinned or live stay and do not count.
    """
    protected = kept(folder)
    free = [path for path in versions.paths(folder) if os.path.basename(path) not in protected]
    deleted = free[: max(0, len(free) - keep)]
    for path in deleted:
        staged.remove_folder(path)
    return deleted


def delete(folder: str, version: str) -> bool:
    """Deletes a version unless it is pinned or live; returns whether it did."""
    path = os.path.join(folder, version)
    if version in kept(folder) or not file_systems.is_folder(path):
        return False
    staged.remove_folder(path)
    return True


def kept(folder: str) -> set[str]:
    """The names of the versions that are pinned or live."""
    keep = _Keep.load(os.path.join(folder, "keep.json")) or _Keep()
    return {*keep.pinned, *map(str, keep.live)}


class Evaluated(NamedTuple):
    """An evaluated checkpoint: its global step, and its metrics as floats."""

    step: int
    metrics: Mapping[str, float]


class Written(NamedTuple):
    """An export: the global step of its model, and the name of its version."""

    step: int
    version: str


class Exporter:
    """Exports of one kind, in their own folder. By default, after every evaluation.

    Args:
      name: its name in --exporters.
      run, exports: the folder of the run, and which exports it keeps.
      meaning: what the scores of this start mean.

    Raises:
      ConfigError: its folder cannot be written, or a file in it is damaged.
    """

    # Whether it is asked once after the last evaluation, and not after each one.
    at_end: ClassVar[bool] = False

    def __init__(self, name: str, run: InFolder, exports: Exports, meaning: ScoresMeaning):
        self.name, self.meaning = name, meaning
        self.folder = export_folder(run.model_dir, name)
        self._exports_to_keep = exports.exports_to_keep
        staged.check_writable(self.folder, flag="--model_dir")
        kept(self.folder)  # A damaged keep.json is found before training, not after it.

    def due(self, now: Evaluated) -> bool:
        """Whether the model is exported."""
        return True

    def begin(self, now: Evaluated) -> None:
        """Records that an export begins, before it is written."""

    def done(self, now: Evaluated, path: str) -> None:
        """Records an export, and deletes those that it replaces."""

    def delete_old(self) -> None:
        """Deletes all but the newest --exports_to_keep versions. Runs after each evaluation."""
        delete_old(self.folder, self._exports_to_keep)

    @property
    def newest(self) -> Optional[str]:
        """The path of the export that `result.json` names, or None."""
        return next(reversed(versions.paths(self.folder)), None)

    def of_other_outputs(self, now: Evaluated) -> list[Written]:
        """The exports to write again if the outputs of exports mean something else."""
        return []

    def replace(self, old: Written, path: str) -> None:
        """Records the export that was written again in place of another one."""


class Latest(Exporter):
    """The exporter latest: after every evaluation."""

    def of_other_outputs(self, now: Evaluated) -> list[Written]:
        return [Written(now.step, "")]

    def replace(self, old: Written, path: str) -> None:
        self.delete_old()


class _LastStep(documents.Document):
    last: int


class Step(Exporter):
    """The exporter step, such as step:1000: every 1000 steps, whatever the metrics are.

    Evaluations come with checkpoints, so it takes the first evaluated checkpoint at or after each
    multiple. `step.json` has the last step for the next start. Its exports are a record of their
    steps, so they are never written again.
    """

    def __init__(self, name: str, run: InFolder, exports: Exports, meaning: ScoresMeaning):
        super().__init__(name, run, exports, meaning)
        assert exports.export_every_steps is not None
        self._every = exports.export_every_steps
        self._path = os.path.join(self.folder, "step.json")
        stored = _LastStep.load(self._path)
        self._last = 0 if stored is None else stored.last

    def due(self, now: Evaluated) -> bool:
        return now.step // self._every > self._last // self._every

    def done(self, now: Evaluated, path: str) -> None:
        self._last = now.step
        _LastStep(last=now.step).save(self._path)


class Final(Exporter):
    """The exporter final: once, of the last checkpoint. All its versions stay."""

    at_end = True

    def __init__(self, name: str, run: InFolder, exports: Exports, meaning: ScoresMeaning):
        super().__init__(name, run, exports, meaning)
        self._path: Optional[str] = None

    def done(self, now: Evaluated, path: str) -> None:
        self._path = path

    def delete_old(self) -> None:
        pass

    @property
    def newest(self) -> Optional[str]:
        return self._path  # An earlier one is of another checkpoint.


def exporters_of(run: InFolder, exports: Exports, meaning: ScoresMeaning) -> list[Exporter]:
    """The exporters that a config lists, in the order of `EXPORTERS`."""
    return [
        class_of(name)(name, run, exports, meaning)
        for name in EXPORTERS
        if name in exports.exporter_names
    ]


def class_of(name: str) -> type[Exporter]:
    """The class of an exporter."""
    module, _, class_name = EXPORTERS[name].code.partition(":")
    kind: type[Exporter] = getattr(
        importlib.import_module(f"estimator_kit.exporters.{module}"), class_name
    )
    return kind
