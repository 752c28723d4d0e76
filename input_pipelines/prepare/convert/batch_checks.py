"""Checks the values of a batch against a spec, before the records are written.

    check(rows, fields, "spec.yaml", filters=spec.conditions)

Every value that would stop training is an error with its row: a missing required value, two values
instead of one, a label that the head cannot learn, an id outside its column, NaN. Rows that the
spec's `filter` drops are not checked, because training does not read them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from feature_specs.errors import counted
from feature_specs.sections.records import Condition
from input_pipelines.errors import DataError
from input_pipelines.prepare.convert import value_checks
from input_pipelines.prepare.convert.fields import Field
from input_pipelines.prepare.tables.library import arrow

# The remedy in errors about rows: for records that training will read, and for requests to an
# export.
CORRECT_ROW_OR_SPEC = "a training would stop there: correct the row, or the spec"
CORRECT_ROW = "correct the row"


class Batch(Protocol):
    """Some records to check, such as `reader.Rows`."""

    @property
    def batch(self) -> Any:
        """A pyarrow.RecordBatch."""

    def where(self, i: int) -> str:
        """The name of record `i` in error messages."""


class _Refused(Exception):
    """Some rows do not fit a field.

    `rows` is a mask. `expected` is empty if the field has no value that is required.
    """

    def __init__(self, rows: np.ndarray, field: Field, got: str, expected: str = ""):
        self.rows, self.field, self.got, self.expected = rows, field, got, expected


def check(
    rows: Batch,
    fields: Sequence[Field],
    spec_source: str,
    *,
    filters: Sequence[Condition] = (),
    remedy: str = CORRECT_ROW_OR_SPEC,
) -> None:
    """Checks the values of a batch.

    Args:
      rows: the batch.
      fields: the requirements for its columns.
      spec_source: the name of the spec in errors.
      filters: which rows training reads. Other rows are not checked.
      remedy: the end of errors.

    Raises:
      DataError: a row lacks a required value, has too many or too few values, or has a value that
        is not accepted.
    """
    places = np.flatnonzero(value_checks.passes(rows.batch, filters))
    batch = rows.batch.take(arrow().array(places)) if filters else rows.batch
    try:
        for field in fields:
            _check_presence(batch, field, fields)
        for field in fields:
            _check_values(batch, field)
    except _Refused as refused:
        expected = f"expected {refused.expected}" if refused.expected else "which is required"
        raise DataError(
            f"{rows.where(int(places[refused.rows.argmax()]))}: column {refused.field.name!r} "
            f"{refused.got}, {expected}, as {spec_source} says; {remedy}"
        ) from None


def _check_presence(batch: Any, field: Field, fields: Sequence[Field]) -> None:
    """Checks that rows have the values that are required, and as many as the field says."""
    pc = arrow("compute")
    column = batch.column(field.name)
    if field.required and column.null_count:
        raise _Refused(_mask(column.is_null()), field, "has no value")
    if field.row_lengths is not None:
        _check_row_lengths(batch, field, field.row_lengths, fields)
    if not field.multi:
        _check_bytes(column, field)
        return
    lengths = pc.list_value_length(column)
    if field.length is not None:
        wrong = _mask(pc.not_equal(lengths, field.length))
        if wrong.any():
            count = lengths[int(wrong.argmax())].as_py()
            raise _Refused(wrong, field, f"has {counted(count, 'value')}", str(field.length))
        if field.length == 1:
            _check_bytes(pc.list_element(column, 0), field)
    elif field.required and not field.feature_list:
        empty = _mask(pc.equal(lengths, 0))
        if empty.any():
            raise _Refused(empty, field, "has no value")


def _check_values(batch: Any, field: Field) -> None:
    """Checks that values are accepted, and that there are as many as in other columns."""
    column = batch.column(field.name)
    for accepted in field.accepted:
        wrong = np.flatnonzero(value_checks.outside(column, accepted))
        if len(wrong):
            value = value_checks.flat_values(column)[int(wrong[0])].as_py()
            row = value_checks.row_of(column, int(wrong[0]))
            remedy = f" ({accepted.remedy})" if accepted.remedy else ""
            raise _Refused(
                np.arange(len(column)) == row, field, f"has {value!r}", accepted.expected + remedy
            )
    for other in field.as_many_as:
        counts = value_checks.counts(batch, field.name)
        expected = value_checks.counts(batch, other)
        different = counts != expected
        if different.any():
            i = int(different.argmax())
            got = f"has {counted(counts[i], 'value')}"
            raise _Refused(different, field, got, f"{expected[i]}, as many as column {other!r}")


def _check_bytes(values: Any, field: Field) -> None:
    """Checks the size of values that are decoded to numbers. Does not check images."""
    if field.stored_bytes is None and field.may_be_empty:
        return
    pc = arrow("compute")
    sizes = pc.binary_length(values)
    empty = _mask(pc.equal(sizes, 0))
    if not field.may_be_empty and empty.any():
        raise _Refused(empty, field, "is empty")
    if field.stored_bytes is not None:
        wrong = _mask(pc.not_equal(sizes, field.stored_bytes)) & ~empty
        if wrong.any():
            size = sizes[int(wrong.argmax())].as_py()
            raise _Refused(wrong, field, f"has {size} bytes", str(field.stored_bytes))


def _check_row_lengths(batch: Any, field: Field, row_lengths: str, fields: Sequence[Field]) -> None:
    """Checks that lengths of lists are 0 or more, and add up to the number of values in the row."""
    column = batch.column(row_lengths)
    if next(f.multi for f in fields if f.name == row_lengths):
        lengths, lengths_a_row = column.flatten(), _lengths(column)
    else:
        lengths, lengths_a_row = column.fill_null(0), np.ones(len(column), np.int64)
    lengths = np.asarray(lengths, np.int64)
    # Row i has the lengths from ends[i] to ends[i + 1].
    ends = np.concatenate([[0], np.cumsum(lengths_a_row)])
    sum_before = np.concatenate([[0], np.cumsum(lengths)])
    sums = sum_before[ends[1:]] - sum_before[ends[:-1]]
    values = batch.column(field.name)
    counts = _lengths(values) if field.multi else _mask(values.is_valid()).astype(np.int64)
    below = np.zeros(len(column), bool)
    below[np.repeat(np.arange(len(column)), lengths_a_row)[lengths < 0]] = True
    wrong = below | (sums != counts)
    if wrong.any():
        i = int(wrong.argmax())
        what = "a length below 0" if below[i] else f"lengths that add up to {sums[i]}"
        got = f"has {counted(counts[i], 'value')} and {row_lengths!r} {what}"
        raise _Refused(wrong, field, got, "as many")


def _lengths(lists: Any) -> np.ndarray:
    return np.asarray(arrow("compute").list_value_length(lists).fill_null(0), np.int64)


def _mask(rows: Any) -> np.ndarray:
    """bool [rows]: an Arrow array of booleans; null is false."""
    return np.asarray(rows.fill_null(False), bool)
