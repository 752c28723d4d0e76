"""`Watch`: a thread that notices when a training is over, or cannot go on.

    with Watch(view, marks, seconds=600, on_end=lambda: ...) as watch:
        ...
        watch.over()

Training is over when the chief sets the mark `end`. A mark that exists when this task starts may
come from an earlier training that this start continues. It counts only if the goal is the same and
the chief, which would remove it, cannot be reached for a while. The thread waits up to `seconds`
for a chief or a ps that it cannot reach; if a step needs all workers, also for a worker.

When such a task is lost, TensorFlow may wait without end in C++, in a step or while it closes a
session, and then it answers no signal. So the thread ends the process if necessary: some seconds
after the training was given up, or after SIGTERM.
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

from estimator_kit import exit_codes
from estimator_kit.config.cluster import ClusterView
from estimator_kit.distributed.waiting import DONE, FAILED, STOPPED, Mark, Marks, reachable
from estimator_kit.errors import ConfigError
from estimator_kit.result import SIGTERM
from estimator_kit.training.hooks.stop import StopRequest
from feature_specs.files import documents

_log = logging.getLogger("estimator_kit")

_CHIEF = "chief:0"

# Seconds between two looks at the mark, and between two at the chief and the ps.
_LOOK, _LOOK_AT_CHIEF = 0.5, 3.0

# Seconds without the chief after which an end mark of an earlier start counts for this start.
_OLD_END_COUNTS = 15.0

# Seconds after SIGTERM in which a task ends by itself, unless a ps is lost.
_ENDS_BY_ITSELF = 5.0

# Seconds that a trainer has to end its last step, which may wait for lost servers.
_LAST_STEP = 20.0


class Watch(threading.Thread):
    """Watches the training until `__exit__`.

    Args:
      view: the task that watches.
      marks: the marks of its model directory.
      seconds: how long a task may be unreachable before the training is given up.
      goal: the goal of this start; see `goal_of`.
      on_end: called once, when the training is over or given up.
      presence: a mark that this thread sets again whenever another task removes it.
      leaves: whether to end the process if it still runs 20 seconds after the end.
      request: tells of SIGTERM. Give it for a task whose session may wait for lost tasks.
      workers_needed: whether every step needs all workers.
      clock: a monotonic clock in seconds; an argument for tests.

    Attributes:
      end: the mark that ended the training, or None.
      gone: the name of the task that was unreachable for too long, or None.
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
        self.end: Optional[Mark] = None
        self.gone: Optional[str] = None
        self._request, self._sigterm = request, float("inf")
        self._view, self._marks, self._seconds = view, marks, seconds
        self._goal = documents.plain(goal)
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
        """Whether the training is over or was given up."""
        return self._over.is_set()

    def may_be_over(self) -> bool:
        """Whether an earlier start has reached the goal, and the chief was not reachable since."""
        return self._is_reached(self._old) and not self._chief_was_there

    def check(self) -> None:
        """Raises UnavailableError if the chief was stopped, or a task was lost for too long.

        A stopped training is not finished. It goes on when all tasks are started again.
        """
        if self._was_stopped():
            raise tf.errors.UnavailableError(
                None,
                None,
                f"{self._view.name}: chief:0 was stopped, so the training ends. Start all tasks "
                "again to go on from the last checkpoint.",
            )
        if self.gone is not None:
            raise tf.errors.UnavailableError(None, None, self._given_up())

    def _given_up(self) -> str:
        return (
            f"{self._view.name} could not reach {self.gone} at {self._others[self.gone or '']} for "
            f"{self._seconds:g} seconds, and the training is not over. Start {self.gone} again, or "
            "raise --cluster_timeout_secs."
        )

    def run(self) -> None:
        warned = False
        while not self._closed.wait(_LOOK):
            try:
                over = self._look()
                if not over and self._presence and self._marks.read(self._presence) is None:
                    self._marks.write(self._presence)
            except (tf.errors.OpError, OSError, ConfigError) as error:
                # The storage may answer again at the next look.
                over = self._is_gone_too_long(self._clock())
                if not warned:
                    warned = True
                    _log.warning(
                        "%s cannot read the marks in the model directory, and tries again: %s",
                        self._view.name,
                        str(error).splitlines()[0][:200],
                    )
            self._answer_sigterm()
            if over:
                self._over.set()
                if self.end is not None and self.end.status == FAILED:
                    _log.warning("%s: chief:0 has failed: %s", self._view.name, self.end.reason)
                self._on_end()
                break
        if self._leaves and not self._closed.wait(_LAST_STEP):
            why = f"{self._view.name}: the training is over, but the last step does not end"
            if self.gone is not None:
                why = self._given_up()
            ended_well = self.gone is None and not self._was_stopped()
            leave(why, 0 if ended_well else exit_codes.TEMPORARY)

    def _answer_sigterm(self) -> None:
        """Ends the process if its session waits for lost tasks and cannot end by itself."""
        if self._request is None or self._request.reason != SIGTERM:
            return
        now = self._clock()
        self._sigterm = min(self._sigterm, now)
        if now - self._sigterm < _ENDS_BY_ITSELF:
            return
        gone = [name for name, host in self._others.items() if not reachable(host)]
        if gone:
            leave(
                f"{self._view.name} was stopped by SIGTERM while {', '.join(gone)} was lost. The "
                "steps after the last checkpoint are lost.",
                exit_codes.STOPPED,
            )

    def _was_stopped(self) -> bool:
        return self.end is not None and self.end.status == STOPPED

    def _look(self) -> bool:
        mark = None if self._view.is_chief else self._marks.read("end")
        if mark is not None and mark.id != (self._old.id if self._old else None):
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

    def _is_reached(self, mark: Optional[Mark]) -> bool:
        return mark is not None and mark.status == DONE and mark.goal == self._goal

    def _is_gone_too_long(self, now: float) -> bool:
        """Whether a task was unreachable for `seconds`, so the training is given up."""
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
    """Ends the process at once, even if other threads are waiting."""
    _log.warning(message)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
