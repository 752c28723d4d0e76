"""The loop of a search: it starts trials, watches their evaluations, prunes them, and records them.

One process runs several trials at the same time, and several processes work at one search. This
process ends when all trials of the search have ended, also in other processes: if another
process dies, its trials go on here.

The trials themselves are behind `Run`, so tests pass trials that need no process. Imports no
TensorFlow.
"""

from __future__ import annotations

import dataclasses
import logging
import signal
import time
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, Optional, Protocol

from estimator_kit.errors import ConfigError, Stopped
from estimator_kit.exit_codes import Signalled
from estimator_kit.observing.progress import Progress
from estimator_kit.tuning.space import name_of
from estimator_kit.tuning.study import Claim, SearchStudy, State

_log = logging.getLogger("estimator_kit")

# Seconds between two looks at the trials.
_INTERVAL = 0.5

# Seconds that a trial has to end after SIGTERM, before it is killed.
_LEAVE = 60.0


def stopped(ended: Signalled) -> BaseException:
    """What a search raises after a signal."""
    if ended.number == signal.SIGINT:
        return KeyboardInterrupt()
    return Stopped("stopped by SIGTERM; the same command goes on with the search")


def duration(seconds: float) -> str:
    """`5 minutes`, or `90 seconds`."""
    if seconds % 60:
        return f"{seconds:g} seconds"
    return "60 seconds" if seconds == 60 else f"{seconds / 60:g} minutes"


class Outcome(NamedTuple):
    """How a run has ended.

    Attributes:
      kind: `done`, `failed`, or `stopped` by SIGTERM.
      value: the metric, for `done`.
      reason: why it failed.
    """

    kind: Literal["done", "failed", "stopped"]
    value: Optional[float] = None
    reason: str = ""


class Run(Protocol):
    """A trial at work."""

    def evaluations(self) -> Sequence[tuple[int, float]]:
        """The metric of each evaluation so far, with the rows that were trained on before it."""
        ...

    def outcome(self) -> Optional[Outcome]:
        """How it has ended; None while it works."""
        ...

    def stop(self) -> None:
        """Asks it to save a checkpoint and end."""
        ...

    def kill(self) -> None:
        """Ends it at once."""
        ...


@dataclasses.dataclass
class _Watched:
    claim: Claim
    run: Run
    began: float
    stop_since: Optional[float] = None  # When it was asked to end, as pruned or late.
    is_late: bool = False


class SearchLoop:
    """The loop of this process.

    Args:
      study: the trials.
      start: starts the training of a claimed trial.
      processes: how many trials run here at the same time.
      ended: set when the search has to stop; its `wait` is how the loop waits.
      every_secs: seconds between two lines of progress.
      time_left: seconds after which no trial begins, and those that run are killed: their best
        evaluation so far counts. If no trial has one yet, they go on until the first one.
      clock: seconds that never decrease.
    """

    def __init__(
        self,
        study: SearchStudy,
        start: Callable[[Claim], Run],
        *,
        processes: int,
        ended: Signalled,
        every_secs: float = 10.0,
        time_left: Optional[float] = None,
        clock: Callable[[], float] = time.monotonic,
    ):
        self._study, self._start, self._processes = study, start, processes
        self._ended, self._clock = ended, clock
        total = study.search.trials
        self._progress = Progress("search", "{} trials", total=total, every_secs=every_secs)
        self._watched: dict[int, _Watched] = {}
        self._waits = False
        self._deadline = None if time_left is None else clock() + time_left

    def run(self) -> None:
        """Runs trials until the search has no more.

        Raises:
          Stopped, KeyboardInterrupt: a signal came. The trials saved a checkpoint, and the next
            start goes on with them.
        """
        try:
            with self._progress:
                while not self._ended.is_set():
                    self._fill()
                    if not self._watched and self._is_over():
                        return
                    # After a signal, a trial that has stopped is not a trial that failed.
                    if not self._ended.wait(_INTERVAL):
                        self._look()
        finally:
            self._stop_all()
        raise stopped(self._ended)

    def _is_late(self) -> bool:
        return self._deadline is not None and self._clock() >= self._deadline

    def _end_late(self) -> None:
        """Kills the trials that run when the time is over, except if none has a metric yet.

        Nobody goes on with such a trial, so it needs no time to save a checkpoint.
        """
        if self._study.end_reason() is None:
            self._study.end(f"{duration(self._study.search.budget or 0.0)} are over")
        running = self._watched.values()
        if self._study.best() is None and all(each.claim.best is None for each in running):
            return
        for watched in running:
            if not watched.is_late:
                watched.is_late, watched.stop_since = True, self._clock()
                watched.run.kill()

    def _fill(self) -> None:
        if self._is_late() and (self._watched or self._study.best() is not None):
            self._end_late()
            return
        while len(self._watched) < self._processes:
            claim = self._study.claim(self._watched)
            if claim is None:
                return
            name = name_of(claim.number)
            if claim.resumed:
                _log.info("trial %s goes on: the process that ran it has ended", name)
            began = self._clock()
            try:
                self._watched[claim.number] = _Watched(claim, self._start(claim), began)
            except ConfigError as error:  # For example, two values that do not go together.
                self._record(claim, Outcome("failed", reason=str(error)), began)
            except BaseException:
                self._study.release(claim)
                raise

    def _is_over(self) -> bool:
        """Whether all trials of all processes have ended."""
        running = self._study.running()
        if running and not self._waits:
            self._waits = True
            names = ", ".join(map(name_of, running))
            _log.info("waits for the trials of other processes: %s", names)
        return not running

    def _look(self) -> None:
        for watched in list(self._watched.values()):
            outcome = watched.run.outcome()
            self._report(watched, ended=outcome is not None)
            if outcome is not None:
                del self._watched[watched.claim.number]
                self._record_watched(watched, outcome)
        self._show()

    def _report(self, watched: _Watched, *, ended: bool) -> None:
        """Passes new evaluations on, and stops a trial that is not worth its time."""
        claim, seconds = watched.claim, self._clock() - watched.began
        for rows, value in watched.run.evaluations():
            if rows <= claim.reported:
                continue
            prune = self._study.report(claim, rows=rows, value=value, seconds=seconds)
            if prune and not ended and watched.stop_since is None:
                watched.stop_since = self._clock()
                watched.run.stop()
        since = watched.stop_since
        if since is not None and not ended and self._clock() - since > _LEAVE:
            watched.run.kill()

    def _record_watched(self, watched: _Watched, outcome: Outcome) -> None:
        pruned = watched.stop_since is not None
        best = watched.claim.best
        if watched.is_late and outcome.kind != "done" and best is not None:
            outcome = Outcome("done", best)  # Its best evaluation counts, as of any other trial.
        ending = "ended with the time" if watched.is_late else "pruned"
        self._record(watched.claim, outcome, watched.began, pruned=ending if pruned else "")

    def _record(self, claim: Claim, outcome: Outcome, began: float, *, pruned: str = "") -> None:
        """Stores how a trial ended, and writes one line on it. `pruned` says why it was ended."""
        state: State
        if outcome.kind == "done":
            state, reason = "done", ""
        elif pruned:
            state, reason = "pruned", ""
        elif outcome.kind == "stopped":
            state, reason = "failed", "someone stopped it with SIGTERM"
        else:
            state, reason = "failed", outcome.reason
        seconds = self._clock() - began
        self._study.finish(claim, state, seconds=seconds, value=outcome.value, reason=reason)
        trial = self._study.trials()[claim.number]
        metric, best = self._study.search.metric, self._study.best()
        first = reason.splitlines()[0].rstrip(".") if reason else ""
        text = {"failed": f"failed: {first}"}.get(
            state, f"{metric} {trial.value:.5f}" if trial.value is not None else "no metric"
        )
        if state == "pruned":
            text += f", {pruned}"
        text += f", {seconds:.0f} s"
        if best is not None:
            text += f"; best {best.value:.5f} (trial {name_of(best.number)})"
        numbers = {"phase": "search", "trial": claim.number, "state": state, "value": trial.value}
        line = f"trial {name_of(claim.number)}: {text}"
        _log.info("%s", line, extra={"numbers": numbers})

    def _show(self) -> None:
        if self._progress.due():
            done, best = self._study.ended(), self._study.best()
            self._progress.update(
                done,
                left_secs=self._left(done),
                best=best.value if best is not None else None,
            )

    def _left(self, done: int) -> Optional[float]:
        """The seconds left: until the deadline, or as long as the trials so far took on average."""
        if self._deadline is not None:
            return max(0.0, self._deadline - self._clock())
        search, seconds = self._study.search, sum(t.seconds for t in self._study.trials())
        left = []
        if search.trials is not None and done:
            left.append(seconds / done * max(0, search.trials - done))
        if search.seconds is not None:
            left.append(max(0.0, search.seconds - seconds))
        return min(left) / self._processes if left else None

    def _stop_all(self) -> None:
        """Stops what still runs. These trials stay open, and the next start goes on with them."""
        for watched in self._watched.values():
            watched.run.stop()
        deadline = self._clock() + _LEAVE
        for watched in self._watched.values():
            while (outcome := watched.run.outcome()) is None:
                if self._clock() > deadline:
                    watched.run.kill()
                time.sleep(_INTERVAL / 10)
            if outcome.kind == "done":
                self._report(watched, ended=True)
                self._record_watched(watched, outcome)
            else:
                self._study.release(watched.claim)
        self._watched.clear()
