"""Lists in the fields of CSV files: with --csv_list_separator=|, `action|drama` is two values.

A column has lists if any of its fields has the separator. Its other fields are lists with one
value, a missing field is a missing list, and two quotes with nothing between them are an empty
list. An empty value between separators is an error. Never changes the values themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from input_pipelines.errors import DataError
from input_pipelines.prepare.tables.library import arrow
from input_pipelines.prepare.tables.text_types import Cells


def has_lists(column: Any, separator: str) -> bool:
    """Whether any field of a column of text has the separator."""
    hits = arrow("compute").match_substring(column, separator)
    return bool(arrow("compute").any(hits).as_py())


def lists(column: Any, separator: str) -> Any:
    """A list array of text: the values of each field."""
    pa, compute = arrow(), arrow("compute")
    split = compute.split_pattern(column, separator)
    empty = np.asarray(compute.equal(column, "").fill_null(False))
    lengths = np.asarray(compute.list_value_length(split).fill_null(0), np.int64)
    flat = split.flatten()
    if empty.any():  # Otherwise each would be a list with one empty value.
        flat = flat.filter(pa.array(np.repeat(~empty, lengths)))
        lengths = np.where(empty, 0, lengths)
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))
    mask = column.is_null() if column.null_count else None
    return pa.ListArray.from_arrays(offsets, flat, mask=mask)


def cells(cells_of: Cells, separator: str, where: Callable[[int], str], name: str) -> Cells:
    """The values of all lists of a column, each with its row.

    Args:
      cells_of: the fields of the column.
      separator: the text between values.
      where: names a row of the batch in errors.
      name: the name of the column.

    Raises:
      DataError: a list has an empty value.
    """
    column, compute = cells_of.values, arrow("compute")
    has_empty = compute.or_(
        compute.or_(
            compute.starts_with(column, separator),
            compute.ends_with(column, separator),
        ),
        compute.match_substring(column, separator * 2),
    )
    wrong = np.flatnonzero(np.asarray(has_empty.fill_null(False)))
    if len(wrong):
        row = int(wrong[0])
        raise DataError(
            f"{where(row)}: column {name!r}: got {column[row].as_py()!r}, a list with an empty "
            f"value, as --csv_list_separator is {separator!r}. Remove the empty value"
        )
    found = lists(column, separator)
    lengths = np.asarray(compute.list_value_length(found).fill_null(0), np.int64)
    rows = np.repeat(np.arange(len(column)), lengths)
    return Cells(found.flatten(), cells_of.path, cells_of.before, rows)
