"""Files in `model_dir/cluster` by which the tasks of a training know where it stands.

    end.json             the chief: the training is over, and how it ended
    ready.json           the chief: its session is there, the variables have values
    stop.json            the evaluator: asks the chief for an early stop
    evaluator.json       the evaluator: it is there, and will write the exports
    joined-worker-0.json a worker: it has begun to train
    ended-worker-0.json  a worker: it has trained to its end

The chief removes them all when it starts. A task that starts before it finds those of a former
start, and so never believes a mark that was there before; see `watch`.
"""

from __future__ import annotations

import os
import uuid
from typing import Any, Optional

import tensorflow as tf

from estimator_kit import storage

DONE, STOPPED, FAILED = "done", "stopped", "failed"


class Marks:
    """The marks of one model directory."""

    def __init__(self, model_dir: str):
        self._folder = os.path.join(model_dir, "cluster")

    def write(self, name: str, **what: Any) -> None:
        """Sets a mark, with an id that no other has."""
        storage.write_json(self._path(name), {"id": uuid.uuid4().hex, **what})

    def read(self, name: str) -> Optional[dict[str, Any]]:
        """A mark, or None where it is not set."""
        try:
            found = storage.read_json(self._path(name))
        except tf.errors.NotFoundError:  # Removed since it was looked for.
            return None
        return found if isinstance(found, dict) else None

    def clear(self) -> None:
        """Removes all marks of a former start."""
        if not tf.io.gfile.isdir(self._folder):
            return
        for name in tf.io.gfile.listdir(self._folder):
            if not name.endswith(".json") or name.startswith("."):
                continue
            try:
                tf.io.gfile.remove(os.path.join(self._folder, name))
            except tf.errors.NotFoundError:
                continue

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, f"{name.replace(':', '-')}.json")
