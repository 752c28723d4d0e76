"""Files in `model_dir/cluster` by which the tasks of a training tell each other its state.

    end.json             the chief: the training is over; how it ended, its goal, and which task
                         scores the last checkpoint and writes the exports
    ready.json           the chief: its session exists, and the variables have values
    stop.json            the evaluator: asks the chief for an early stop
    evaluator.json       the evaluator: it runs, and will write the exports
    joined-worker-0.json a worker: it has started to train
    ended-worker-0.json  a worker: it has read its shard in the chief's session `of`

The chief removes all marks when it starts. A task that starts before the chief finds the marks of
an earlier start. So no task relies on a mark that was there before it started; see `lost_tasks`.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from typing import Any, Optional

import tensorflow as tf

from estimator_kit import storage
from estimator_kit.config.mode_configs import ModelDirConfig
from estimator_kit.errors import ConfigError

DONE, STOPPED, FAILED = "done", "stopped", "failed"

# The task that scores the last checkpoint. EVALUATOR is also the name of the evaluator's mark.
CHIEF, EVALUATOR = "chief", "evaluator"


def goal_of(config: ModelDirConfig) -> dict[str, Any]:
    """The settings that decide when a training ends. With another goal, training goes on."""
    names: tuple[str, ...] = (
        "mode",
        "max_steps",
        "epochs",
        "batch_size",
        "seed",
        "train_files",
        "train_days",
        "early_stopping_metric",
    )
    if config.input_fn is not None:
        names = (*names, "input_fn", "input_version")
    plain: dict[str, Any] = storage.plain({name: getattr(config, name) for name in names})
    return plain


class Marks:
    """The marks of one model directory."""

    def __init__(self, model_dir: str):
        self._folder = os.path.join(model_dir, "cluster")

    def write(self, name: str, **what: Any) -> str:
        """Sets a mark, and returns its unique id."""
        new = uuid.uuid4().hex
        storage.write_json(self._path(name), {"id": new, **what})
        return new

    def read(self, name: str) -> Optional[dict[str, Any]]:
        """Returns a mark, or None if it is not set."""
        try:
            found = storage.read_json(self._path(name))
        except tf.errors.NotFoundError:  # Removed in the meantime.
            return None
        return found if isinstance(found, dict) else None

    def look(self, name: str) -> Optional[dict[str, Any]]:
        """Like `read`, but returns None if the storage does not answer. For repeated calls."""
        try:
            return self.read(name)
        except (tf.errors.OpError, OSError, ConfigError):
            return None

    def remove(self, name: str) -> None:
        """Removes a mark if it is set."""
        with contextlib.suppress(tf.errors.NotFoundError):
            tf.io.gfile.remove(self._path(name))

    def clear(self) -> None:
        """Removes all marks."""
        if not tf.io.gfile.isdir(self._folder):
            return
        for name in tf.io.gfile.listdir(self._folder):
            if not name.endswith(".json") or name.startswith("."):
                continue
            self.remove(name[: -len(".json")])

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, f"{name.replace(':', '-')}.json")
