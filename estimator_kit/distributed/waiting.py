"""How the tasks of a cluster learn of each other: marks in the model directory, and connections.

    model_dir/cluster/
      end.json             the chief: the training is over; how it ended, its goal, and which task
                           scores the last checkpoint and writes the exports
      ready.json           the chief: its session exists, and the variables have values
      stop.json            the evaluator: asks the chief for an early stop
      evaluator.json       the evaluator: it runs, and will write the exports
      joined-worker-0.json a worker: it has started to train
      ended-worker-0.json  a worker: it has read its shard in the chief's session `of`

The chief removes all marks when it starts. A task that starts before the chief finds the marks of
an earlier start. So no task relies on a mark that was there before it started; see `lost_tasks`.
`wait_for` and `wait_until` wait for other tasks, with a timeout, and log their names. A task counts
as running when its server accepts a connection. Nothing is sent.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any, Optional

import tensorflow as tf
from pydantic import JsonValue

from estimator_kit.config.areas import AllSettings
from estimator_kit.config.modes import counted, settings_of
from estimator_kit.errors import ConfigError
from feature_specs import meaning
from feature_specs.files import documents, file_systems
from feature_specs.spec import OF_TRAINING, FeatureSpec

_log = logging.getLogger("estimator_kit")

# Seconds between two checks, and between two log lines that name the missing tasks.
_LOOK, _SAY = 0.25, 10.0


def reachable(address: str, seconds: float = 1.0) -> bool:
    """Whether the server at host:port accepts a connection."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=seconds):
            return True
    except OSError:
        return False


def wait_for(
    tasks: Sequence[tuple[str, str]],
    *,
    this: str,
    seconds: float,
    over: Callable[[], bool] = lambda: False,
    clock: Callable[[], float] = time.monotonic,
) -> bool:
    """Waits until the servers of all tasks can be reached.

    Args:
      tasks: the name and the address of each task.
      this: the name of the task that waits.
      seconds: how long it waits at most.
      over: checked while waiting; the wait ends when it returns True.
      clock: a monotonic clock in seconds; an argument for tests.

    Returns:
      True if all servers can be reached; False if `over` ended the wait.

    Raises:
      tf.errors.UnavailableError: a server was not reachable in time; the message names it.
    """

    def missing() -> list[str]:
        return [f"{name} at {address}" for name, address in tasks if not reachable(address)]

    return wait_until(
        missing, what="the server of", this=this, seconds=seconds, over=over, clock=clock
    )


def wait_until(
    missing: Callable[[], Sequence[str]],
    *,
    what: str,
    this: str,
    seconds: float,
    over: Callable[[], bool] = lambda: False,
    clock: Callable[[], float] = time.monotonic,
) -> bool:
    """Like `wait_for`, for any condition: waits until `missing` returns nothing."""
    end, said = clock() + seconds, float("-inf")
    while True:
        absent = missing()
        if not absent:
            return True
        if over():
            return False
        now = clock()
        names = ", ".join(absent)
        if now >= end:
            raise tf.errors.UnavailableError(
                None,
                None,
                f"{this} waited {seconds:g} seconds for {what} {names}. Check that it runs and "
                "that this machine can reach it, or raise --cluster_timeout_secs.",
            )
        if now - said >= _SAY:
            said = now
            _log.info("%s waits for %s %s, up to %g seconds", this, what, names, end - now)
        threading.Event().wait(_LOOK)


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


def goal_of(config: AllSettings, spec: FeatureSpec) -> dict[str, Any]:
    """What a training is to reach: mode, settings and content of the spec.

    A training that has reached another goal goes on, so its end is not the end of this start. If a
    setting is missing here, a task leaves too early, and the evaluator leaves checkpoints without
    scores. If one is too many, a task waits --cluster_timeout_secs for the chief. So a mark of an
    earlier version, which stored fewer settings, is another goal.
    """
    aspects = meaning.CLUSTER.aspects
    names = counted(config.mode, aspects) | (settings_of(config.mode) & _NAMED)
    values = {name: getattr(config, name) for name in names}
    fingerprint = spec.fingerprint(aspects, OF_TRAINING)[:16]
    goal = {"mode": config.mode, **values, "meaning of --spec": fingerprint}
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
