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
from pydantic import JsonValue

from estimator_kit.config.mode_configs import ModelDirConfig
from estimator_kit.config.modes import counted, settings_of
from estimator_kit.errors import ConfigError
from feature_specs.files import documents, file_systems
from feature_specs.meaning import compared
from feature_specs.spec import OF_TRAINING, FeatureSpec

DONE, STOPPED, FAILED = "done", "stopped", "failed"

# The task that scores the last checkpoint. EVALUATOR is also the name of the evaluator's mark.
CHIEF, EVALUATOR = "chief", "evaluator"

# Settings that point at such things. They count as they are written, because a ps reads no data.
_NAMED = {
    "model",
    "model_params",
    "train_files",
    "train_days",
    "train_mix",
    "eval_files",
    "eval_days",
    "input_fn",
    "corrupt_data_policy",
    "warm_start_from",
}


def goal_of(config: ModelDirConfig, spec: FeatureSpec) -> dict[str, Any]:
    """What a training is to reach: mode, settings and content of the spec.

    A training that has reached another goal goes on, so its end is not the end of this start. If a
    setting is missing here, a task leaves too early, and the evaluator leaves checkpoints without
    scores. If one is too many, a task waits --cluster_timeout_secs for the chief. So a mark of an
    earlier version, which stored fewer settings, is another goal.
    """
    aspects = compared.CLUSTER.aspects
    names = counted(config.mode, aspects) | (settings_of(config.mode) & _NAMED)
    values = {name: getattr(config, name) for name in names}
    meaning = spec.fingerprint(aspects, OF_TRAINING)[:16]
    goal = {"mode": config.mode, **values, "meaning of --spec": meaning}
    plain: dict[str, Any] = documents.plain(goal)
    return plain


class Mark(documents.Document):
    """One mark. `end` has the fields from `status` on, `ready` has `max_steps`.

    Attributes:
      id: unique for each time that a mark is set.
      of: the id of the `ready` in whose session a worker has read its shard.
    """

    id: str
    of: Optional[str] = None
    max_steps: Optional[int] = None
    status: str = ""
    reason: Optional[str] = None
    global_step: Optional[int] = None
    goal: Optional[dict[str, JsonValue]] = None
    scored_by: Optional[str] = None


class Marks:
    """The marks of one model directory."""

    def __init__(self, model_dir: str):
        self._folder = os.path.join(model_dir, "cluster")

    def write(self, name: str, **what: Any) -> str:
        """Sets a mark, and returns its unique id."""
        mark = Mark(id=uuid.uuid4().hex, **what)
        mark.save(self._path(name))
        return mark.id

    def read(self, name: str) -> Optional[Mark]:
        """Returns a mark, or None if it is not set."""
        try:
            return Mark.load(self._path(name))
        except (FileNotFoundError, tf.errors.NotFoundError):  # Removed in the meantime.
            return None

    def look(self, name: str) -> Optional[Mark]:
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
        for name in file_systems.names_in(self._folder):
            if name.endswith(".json") and not name.startswith("."):
                self.remove(name.removesuffix(".json"))

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, f"{name.replace(':', '-')}.json")
