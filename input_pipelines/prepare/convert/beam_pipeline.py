"""Runs the tasks of a conversion with Apache Beam instead of `processes`.

    with BeamWorkers(flags, context) as workers:
        for done in workers.run(tasks):

One pipeline runs the tasks of one stage. Stable order needs one stage. Shuffled order needs two,
and the second reads the files of the first. Tasks go to the workers as JSON, through the folder of
the conversion. The workers call the same functions as a conversion on one machine.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any

import pydantic

from input_pipelines.prepare.beam import runner
from input_pipelines.prepare.convert.tasks import (
    Context,
    Done,
    MergeTask,
    SpillTask,
    Task,
    WriteTask,
    perform,
)

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
        results = runner.run(
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
