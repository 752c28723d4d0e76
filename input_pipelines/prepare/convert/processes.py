"""Tasks spread over processes; results as they come.

A process imports the program's main module, as Python's `spawn` does, and what its tasks need: no
TensorFlow for those of a conversion. When the
program ends in any way, even by kill -9, its processes end with it: nothing writes to a folder that
a conversion started again may be writing to.
"""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from typing import Any, Optional

from input_pipelines.prepare.convert import tasks as convert_tasks

# Seconds between looks at how far the processes are.
_LOOK = 0.5

_KILLED = (
    "a process of the conversion was killed from outside, as the system does when memory is used "
    "up; the shards that are finished are kept: start the same command again, with a smaller "
    "--convert_processes"
)

OnRows = Callable[[int], None]

# Does a task of some work, given what all of them have in common, and told the rows as they pass.
Perform = Callable[[Any, Any, OnRows], Any]


class _StoppedError(Exception):
    """Another process failed, or the user stopped the program."""


class Workers:
    """Does tasks; with one process, here.

    with Workers(2, context, on_rows) as workers:
        for done in workers.run(tasks):
    """

    def __init__(
        self,
        count: int,
        context: Any,
        on_rows: OnRows,
        *,
        perform: Perform = convert_tasks.perform,
        killed: str = _KILLED,
    ):
        """Starts the processes, if there are to be several.

        Args:
          count: of the processes.
          context: what all tasks have in common.
          on_rows: told from time to time how many more rows were read.
          perform: does a task; a function of a module, which the processes import.
          killed: the error when a process is killed.
        """
        self._context = context
        self._perform = perform
        self._killed = killed
        self._on_rows = on_rows
        self._pool: Optional[concurrent.futures.ProcessPoolExecutor] = None
        if count > 1:
            # A fork of a process in which other threads run may hang for ever.
            spawn = multiprocessing.get_context("spawn")
            self._stop, self._rows = spawn.Event(), spawn.Value("q", 0)
            self._pool = concurrent.futures.ProcessPoolExecutor(
                count,
                mp_context=spawn,
                initializer=_begin,
                initargs=(context, perform, self._stop, self._rows),
            )

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: Any) -> None:
        if self._pool is not None:
            self._stop.set()
            self._pool.shutdown(cancel_futures=True)

    def run(self, tasks: Sequence[Any]) -> Iterator[Any]:
        """Does all tasks, in any order, and gives what each did when it is done."""
        if self._pool is None:
            for task in tasks:
                yield self._perform(task, self._context, self._on_rows)
            return
        seen = self._rows.value
        try:
            waiting = {self._pool.submit(_perform, task) for task in tasks}
            while waiting:
                done, waiting = concurrent.futures.wait(
                    waiting, _LOOK, concurrent.futures.FIRST_COMPLETED
                )
                now = self._rows.value
                self._on_rows(now - seen)
                seen = now
                for future in done:
                    yield future.result()
        except BrokenProcessPool as error:
            raise MemoryError(self._killed) from error


# --- In a process of the pool ---------------------------------------------------------------------

_here: Optional[tuple[Any, Perform, Any, Any]] = None


def _begin(context: Any, perform: Perform, stop: Any, rows: Any) -> None:
    global _here
    _here = (context, perform, stop, rows)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the program's; it says when to stop.
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    multiprocessing.connection.wait([parent.sentinel])
    os._exit(1)


def _perform(task: Any) -> Any:
    assert _here is not None
    context, perform, stop, rows = _here

    def advance(count: int) -> None:
        if stop.is_set():
            raise _StoppedError
        with rows.get_lock():
            rows.value += count

    return perform(task, context, advance)
