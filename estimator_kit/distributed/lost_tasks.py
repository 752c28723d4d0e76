"""A thread that knows when a training is over, or cannot go on.

    with Watch(view, marks, seconds=600, on_end=lambda: ...) as watch:
        ...
        watch.over()

Training is over when the chief sets the mark `end`. One that was there when this task started may
be of a former training that this start continues: it counts only where that one's goal was the
same, and once the chief, which removes it, cannot be reached for a while. A chief that cannot be
reached, and has set no mark, is waited for; so is a ps, and a worker where a step needs all.

Where one of them is gone, TensorFlow may wait for ever, in C++, where no signal is answered: in
closing a session, or in a step. So the thread ends the process, if it has to: some seconds after
the training was given up, or after SIGTERM.
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
from estimator_kit.config.cluster import ClusterView
from estimator_kit.distributed.marks import DONE, FAILED, STOPPED, Marks
from estimator_kit.distributed.waiting import reachable
from estimator_kit.errors import ConfigError
from estimator_kit.training.hooks.stop import SIGTERM, StopRequest

_log = logging.getLogger("estimator_kit")

_CHIEF = "chief:0"

# Seconds between two looks at the mark, and between two at the chief and the ps.
_LOOK, _LOOK_AT_CHIEF = 0.5, 3.0

# Seconds without the chief after which the end of a former start is that of this one.
_OLD_END_COUNTS = 15.0

# Seconds after SIGTERM in which a task ends by itself, unless a ps is gone.
_ENDS_BY_ITSELF = 5.0

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
      request: where SIGTERM is noted, of a task whose session may not end for want of others.
      workers_needed: whether no step can be made without one of the workers.

    Attributes:
      end: the mark that ended it, or None.
      gone: the name of the task that was gone for too long, or None.
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
        request: Optional[StopRequest] = None,
        workers_needed: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ):
        super().__init__(daemon=True)
        self.end: Optional[dict[str, Any]] = None
        self.gone: Optional[str] = None
        self._request, self._sigterm = request, float("inf")
        self._view, self._marks, self._seconds = view, marks, seconds
        self._goal = storage.plain(goal)
        self._on_end, self._leaves, self._clock = on_end, leaves, clock
        self._presence = presence
        self._old = marks.read("end")
        self._looked = clock()
        needed = ("chief:", "ps:", *(["worker:"] if workers_needed else []))
        self._others = {
            name: address
            for name, address in view.tasks()
            if name.startswith(needed) and name != view.name
        }
        self._seen = dict.fromkeys(self._others, self._looked)
        self._chief_was_there = False
        self._over, self._closed = threading.Event(), threading.Event()

    def over(self) -> bool:
        """Whether the training is over, or was given up."""
        return self._over.is_set()

    def may_be_over(self) -> bool:
        """Whether a former start has reached the goal, and the chief has not been seen since."""
        return self._is_reached(self._old) and not self._chief_was_there

    def check(self) -> None:
        """Raises UnavailableError where the chief or a ps was gone for too long, or was stopped.

        A training that was stopped is not done, and goes on when all are started again.
        """
        if self._was_stopped():
            raise tf.errors.UnavailableError(
                None,
                None,
                f"{self._view.name}: chief:0 was stopped, and with it the training; start all "
                "tasks again to go on from the last checkpoint",
            )
        if self.gone is not None:
            raise tf.errors.UnavailableError(None, None, self._given_up())

    def _given_up(self) -> str:
        return (
            f"{self._view.name} could not reach {self.gone} at {self._others[self.gone or '']} for "
            f"{self._seconds:g} seconds, and there is no word of an end; start it again, or "
            "raise --cluster_timeout_secs"
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
                over = self._is_gone_too_long(self._clock())
                if not warned:
                    warned = True
                    _log.warning(
                        "%s cannot look for the end: %s",
                        self._view.name,
                        str(error).splitlines()[0][:200],
                    )
            self._answer_sigterm()
            if over:
                self._over.set()
                if self.end is not None and self.end.get("status") == FAILED:
                    _log.warning(
                        "%s: chief:0 has failed: %s", self._view.name, self.end.get("reason")
                    )
                self._on_end()
                break
        if self._leaves and not self._closed.wait(_LAST_STEP):
            why = f"{self._view.name}: the training is over, and its last step does not end"
            if self.gone is not None:
                why = self._given_up()
            ended_well = self.gone is None and not self._was_stopped()
            leave(why, 0 if ended_well else exit_codes.TEMPORARY)

    def _answer_sigterm(self) -> None:
        """Ends the process where a session that waits for others keeps it from ending by itself."""
        if self._request is None or self._request.reason != SIGTERM:
            return
        now = self._clock()
        self._sigterm = min(self._sigterm, now)
        if now - self._sigterm < _ENDS_BY_ITSELF:
            return
        gone = [name for name, host in self._others.items() if not reachable(host)]
        if gone:
            leave(
                f"{self._view.name} was stopped by SIGTERM when {', '.join(gone)} was gone: what "
                "was trained after the last checkpoint is lost",
                exit_codes.STOPPED,
            )

    def _was_stopped(self) -> bool:
        return self.end is not None and self.end.get("status") == STOPPED

    def _look(self) -> bool:
        mark = None if self._view.is_chief else self._marks.read("end")
        if mark is not None and mark.get("id") != (self._old or {}).get("id"):
            self.end = mark
            return True
        now = self._clock()
        if now - self._looked < _LOOK_AT_CHIEF:
            return False
        self._looked = now
        self._seen.update({name: now for name, host in self._others.items() if reachable(host)})
        chief = self._seen.get(_CHIEF, now)
        if chief == now:
            self._chief_was_there = True
        elif self._is_reached(mark) and now - chief >= _OLD_END_COUNTS:
            self.end = mark
            return True
        return self._is_gone_too_long(now)

    def _is_reached(self, mark: Optional[Mapping[str, Any]]) -> bool:
        return mark is not None and mark.get("status") == DONE and mark.get("goal") == self._goal

    def _is_gone_too_long(self, now: float) -> bool:
        """Whether the training is given up, a task not having been seen for so long."""
        gone = [name for name, seen in self._seen.items() if now - seen >= self._seconds]
        self.gone = gone[0] if gone else None
        return bool(gone)

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


def leave(message: str, code: int) -> None:
    """Ends the process at once, whatever its other threads wait for."""
    _log.warning(message)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
