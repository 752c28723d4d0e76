"""The rows of a log, grouped by a key and sorted by time, and the windows that become records.

    log = histories_and_windows.read(table, options)
    log.key(3), log.starts[3], log.starts[4]     # one history: its key and its rows in `columns`
    for part, windows in histories_and_windows.parts(log.starts, options).items():

Histories are in the order of their first rows in the files. Rows of a history that have the same
time stay in the order of the files. Rows may be in any order in the files, because a log is often
written by several machines; `notes` says how many rows were moved.

The whole log is in memory: for each row 4 bytes for the key, 8 for the time, 8 for its place, and
the values of the sequence columns (4 bytes for a text, and each different text once). Sorting needs
as much again. 10 million rows with two sequence columns of text took 0.9 GB and 12 seconds of CPU
time. Columns that no flag names are not held.

Row i of a history is an input, and row i + 1 is its target. A window is a run of inputs, and
becomes one record. A history with more steps than the limit is cut into several windows, from its
end, so that only the first window may be shorter. So each row except for the first one of a
history is a target exactly once.

`leave_one_out` is the usual protocol for sequential recommendation (Kang and McAuley, 2018:
"Self-attentive sequential recommendation"). The last row of a history is only in the test data,
and the row before it is the last target of the evaluation data. A record of these parts has the
latest inputs before that row. Only its last target counts: the head `next_item` evaluates the last
step of a record. As in that paper's code, a history with fewer than 3 rows is only in the training
data.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Optional

import numpy as np

from feature_specs.errors import counted
from input_pipelines.errors import DataError
from input_pipelines.prepare.convert import derived_labels
from input_pipelines.prepare.convert.options import (
    EVAL,
    TEST,
    TRAIN,
    DerivedLabel,
    SequenceOptions,
)
from input_pipelines.prepare.tables import reader
from input_pipelines.prepare.tables.library import arrow
from input_pipelines.prepare.tables.reader import Rows, Table
from input_pipelines.prepare.tables.row_times import RowTimes
from input_pipelines.prepare.tables.storable import Rounded


@dataclasses.dataclass(frozen=True)
class Histories:
    """All histories of a log.

    Attributes:
      keys: a pyarrow array [histories]: the key of each history.
      starts: int64 [histories + 1]: history i has the rows [starts[i], starts[i + 1]).
      columns: for each sequence column, a pyarrow array [rows] of its values. Text is stored as a
        dictionary.
      notes: notes for the user about the order of the rows.
    """

    keys: Any
    starts: np.ndarray
    columns: dict[str, Any]
    notes: tuple[str, ...]

    @property
    def sizes(self) -> np.ndarray:
        """int64 [histories]: the number of rows of each history."""
        return np.diff(self.starts)

    def key(self, history: int) -> str:
        """The key of a history, for messages."""
        value = self.keys[history].as_py()
        return repr(value.decode(errors="replace") if isinstance(value, bytes) else value)


def read(
    table: Table,
    options: SequenceOptions,
    labels: Sequence[DerivedLabel],
    rounded: Rounded,
    on_rows: Callable[[int], None] = lambda rows: None,
) -> Histories:
    """Reads a whole log.

    Args:
      table: the log, with the columns in `options.read`, as `derived_labels.view` returns it.
      options: which columns are the key, the time and the sequence columns.
      labels: the labels that are made from columns.
      rounded: counts how many values of its columns a float32 does not keep.
      on_rows: called with the number of rows of each batch.

    Raises:
      DataError: the log cannot be read, a value is missing, or times cannot be compared.
    """
    dtypes = {column.name: column.dtype for column in table.columns}
    clock = RowTimes(options.order_by, "--order_by", dtype=dtypes[options.order_by])
    names = (options.by, *options.columns)
    batches: dict[str, list[Any]] = {name: [] for name in names}
    times = []
    lost: Rounded = Counter()
    derived = {label.name for label in labels}
    stored = tuple(column for column in table.columns if column.name not in derived)
    for part in table.parts():
        part = dataclasses.replace(part, columns=stored)
        compared = derived_labels.columns_compared(labels)
        for rows, (raw,) in reader.read_beside(part, [options.order_by], lost, compared):
            rows = derived_labels.add(rows, labels)
            times.append(clock.read(raw, rows.where))
            for name in names:
                column = rows.batch.column(name)
                _check_present(column, name, options, rows)
                coded = name == options.by or dtypes[name] == "string"
                batches[name].append(column.dictionary_encode() if coded else column)
            on_rows(rows.batch.num_rows)
    rounded.update({place: count for place, count in lost.items() if place[0] in names})
    keys = _joined(batches.pop(options.by))
    return _sorted(keys, np.concatenate(times), batches, options)


def _sorted(
    keys: Any, times: np.ndarray, chunks: dict[str, list[Any]], options: SequenceOptions
) -> Histories:
    """Groups rows by their keys, and sorts each history."""
    pa = arrow()
    number = np.asarray(keys.indices)
    places = np.lexsort((times, number))  # A stable sort.
    notes = _notes(number, times, places, options)
    sizes = np.bincount(number, minlength=len(keys.dictionary))
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    rows = pa.array(places)
    columns = {name: _joined(chunks.pop(name)).take(rows) for name in options.columns}
    return Histories(keys.dictionary, starts, columns, notes)


def _notes(
    number: np.ndarray, times: np.ndarray, places: np.ndarray, options: SequenceOptions
) -> tuple[str, ...]:
    """What the user should know about the order of the rows; `places` sorts them."""
    same = np.diff(number[places]) == 0  # Whether the next row is of the same history.
    notes = []
    moved = int((same & (np.diff(places) < 0)).sum())
    if moved:
        notes.append(
            f"{options.order_by}: {counted(moved, 'row')} in the files before an earlier row of "
            f"the same {options.by}; each history was sorted"
        )
    ordered = times[places]
    equal = int((same & (ordered[1:] == ordered[:-1])).sum())
    if equal:
        notes.append(
            f"{options.order_by}: {counted(equal, 'row')} with the same time as the row before of "
            f"the same {options.by}; they stay in the order of the files"
        )
    return tuple(notes)


def _joined(batches: list[Any]) -> Any:
    """One array with the values of all batches. Dictionaries list values in order of first use."""
    pa = arrow()
    chunked = pa.chunked_array(batches)
    if pa.types.is_dictionary(chunked.type):
        chunked = chunked.unify_dictionaries()
    joined = chunked.combine_chunks()
    return joined.chunk(0) if isinstance(joined, pa.ChunkedArray) else joined


def _check_present(column: Any, name: str, options: SequenceOptions, rows: Rows) -> None:
    if not column.null_count:
        return
    row = int(np.flatnonzero(np.asarray(column.is_null()))[0])
    flag = "--sequence_by" if name == options.by else "--sequence_columns"
    raise DataError(
        f"{rows.where(row)}: column {name!r} has no value, but {flag} needs one in every row. "
        "Write a value for it, or remove the row"
    )


# The fewest rows of a history in evaluation and test data.
HELD_OUT = 3


@dataclasses.dataclass(frozen=True)
class Windows:
    """The records of one part.

    Attributes:
      history: int64 [records]: the number of its history.
      start: int64 [records]: the row of its first input.
      length: int64 [records]: the number of its inputs, and of its targets.
      last_only: whether only the last target of each record counts.
    """

    history: np.ndarray
    start: np.ndarray
    length: np.ndarray
    last_only: bool = False

    def __len__(self) -> int:
        return len(self.start)

    @property
    def targets(self) -> int:
        """How many targets count."""
        return len(self) if self.last_only else int(self.length.sum())

    def take(self, places: np.ndarray) -> Windows:
        """The records at these places."""
        return Windows(
            self.history[places], self.start[places], self.length[places], self.last_only
        )


def parts(starts: np.ndarray, options: SequenceOptions) -> dict[str, Windows]:
    """The records of each part.

    Args:
      starts: int64 [histories + 1], as in `Histories`.
      options: the limit of a sequence, and what its targets are.
    """
    sizes = np.diff(starts)
    if options.targets == "next":
        return {"data": cut(starts, sizes - 1, options.steps)}
    enough = sizes >= HELD_OUT
    held_out = {
        part: _last(cut(starts, np.where(enough, sizes - back, 0), options.steps))
        for part, back in ((EVAL, 2), (TEST, 1))
    }
    train = cut(starts, np.where(enough, sizes - 3, sizes - 1), options.steps)
    return {TRAIN: train, **held_out}


def cut(starts: np.ndarray, steps: np.ndarray, most: Optional[int]) -> Windows:
    """Cuts the first `steps[i]` inputs of each history i into windows with `most` inputs or fewer.

    Histories without a step have no window.
    """
    if most is None:
        most = max(int(steps.max(initial=0)), 1)
    counts = -(-steps // most)
    history = np.repeat(np.arange(len(steps)), counts)
    first = np.cumsum(counts) - counts
    left = counts[history] - 1 - (np.arange(len(history)) - first[history])  # Windows after it.
    stop = steps[history] - left * most
    start = np.maximum(stop - most, 0)
    return Windows(history, starts[:-1][history] + start, stop - start)


def _last(windows: Windows) -> Windows:
    """The last window of each history. Only its last target counts."""
    ends = np.flatnonzero(np.diff(windows.history, append=-1))
    return dataclasses.replace(windows.take(ends), last_only=True)
