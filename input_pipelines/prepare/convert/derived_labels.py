"""Labels that a conversion makes from columns: `--derive_labels=liked=rating:above:3`.

    view = derived_labels.view(table, labels)            # the table with a column for each label
    for rows in derived_labels.read(part, labels):       # batches of the table with these columns

A label is 1 or 0. A row without a value has no label, and a spec then decides: it is an error,
unless the label has `missing: mask`. Numbers are compared exactly, with the digits of the file, and
not as the float32 that a record has: 1000000.01 is above 1000000. Integers, decimals and the text
of CSV files are compared digit by digit. In a column of float32 or float64, 0.1 equals 0.1; see
`kinds.bounds`. Fractions in JSON lines have the digits of a float64.

Labels are made here, and not when records are read, so that a record has one label for everything
that reads it: training, evaluation, checks, drift, and other programs.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import Any, Optional

import numpy as np

from feature_specs.entry import LARGEST_FLOAT32
from feature_specs.kinds import bounds
from feature_specs.kinds.bounds import Number
from input_pipelines.errors import DataError
from input_pipelines.prepare.convert.options import DerivedLabel
from input_pipelines.prepare.convert.value_checks import check_column
from input_pipelines.prepare.tables import reader, storable
from input_pipelines.prepare.tables.columns import Column, is_text
from input_pipelines.prepare.tables.library import arrow
from input_pipelines.prepare.tables.reader import Rows, Table
from input_pipelines.prepare.tables.storable import Rounded
from input_pipelines.prepare.tables.table_format import Part

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
    label_columns = tuple(Column(label.name, "int64") for label in labels)
    return dataclasses.replace(table, columns=(*table.columns, *label_columns))


def notes(labels: Sequence[DerivedLabel], features: Sequence[str]) -> list[str]:
    """Notes about records that have both a label and the column that it is made from."""
    return [
        f"{label.column}: the label {label.name} is made from it, so a model must not read it"
        for label in labels
        if label.column in features
    ]


def columns_compared(labels: Sequence[DerivedLabel]) -> frozenset[str]:
    """The columns that labels are made from: the argument `written` of `reader.read`."""
    return frozenset(label.column for label in labels)


def read(
    part: Part, labels: Sequence[DerivedLabel], rounded: Optional[Rounded] = None
) -> Iterator[Rows]:
    """The rows of a part, with a column for each label; see `reader.read` and `add`."""
    for rows in reader.read(part, rounded, columns_compared(labels)):
        yield add(rows, labels)


def add(rows: Rows, labels: Sequence[DerivedLabel]) -> Rows:
    """The same rows with a column for each label.

    Args:
      rows: a batch that was read with `columns_compared`.
      labels: the labels.

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
        hits = arrow("compute").is_in(column, value_set=words)
        return _masked(np.asarray(hits), column)
    if pa.types.is_floating(column.type):
        wrong = np.flatnonzero(np.isnan(np.asarray(column.fill_null(0))))
        if len(wrong):
            raise DataError(
                f"{rows.where(int(wrong[0]))}: column {label.column!r} is NaN, so the label "
                f"{label.name!r} cannot be made. Correct the row"
            )
        written = rows.written[label.column]
        if is_text(written.type):
            return _masked(_of_text(written.fill_null("0"), label), column)
        numbers = np.asarray(written.fill_null(0))
    else:
        numbers = np.asarray(column.fill_null(0))
    passed = _of_integers if numbers.dtype.kind in "iu" else _of_floats
    return _masked(passed(numbers, label), column)


def _of_integers(numbers: np.ndarray, label: DerivedLabel) -> np.ndarray:
    """bool [rows]: which int64 or uint64 numbers pass."""
    limits = np.iinfo(numbers.dtype)
    wanted = [storable.decimal_of(value) for value in label.values]
    if label.test == "above":
        bound = math.floor(wanted[0])
        if not limits.min <= bound <= limits.max:
            return np.full(len(numbers), bound < limits.min)
        return np.asarray(numbers > numbers.dtype.type(bound))
    values = [int(v) for v in wanted if int(v) == v and limits.min <= v <= limits.max]
    return np.isin(numbers, np.array(values, numbers.dtype))


def _of_floats(numbers: np.ndarray, label: DerivedLabel) -> np.ndarray:
    """bool [rows]: which float32 or float64 numbers pass."""
    dtype = str(numbers.dtype)
    wanted = [_number(value) for value in label.values]
    if label.test == "above":
        return np.asarray(numbers > numbers.dtype.type(bounds.at_most(wanted[0], dtype)))
    equal = (bounds.equal_to(value, dtype) for value in wanted)
    return np.isin(numbers, np.array([v for v in equal if v is not None], numbers.dtype))


def _of_text(text: Any, label: DerivedLabel) -> np.ndarray:
    """bool [rows]: which numbers pass, as text. Numbers that are near a value are compared exactly.

    Rounding to float64 keeps the order, so only numbers with the same float64 need all digits.
    """
    pa = arrow()
    numbers = np.asarray(text.cast(pa.float64()))
    wanted = [storable.decimal_of(value) for value in label.values]
    near = np.isin(numbers, [float(value) for value in wanted])
    above = label.test == "above"
    passed = numbers > float(wanted[0]) if above else np.zeros(len(numbers), bool)
    words = text.filter(pa.array(near)).dictionary_encode()
    values = map(storable.decimal_of, words.dictionary.to_pylist())
    pass_ = np.array([value > wanted[0] if above else value in wanted for value in values], bool)
    passed[near] = pass_[np.asarray(words.indices)]
    return passed


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


def _number(text: str) -> Number:
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
        return math.floor(storable.decimal_of(text))
