"""The folder of a case, and what the case passes to the program."""

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
      base: the folder that `start.make` has filled.
      folder: the folder of the case, in which the program runs.
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
    """A drawn case: a command line, perhaps a TF_CONFIG, and a description of the damage.

    Attributes:
      arguments: the arguments of the program.
      what: a description of the changes to the arguments or to files.
      tf_config: the environment variable.
      inputs: folders and files that no run may change.
      then: another command line, which is run if the first one ends with 0.
    """

    arguments: Sequence[str]
    what: str
    tf_config: Optional[str] = None
    then: Sequence[str] = ()
