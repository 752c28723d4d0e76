"""The state of cycles on disk: a folder for each cycle, with a file for each finished stage.

    model_dir/cycles/0007/
      window.json vocabularies.json checks.json train.json gate.json promote.json clean.json
      start.json           the model that its training starts from
      drift.json           how far the new periods are from the cycle before, for the report page
      publishing.json      written when it is about to go live
      spec/                the spec with the vocabularies and statistics of this cycle
      train/               the model directory of its training
      lineage.json report.json report.md done.json

A stage has finished if its file exists. `done.json`, which has the outcome, is written last. Each
file appears whole. So the files tell how far a cycle that died has come; no other state is stored.

    model_dir/serving.json    {"serving_dir": "/live/ads"}

This file has the folder that servers watch. It appears when a model goes live. So `history` and
`rollback`, and a later cycle, need no `--serving_dir`. The file has an absolute path, or null for
the default, `model_dir/serving`. So a model directory with the default can be moved.
"""

from __future__ import annotations

import os
import re
from typing import Any, ClassVar, Literal, Optional, TypeVar

from estimator_kit.errors import ConfigError
from feature_specs.files import documents

Outcome = Literal["promoted", "refused", "abandoned"]

# The outcomes of cycles that ran to their end.
THROUGH = ("promoted", "refused")

_NAME = re.compile(r"\d{4,}")


class CycleFile(documents.Document):
    """A file in the folder of a cycle. `NAME` is its name there."""

    NAME: ClassVar[str]
    sort_keys: ClassVar[bool] = False


class StageFile(CycleFile):
    """The output of a finished stage, and how long the start that finished it took."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0

    def as_json(self) -> Any:
        """The output comes first in the file."""
        values = super().as_json()
        return {key: values[key] for key in sorted(values, key=StageFile.model_fields.__contains__)}


class Done(CycleFile):
    """How a cycle ended, and when, in seconds since 1970, if it ran to its end."""

    NAME = "done.json"
    outcome: Outcome
    ended: Optional[float] = None


_File = TypeVar("_File", bound=CycleFile)


class CycleFolder:
    """The folder of one cycle.

    Args:
      model_dir: the model directory of the retraining.
      name: the name of the cycle, for example 0007.
    """

    def __init__(self, model_dir: str, name: str):
        self.name = name
        self.path = os.path.join(model_dir, "cycles", name)

    def load(self, form: type[_File]) -> Optional[_File]:
        """The file of this form, or None if it does not exist.

        Raises:
          ConfigError: the file is damaged.
        """
        return form.load(self.at(form.NAME))

    def output(self, form: type[_File]) -> _File:
        """The file of a stage that has finished."""
        file = self.load(form)
        assert file is not None, form.NAME
        return file

    def save(self, file: CycleFile) -> None:
        file.save(self.at(file.NAME))

    def forget(self, form: type[CycleFile]) -> None:
        """Removes the file of a stage, so that the stage is run again."""
        if os.path.exists(self.at(form.NAME)):
            os.remove(self.at(form.NAME))

    def at(self, *names: str) -> str:
        return os.path.join(self.path, *names)

    @property
    def outcome(self) -> Optional[Outcome]:
        """`promoted`, `refused` or `abandoned`; None if the cycle has not ended."""
        done = self.load(Done)
        return done.outcome if done is not None else None

    @property
    def pinned(self) -> bool:
        return os.path.exists(self.at("PINNED"))

    @property
    def train_dir(self) -> str:
        return self.at("train")


def cycles(model_dir: str) -> list[CycleFolder]:
    """All cycles, the oldest first."""
    folder = os.path.join(model_dir, "cycles")
    names = os.listdir(folder) if os.path.isdir(folder) else []
    return [
        CycleFolder(model_dir, name)
        for name in sorted((n for n in names if _NAME.fullmatch(n)), key=int)
    ]


def find(model_dir: str, name: str) -> CycleFolder:
    """Returns a cycle by its name, for example 7 or 0007.

    Raises:
      ConfigError: the cycle does not exist. The message says which cycles exist.
    """
    by_name = {cycle.name: cycle for cycle in cycles(model_dir)}
    wanted = name.lstrip("0").zfill(4) if name.isdecimal() else name
    if wanted not in by_name:
        hint = (
            f"Use one from {min(by_name)} to {max(by_name)}." if by_name else "It has no cycle yet."
        )
        raise ConfigError(f"--cycle={name}: {model_dir} has no cycle {wanted}. {hint}")
    return by_name[wanted]


def new(model_dir: str) -> CycleFolder:
    """The folder of the next cycle. The folder is made when its window is written."""
    existing = cycles(model_dir)
    number = int(existing[-1].name) + 1 if existing else 1
    return CycleFolder(model_dir, f"{number:04d}")


_SERVING_DIR_FILE = "serving.json"


class _Remembered(documents.Document):
    serving_dir: Optional[str]


def chosen_serving_dir(serving_dir: Optional[str], model_dir: str) -> str:
    """The serving directory, from the setting `serving_dir` or from the last promotion.

    Raises:
      ConfigError: the file is damaged.
    """
    if serving_dir is not None:
        return serving_dir
    kept = _Remembered.load(os.path.join(model_dir, _SERVING_DIR_FILE))
    return (kept.serving_dir if kept is not None else None) or _default_serving_dir(model_dir)


def remember_serving_dir(folder: str, model_dir: str) -> None:
    """Notes the folder in which a model goes live."""
    is_default = os.path.abspath(folder) == os.path.abspath(_default_serving_dir(model_dir))
    kept = _Remembered(serving_dir=None if is_default else os.path.abspath(folder))
    kept.save(os.path.join(model_dir, _SERVING_DIR_FILE))


def _default_serving_dir(model_dir: str) -> str:
    return os.path.join(model_dir, "serving")
