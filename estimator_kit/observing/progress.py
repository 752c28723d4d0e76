"""How far a piece of work is: a bar on a terminal, and elsewhere a log line every few seconds.

    with Progress("convert", "{} shards", total=12) as progress:
        progress.update(3, rows=3000)          # convert: 3 of 12 shards, 3,000 rows

All long work of the kit uses this class: training, evaluation, exports, conversion, analysis,
checks, the input cache, and predictions. It never decides where lines go; see `console`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any, Optional, TypeVar, Union

from estimator_kit.observing import console

_log = logging.getLogger("estimator_kit")

# The time left is shown after ten updates or steps. Before that, it is a guess.
BEFORE_TIME_LEFT = 10

# Seconds between two updates of a terminal, which draws ten times a second.
_TERMINAL_SECS = 0.1

_MB = 10**6

_P = TypeVar("_P", bound="Progress")


class Progress:
    """The progress of one piece of work. Not for several threads without a lock.

    Args:
      phase: the name of the work, for instance "train".
      count: what is counted; `{}` stands for "3 of 12".
      total: the count at the end; None if it is not known.
      every_secs: seconds between two log lines.
      clock: returns seconds that never decrease. Tests pass their own.
    """

    def __init__(
        self,
        phase: str,
        count: str,
        *,
        total: Optional[int] = None,
        every_secs: float = 10.0,
        clock: Callable[[], float] = time.monotonic,
    ):
        self._phase, self._count, self.total = phase, count, total
        self._clock = clock
        self._display = console.display()
        self._every = every_secs if self._display is None else _TERMINAL_SECS
        self._task: Any = None
        self._started = self._shown = clock()
        self._updates = 0

    def __enter__(self: _P) -> _P:
        self._begin()
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def due(self) -> bool:
        """Whether `update` would show something. Ask before you compute costly numbers."""
        return self._clock() - self._shown >= self._every

    def update(
        self,
        done: int,
        *,
        left_secs: Optional[float] = None,
        last: bool = False,
        **numbers: Union[float, int, None],
    ) -> None:
        """Shows the count, if it is time for another line.

        Args:
          done: the count.
          left_secs: seconds left. By default computed from the time since the start.
          last: whether the line is written in any case.
          numbers: what is also shown, under its name: `loss=0.18`, `examples_per_second=7500.0`.
        """
        self._updates += 1
        if not (last or self.due()):
            return
        self._shown = self._clock()
        numbers = {name: value for name, value in numbers.items() if value is not None}
        if left_secs is None:
            left_secs = self._left(done)
        if self._display is not None:
            self._begin()
            text = _text(self._counted(done), numbers, left_secs)
            self._display.update(self._task, done, self.total, text, now=last)
            return
        fields = {"phase": self._phase, "done": done, **numbers}
        if self.total is not None:
            fields["total"] = self.total
        if left_secs is not None:
            fields["seconds_left"] = left_secs
        line = f"{self._phase}: {_text(self._counted(done), numbers, left_secs)}"
        _log.info("%s", line, extra={"numbers": fields})

    def close(self) -> None:
        """Removes the bar from the terminal. The next `update` shows it again."""
        if self._task is not None and self._display is not None:
            self._display.end(self._task)
            self._task = None

    def _begin(self) -> None:
        if self._display is not None and self._task is None:
            self._task = self._display.begin(self._phase, self.total)

    def _counted(self, done: int) -> str:
        return self._count.format(done if self.total is None else f"{done} of {self.total}")

    def _left(self, done: int) -> Optional[float]:
        if self.total is None or not done or self._updates <= BEFORE_TIME_LEFT:
            return None
        return (self._clock() - self._started) * max(0, self.total - done) / done


class ShardProgress(Progress):
    """The progress of work that makes shards from rows; see `__call__`."""

    def __init__(
        self,
        phase: str,
        count: str,
        every_secs: float,
        *,
        clock: Callable[[], float] = time.monotonic,
    ):
        super().__init__(phase, count, every_secs=every_secs, clock=clock)
        self._rows = 0

    def __call__(self, rows: int, done: int, total: int) -> None:
        """Adds `rows` that were read; `done` of `total` shards are complete."""
        self._rows += rows
        self.total = total
        seconds = self._clock() - self._started
        rate = self._rows / seconds if seconds > 0 else None
        self.update(done, rows=self._rows, rows_per_second=rate)
        if done == total:
            self.close()


class ScanProgress(Progress):
    """The progress of reading files, in MB; see `__call__`."""

    def __init__(self, phase: str, size: int, every_secs: float):
        super().__init__(phase, "{} MB", total=size // _MB, every_secs=every_secs)
        self._read = self._bad = 0

    def __call__(self, size: int, bad: int) -> None:
        """Adds `size` bytes that were read, with `bad` bad records."""
        self._read += size
        self._bad += bad
        self.update(self._read // _MB, bad_records=self._bad)


def _text(counted: str, numbers: dict[str, Any], left_secs: Optional[float]) -> str:
    parts = [counted, *(_number(name, value) for name, value in numbers.items())]
    if left_secs is not None:
        parts.append(f"{_duration(left_secs)} left")
    return ", ".join(parts)


def _number(name: str, value: Union[float, int]) -> str:
    """`loss=0.18` as "loss 0.18000", `rows=3` as "3 rows", `rows_per_second=9.0` as "9 rows/s"."""
    words = name.replace("_", " ")
    if name.endswith("_per_second"):
        return f"{value:,.0f} {words[: -len(' per second')]}/s"
    return f"{value:,} {words}" if isinstance(value, int) else f"{words} {value:.5f}"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds + 0.5), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
