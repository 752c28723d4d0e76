"""Runs the tasks of a conversion in several processes or with Apache Beam; yields each result.

A process imports the program's main module, because of Python's `spawn`, and the modules of its
tasks. The tasks of a conversion do not need TensorFlow. When the program ends in any way, even by
kill -9, its processes end, too. So they cannot write to a folder that a new conversion uses.

With Beam, one pipeline runs the tasks of one stage. Stable order needs one stage. Shuffled order
needs two, and the second reads the files of the first. Tasks go to the workers as JSON, through the
folder of the conversion. The workers call the same functions as a conversion on one machine.
"""

from __future__ import annotations

import concurrent.futures
import functools
import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from typing import Any, Optional

import pydantic

from input_pipelines.prepare import beam_runner
from input_pipelines.prepare.convert import tasks as convert_tasks
from input_pipelines.prepare.convert.tasks import (
    Context,
    Done,
    MergeTask,
    SpillTask,
    Task,
    WriteTask,
    perform,
)

# Seconds between checks of the progress.
_LOOK = 0.5

_KILLED = (
    "a process of the conversion was killed from outside, as the system does when memory is used "
    "up; the shards that are finished are kept: start the same command again, with a smaller "
    "--processes"
)

OnRows = Callable[[int], None]

# Does a task. Arguments: the task, the context of all tasks, and a function to report rows.
Perform = Callable[[Any, Any, OnRows], Any]


class _StoppedError(Exception):
    """Another process failed, or the user stopped the program."""


class Workers:
    """Runs tasks. With a count of 1, it runs them in this process.

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
        """Starts the processes if `count` is more than 1.

        Args:
          count: the number of processes.
          context: the data that all tasks share.
          on_rows: called from time to time with the number of rows read since the last call.
          perform: does a task. Must be a function of a module that the processes can import.
          killed: the error message if a process is killed.
        """
        self._context = context
        self._perform = perform
        self._killed = killed
        self._on_rows = on_rows
        self._pool: Optional[concurrent.futures.ProcessPoolExecutor] = None
        if count > 1:
            # A forked process may hang forever if other threads were running.
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
        """Runs all tasks, in any order, and yields each result when it is ready."""
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
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # The program handles Ctrl-C.
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


_CONTEXT = pydantic.TypeAdapter(Context)
_TASKS: dict[str, Any] = {
    kind.__name__: pydantic.TypeAdapter(kind) for kind in (WriteTask, SpillTask, MergeTask)
}


class BeamWorkers:
    """Does tasks on the workers of a pipeline."""

    def __init__(self, flags: Sequence[str], context: Context):
        """`flags` are Beam's flags. The workers must be able to reach the folders in `context`."""
        self._flags = flags
        self._context = context

    def __enter__(self) -> BeamWorkers:
        return self

    def __exit__(self, *_: Any) -> None:
        """Does nothing: a pipeline ends when its tasks are done or one of them has failed."""

    def run(self, tasks: Sequence[Task]) -> Iterator[Done]:
        """Does all tasks, in any order, and yields their results when all are done."""
        results = beam_runner.run(
            _work,
            _dumped(self._context),
            map(_piece, tasks),
            folder=self._context.temporary,
            flags=self._flags,
        )
        for result in results:
            yield Done.of_text(result, "the result of a task")


def _dumped(context: Context) -> bytes:
    return bytes(
        _CONTEXT.dump_json(context, by_alias=True)
    )  # `in`, a field of Filter, is an alias.


def _piece(task: Task) -> bytes:
    kind = type(task).__name__
    return kind.encode() + b" " + bytes(_TASKS[kind].dump_json(task))


# --- On a worker ----------------------------------------------------------------------------------


def _work(common: bytes, piece: bytes) -> bytes:
    kind, _, content = piece.partition(b" ")
    task = _TASKS[kind.decode()].validate_json(content)
    return perform(task, _context(common), lambda rows: None).as_text().encode()


@functools.lru_cache(1)
def _context(common: bytes) -> Context:
    return _CONTEXT.validate_json(common)
