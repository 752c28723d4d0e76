"""Labels that a conversion makes from columns: `--derive_labels=liked=rating:above:3`.

    view = derived_labels.view(table, labels)        # the table with a column for each label
    rows = derived_labels.add(rows, labels)          # a batch of the table with these columns

A label is 1 or 0. A row without a value has no label, and a spec then decides: it is an error,
unless the label has `missing: mask`. Numbers are compared exactly, with the digits of the file:
1000000.01 is above 1000000. In a column of float32, 0.1 equals 0.1; see `kinds.bounds`.

Labels are made here, and not when records are read, so that a record has one label for everything
that reads it: training, evaluation, checks, drift, and other programs.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, Union

import numpy as np

from feature_specs.entry import LARGEST_FLOAT32
from feature_specs.kinds import bounds
from input_pipelines.errors import DataError
from input_pipelines.prepare.convert.options import DerivedLabel
from input_pipelines.prepare.convert.table_checks import check_column
from input_pipelines.prepare.tables.columns import Column
from input_pipelines.prepare.tables.library import arrow
from input_pipelines.prepare.tables.reader import Rows, Table

_FLAG = "--derive_labels"


def view(table: Table, labels: Sequence[DerivedLabel]) -> Table:
    """The table with a column of int64 for each label.

    Raises:
      DataError: a column does not exist or has the name of a label, or a test does not fit it.
    """
    columns = {column.name: column for column in table.columns}
    for label in labels:
        if label.name in columns or label.name in table.left_out:
            raise DataError(
                f"{_FLAG}: the table has a column {label.name!r} already. Choose another name for "
                "the label"
            )
        check_column(table, label.column, _FLAG)
        dtype = columns[label.column].dtype
        if label.test == "above" and dtype == "string":
            raise DataError(
                f"{_FLAG}: column {label.column!r} is text, so it cannot be above "
                f"{label.values[0]}. Use equals or in"
            )
        _wanted(label, dtype or "")
    made = tuple(Column(label.name, "int64") for label in labels)
    return dataclasses.replace(table, columns=(*table.columns, *made))


def notes(labels: Sequence[DerivedLabel], features: Sequence[str]) -> list[str]:
    """Notes about records that have both a label and the column that it is made from."""
    return [
        f"{label.column}: the label {label.name} is made from it, so a model must not read it"
        for label in labels
        if label.column in features
    ]


def add(rows: Rows, labels: Sequence[DerivedLabel]) -> Rows:
    """The same rows with a column for each label.

    Raises:
      DataError: a number is NaN, so that no test can decide.
    """
    batch = rows.batch
    for label in labels:
        column = rows.batch.column(label.column)
        batch = batch.append_column(label.name, _label(column, label, rows))
    return dataclasses.replace(rows, batch=batch)


def _label(column: Any, label: DerivedLabel, rows: Rows) -> Any:
    """int64 [rows]: 1 or 0; null where the column is null."""
    pa = arrow()
    if pa.types.is_binary(column.type):
        words = pa.array(_wanted(label, "string"), pa.binary())
        found = arrow("compute").is_in(column, value_set=words)
        return _masked(np.asarray(found), column)
    wide = rows.wide.get(label.column, column)
    numbers = np.asarray(wide.fill_null(0))
    if pa.types.is_floating(column.type):
        wrong = np.flatnonzero(np.isnan(numbers))
        if len(wrong):
            raise DataError(
                f"{rows.where(int(wrong[0]))}: column {label.column!r} is NaN, so the label "
                f"{label.name!r} cannot be made. Correct the row"
            )
    dtype = str(numbers.dtype)
    wanted = _wanted(label, dtype)
    if label.test == "above":
        passed = numbers > numbers.dtype.type(bounds.at_most(wanted[0], dtype))
    else:
        equal = (bounds.equal_to(value, dtype) for value in wanted)
        passed = np.isin(numbers, np.array([v for v in equal if v is not None], numbers.dtype))
    return _masked(passed, column)


def _masked(passed: np.ndarray, column: Any) -> Any:
    mask = np.asarray(column.is_null()) if column.null_count else None
    return arrow().array(passed.astype(np.int64), mask=mask)


def _wanted(label: DerivedLabel, dtype: str) -> list[Any]:
    """The values of a test: bytes, or integers and floats for a column of this type.

    Raises:
      DataError: a value cannot have this type.
    """
    if dtype == "string":
        return [value.encode() for value in label.values]
    try:
        if dtype != "int64":
            numbers = [_number(value) for value in label.values]
            if not all(abs(number) <= LARGEST_FLOAT32 for number in numbers):
                raise ValueError("not a float32")
            return numbers
        wanted = [_integer(value, label.test) for value in label.values]
        if not all(-(2**63) <= number < 2**63 for number in wanted):
            raise ValueError("not an int64")
        return wanted
    except ValueError as error:
        raise DataError(
            f"{_FLAG}: column {label.column!r} is {dtype}, but {str(label)!r} compares it with "
            f"other values. Write values that are {dtype}"
        ) from error


def _number(text: str) -> Union[int, float]:
    """A number. An integer keeps all of its digits."""
    try:
        return int(text)
    except ValueError:
        return float(text)


def _integer(text: str, test: str) -> int:
    """An integer, or for `above` the next lower one: an integer is above 3.5 if it is above 3."""
    try:
        return int(text)
    except ValueError:
        if test != "above":
            raise
        return math.floor(float(text))
