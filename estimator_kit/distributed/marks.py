"""Files in `model_dir/cluster` by which the tasks of a training know where it stands.

    end.json             the chief: the training is over, how it ended, what its goal was, and
                         who scores the last checkpoint and writes the exports
    ready.json           the chief: its session is there, the variables have values
    stop.json            the evaluator: asks the chief for an early stop
    evaluator.json       the evaluator: it is there, and will write the exports
    joined-worker-0.json a worker: it has begun to train
    ended-worker-0.json  a worker: it has trained to its end, of the chief's session `of`

The chief removes them all when it starts. A task that starts before it finds those of a former
start, and so never believes a mark that was there before; see `watch`.
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

# Who scores the last checkpoint; the evaluator's is the name of its mark, too.
CHIEF, EVALUATOR = "chief", "evaluator"


def goal_of(config: ModelDirConfig) -> dict[str, Any]:
    """What says how long a training is; one of another goal goes on from where this one ended."""
    names = (
        "mode",
        "max_steps",
        "epochs",
        "batch_size",
        "seed",
        "train_files",
        "train_days",
        "early_stopping_metric",
    )
    plain: dict[str, Any] = storage.plain({name: getattr(config, name) for name in names})
    return plain


class Marks:
    """The marks of one model directory."""

    def __init__(self, model_dir: str):
        self._folder = os.path.join(model_dir, "cluster")

    def write(self, name: str, **what: Any) -> str:
        """Sets a mark, and returns its id, which no other has."""
        new = uuid.uuid4().hex
        storage.write_json(self._path(name), {"id": new, **what})
        return new

    def read(self, name: str) -> Optional[dict[str, Any]]:
        """A mark, or None where it is not set."""
        try:
            found = storage.read_json(self._path(name))
        except tf.errors.NotFoundError:  # Removed since it was looked for.
            return None
        return found if isinstance(found, dict) else None

    def look(self, name: str) -> Optional[dict[str, Any]]:
        """As `read`, for who looks again and again: None where the storage does not answer now."""
        try:
            return self.read(name)
        except (tf.errors.OpError, OSError, ConfigError):
            return None

    def remove(self, name: str) -> None:
        """Takes a mark away, where it is set."""
        with contextlib.suppress(tf.errors.NotFoundError):
            tf.io.gfile.remove(self._path(name))

    def clear(self) -> None:
        """Removes all marks of a former start."""
        if not tf.io.gfile.isdir(self._folder):
            return
        for name in tf.io.gfile.listdir(self._folder):
            if not name.endswith(".json") or name.startswith("."):
                continue
            self.remove(name[: -len(".json")])

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, f"{name.replace(':', '-')}.json")
