"""The rows of a log, grouped by a key and sorted by time.

    log = histories.read(table, options)
    log.key(3), log.starts[3], log.starts[4]     # one history: its key and its rows in `columns`

Histories are in the order of their first rows in the files. Rows of a history that have the same
time stay in the order of the files. Rows may be in any order in the files, because a log is often
written by several machines; `notes` says how many rows were moved.

The whole log is in memory: for each row 4 bytes for the key, 8 for the time, 8 for its place, and
the values of the sequence columns (4 bytes for a text, and each different text once). Sorting needs
as much again. 10 million rows with two sequence columns of text took 0.9 GB and 12 seconds of CPU
time. Columns that no flag names are not held.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from feature_specs.errors import counted
from input_pipelines.errors import DataError
from input_pipelines.prepare.convert import derived_labels
from input_pipelines.prepare.convert.options import DerivedLabel, SequenceOptions
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
    held: dict[str, list[Any]] = {name: [] for name in names}
    times = []
    lost: Rounded = Counter()
    made = {label.name for label in labels}
    stored = tuple(column for column in table.columns if column.name not in made)
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
                held[name].append(column.dictionary_encode() if coded else column)
            on_rows(rows.batch.num_rows)
    rounded.update({place: count for place, count in lost.items() if place[0] in names})
    keys = _joined(held.pop(options.by))
    return _sorted(keys, np.concatenate(times), held, options)


def _sorted(
    keys: Any, times: np.ndarray, held: dict[str, list[Any]], options: SequenceOptions
) -> Histories:
    """Groups rows by their keys, and sorts each history."""
    pa = arrow()
    number = np.asarray(keys.indices)
    places = np.lexsort((times, number))  # A stable sort.
    notes = _notes(number, times, places, options)
    sizes = np.bincount(number, minlength=len(keys.dictionary))
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    rows = pa.array(places)
    columns = {name: _joined(held.pop(name)).take(rows) for name in options.columns}
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
