"""`Tracker`: what a tracking service gets from a run. Subclass it for another service.

    class PrintTracker(ek.Tracker):
        def start(self, parameters):
            print(self.name, parameters)

        def metrics(self, by_step):
            print(by_step)

        def end(self, status, files, model):
            print(status, files, model)

        def promoted(self, version, path):
            print(version, path)

`--tracking=my_package.my_module:PrintTracker` uses it. The kit makes one instance a run, and calls
the methods in this order at the end of the run, whether it succeeded or not. An error in a method
is a warning: it does not change the outcome of the run. After an error in `start`, no other method
is called. A method that waits keeps the program waiting, so give its requests a time limit. Secrets
never get here, because flags hold only the paths of files with secrets.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from typing import Optional


class Tracker(abc.ABC):
    """A service that stores runs.

    Its constructor checks what can be checked without a run, such as that a package is installed.
    It runs before the training.

    Args:
      name: the name of the model, which is the last part of the model directory.
      model_dir: the absolute path of the model directory. A start that goes on with a training has
        the same one.
    """

    def __init__(self, name: str, model_dir: str):
        self.name = name
        self.model_dir = model_dir

    @abc.abstractmethod
    def start(self, parameters: Mapping[str, str]) -> None:
        """Begins to log a run.

        Args:
          parameters: each flag that has a value, such as `{"model": "dnn", "epochs": "2"}`.
        """

    @abc.abstractmethod
    def metrics(self, by_step: Mapping[int, Mapping[str, float]]) -> None:
        """Logs metrics by global step, such as `{800: {"auc/click": 0.79}}`.

        Names of `observed/training.jsonl` start with `training/`. Values are finite.
        """

    @abc.abstractmethod
    def end(self, status: str, files: Sequence[str], model: Optional[str]) -> None:
        """Logs the outcome of a run.

        Args:
          status: `done`, `stopped` or `failed`; for a cycle of retraining `promoted`, `refused`,
            `stopped` or `failed`.
          files: the paths of files to keep with the run, such as the report page.
          model: the path of the SavedModel, or None.
        """

    @abc.abstractmethod
    def promoted(self, version: int, path: str) -> None:
        """Logs that a version of retraining is live. For a rollback, it is the only method called.

        Args:
          version: its number in the serving directory.
          path: its SavedModel.
        """
