"""A thread that knows when a training is over, for the tasks that do not decide it.

    with Watch(view, marks, seconds=600, on_end=lambda: ...) as watch:
        ...
        watch.over()

Training is over when the chief sets the mark `end`. One that was there when this task started may
be of a former training that this start continues: it counts only where that one's goal was the
same, and once the chief, which removes it, cannot be reached for a while. A chief that cannot be
reached, and has set no mark, is waited for.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Optional

import tensorflow as tf

from estimator_kit import exit_codes, storage
from estimator_kit.cluster import ClusterView
from estimator_kit.distributed.marks import DONE, FAILED, STOPPED, Marks
from estimator_kit.distributed.waiting import reachable
from estimator_kit.errors import ConfigError

_log = logging.getLogger("estimator_kit")

# Seconds between two looks at the mark, and between two at the chief.
_LOOK, _LOOK_AT_CHIEF = 0.5, 3.0

# Seconds without the chief after which the end of a former start is that of this one.
_OLD_END_COUNTS = 15.0

# Seconds that a trainer has to leave its last step, which may wait for servers that are gone.
_LAST_STEP = 20.0


class Watch(threading.Thread):
    """Looks for the end until it is closed.

    Args:
      view: the task that watches.
      marks: of its model directory.
      seconds: without the chief before the training is given up.
      goal: of this start; see `goal_of`.
      on_end: called once, when it is over or given up.
      presence: a mark that is kept set until then, whoever removes it.
      leaves: whether the process is ended where it has not closed the watch 20 seconds after.

    Attributes:
      end: the mark that ended it, or None.
      given_up: whether the chief was gone for too long.
    """

    def __init__(
        self,
        view: ClusterView,
        marks: Marks,
        *,
        seconds: float,
        goal: Mapping[str, Any],
        on_end: Callable[[], None] = lambda: None,
        presence: Optional[str] = None,
        leaves: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ):
        super().__init__(daemon=True)
        self.end: Optional[dict[str, Any]] = None
        self.given_up = False
        self._view, self._marks, self._seconds = view, marks, seconds
        self._goal = storage.plain(goal)
        self._on_end, self._leaves, self._clock = on_end, leaves, clock
        self._presence = presence
        self._old = marks.read("end")
        self._seen = self._looked = clock()
        self._chief_was_there = False
        self._over, self._closed = threading.Event(), threading.Event()

    def over(self) -> bool:
        """Whether the training is over, or was given up."""
        return self._over.is_set()

    def may_be_over(self) -> bool:
        """Whether a former start has reached the goal, and the chief has not been seen since."""
        return self._is_reached(self._old) and not self._chief_was_there

    def check(self) -> None:
        """Raises UnavailableError where the chief was gone for too long, or was stopped.

        A training that was stopped is not done, and goes on when all are started again.
        """
        if self._was_stopped():
            raise tf.errors.UnavailableError(
                None,
                None,
                f"{self._view.name}: chief:0 was stopped, and with it the training; start all "
                "tasks again to go on from the last checkpoint",
            )
        if self.given_up:
            raise tf.errors.UnavailableError(
                None,
                None,
                f"{self._view.name} could not reach chief:0 at {self._view.chief} for "
                f"{self._seconds:g} seconds, and it has left no word of an end; start it again, or "
                "raise --cluster_timeout_secs",
            )

    def run(self) -> None:
        warned = False
        while not self._closed.wait(_LOOK):
            try:
                over = self._look()
                if not over and self._presence and self._marks.read(self._presence) is None:
                    self._marks.write(self._presence)
            except (tf.errors.OpError, OSError, ConfigError) as error:
                # A storage that does not answer now may do so at the next look.
                over = self._gone_too_long()
                if not warned:
                    warned = True
                    _log.warning("%s cannot look for the end: %s", self._view.name,
                                 str(error).splitlines()[0][:200])  # fmt: skip
            if over:
                self._over.set()
                if self.end is not None and self.end.get("status") == FAILED:
                    _log.warning("%s: chief:0 has failed: %s", self._view.name,
                                 self.end.get("reason"))  # fmt: skip
                self._on_end()
                break
        if self._leaves and not self._closed.wait(_LAST_STEP):
            _log.warning("%s: the training is over, and its last step does not end; leaving",
                         self._view.name)  # fmt: skip
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(exit_codes.TEMPORARY if self.given_up or self._was_stopped() else 0)

    def _was_stopped(self) -> bool:
        return self.end is not None and self.end.get("status") == STOPPED

    def _look(self) -> bool:
        mark = self._marks.read("end")
        if mark is not None and mark.get("id") != (self._old or {}).get("id"):
            self.end = mark
            return True
        now = self._clock()
        if now - self._looked < _LOOK_AT_CHIEF:
            return False
        self._looked = now
        if reachable(self._view.chief):
            self._seen = self._clock()
            self._chief_was_there = True
            return False
        if self._is_reached(mark) and now - self._seen >= _OLD_END_COUNTS:
            self.end = mark
            return True
        return self._gone_too_long(now)

    def _is_reached(self, mark: Optional[Mapping[str, Any]]) -> bool:
        return (
            mark is not None
            and mark.get("status") == DONE
            and mark.get("goal") == self._goal
        )  # fmt: skip

    def _gone_too_long(self, now: Optional[float] = None) -> bool:
        """Whether the training is given up, the chief not having been seen for so long."""
        now = self._clock() if now is None else now
        self.given_up = now - self._seen >= self._seconds
        return self.given_up

    def __enter__(self) -> Watch:
        self.start()
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self._closed.set()
        self.join()
