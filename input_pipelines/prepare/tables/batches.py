"""Steps between the batches of a file's reader and the batches of `reader`. None changes a value.

with_missing    CSV: a column of numbers has null where a quoted field means missing
with_lists      CSV: the fields of columns with lists become lists
taken           some rows of a file
regular         batches of one size
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Optional

from input_pipelines.prepare.tables import csv_lists, text_types
from input_pipelines.prepare.tables.columns import Column
from input_pipelines.prepare.tables.library import arrow
from input_pipelines.prepare.tables.options import CsvOptions


def with_missing(batch: Any, columns: Sequence[Column], csv: CsvOptions) -> Any:
    """A batch in which columns of numbers have no quoted fields for missing values.

    `text_types` says which fields these are.
    """
    compute = arrow("compute")
    for column in columns:
        place = batch.schema.get_field_index(column.name)
        if place == -1 or column.dtype not in ("int64", "float32"):
            continue
        words = [word for word in ("", *csv.missing) if word or not column.multi]
        hit = text_types.is_one_of(batch.column(place), words)
        if compute.any(hit).as_py():
            found = compute.if_else(hit, None, batch.column(place))
            batch = batch.set_column(place, column.name, found)
    return batch


def with_lists(batch: Any, columns: Sequence[Column], csv: CsvOptions) -> Any:
    """A batch in which the fields of the columns with lists are lists; see `csv_lists`."""
    separator = csv.list_separator
    if not separator:
        return batch
    for column in columns:
        place = batch.schema.get_field_index(column.name)
        if column.multi and place != -1:
            found = csv_lists.lists(batch.column(place), separator)
            batch = batch.set_column(place, column.name, found)
    return batch


def taken(
    pairs: Iterable[tuple[Any, Any]], skip: int, count: Optional[int]
) -> Iterator[tuple[Any, Any]]:
    """The rows after the first `skip`: `count` of them, or all. Both batches have the same rows."""
    for batch, other in pairs:
        here = min(skip, batch.num_rows)
        skip -= here
        batch, other = batch.slice(here, count), other.slice(here, count)
        if count is not None:
            count -= batch.num_rows
        if batch.num_rows:
            yield batch, other
        if count == 0:
            return


def regular(batches: Iterable[Any], size: int) -> Iterator[Any]:
    """The same rows in batches of `size` rows, except for the last batch."""
    pa = arrow()
    held: list[Any] = []
    count = 0

    def joined() -> Any:
        table = pa.Table.from_batches(held).combine_chunks()
        return pa.RecordBatch.from_arrays([c.chunk(0) for c in table.columns], schema=table.schema)

    for batch in batches:
        while batch.num_rows:
            held.append(batch.slice(0, size - count))
            count += held[-1].num_rows
            batch = batch.slice(held[-1].num_rows)
            if count == size:
                yield held[0] if len(held) == 1 else joined()
                held, count = [], 0
    if held:
        yield held[0] if len(held) == 1 else joined()
