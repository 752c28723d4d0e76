"""Where a case works, and what it hands to the program."""

from __future__ import annotations

import dataclasses
import pathlib
import shutil
from collections.abc import Sequence
from typing import Optional


@dataclasses.dataclass(frozen=True)
class Place:
    """The folder of a case, which has a copy of `data` of `start`.

    Attributes:
      base: what `start.make` has filled.
      folder: of the case; the program runs there.
    """

    base: pathlib.Path
    folder: pathlib.Path

    def bring(self, name: str) -> pathlib.Path:
        """A copy of `model` or `retraining` in the folder."""
        path = self.folder / name
        shutil.copytree(self.base / name, path)
        return path

    def write(self, name: str, content: bytes) -> None:
        (self.folder / name).write_bytes(content)

    def read(self, name: str) -> bytes:
        return (self.folder / name).read_bytes()


@dataclasses.dataclass(frozen=True)
class Drawn:
    """What was drawn: a command line, perhaps a TF_CONFIG, and what is wrong with what it reads.

    Attributes:
      arguments: of the program.
      what: what was done to them, or to files; for people.
      tf_config: the variable of the environment.
      inputs: folders and files that no run changes.
      then: another command line, which is asked where the first one ends with 0.
    """

    arguments: Sequence[str]
    what: str
    tf_config: Optional[str] = None
    then: Sequence[str] = ()
