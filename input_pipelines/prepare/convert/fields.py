"""Chooses the columns of a table that become features, and checks their values against a spec.

With a spec, the records have its features and labels, with its types and shapes. Columns that it
does not name are left out. Features that the spec ignores are written if the table has them.
Without a spec, the records have all columns with values. Lists become features with several
values, or feature lists if the user says so.

Every value that would stop training stops the conversion, with the row: a missing required value,
two values instead of one, a label that the head cannot learn, an id outside its column, NaN. Rows
that the spec's `filter` drops are not checked, because training does not read them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, Optional, Protocol

import numpy as np

from feature_specs.errors import counted, did_you_mean
from feature_specs.feature import Raw
from feature_specs.sections.records import Condition
from feature_specs.spec import FeatureSpec
from feature_specs.validation import accepted_values
from feature_specs.validation.accepted_values import Accepted
from input_pipelines.errors import DataError
from input_pipelines.prepare.convert import value_checks
from input_pipelines.prepare.tables.library import arrow
from input_pipelines.prepare.tables.reader import Table

# The remedy in errors about rows: for records that training will read, and for requests to an
# export.
CORRECT_ROW_OR_SPEC = "a training would stop there: correct the row, or the spec"
CORRECT_ROW = "correct the row"

# Raises DataError for the first row of a mask, with what is wrong with its column.
_Refuse = Callable[[Any, "Field", str], None]


@dataclasses.dataclass(frozen=True)
class Field:
    """A feature of the records that are written.

    Attributes:
      name: the name of the column and of the feature.
      dtype: `int64`, `float32` or `string`.
      multi: whether the column has lists.
      feature_list: whether it is written to `feature_lists`, with one value in each step.
      required: whether every row must have it. A label that is a list must also have a value.
      length: the number of values in a row that has it, or None for any number.
      stored_bytes: the bytes of a value that is decoded to numbers, or None for any number.
      may_be_empty: whether a value may be the empty string. False if an empty value could not be
        decoded.
      row_lengths: the column with the lengths of the lists in a list of lists.
      accepted: conditions that each value must meet.
      as_many_as: columns that must have the same number of values in every row.
    """

    name: str
    dtype: str
    multi: bool = False
    feature_list: bool = False
    required: bool = False
    length: Optional[int] = None
    stored_bytes: Optional[int] = None
    may_be_empty: bool = True
    row_lengths: Optional[str] = None
    accepted: tuple[Accepted, ...] = ()
    as_many_as: tuple[str, ...] = ()


def names_of(spec: FeatureSpec) -> tuple[str, ...]:
    """The features and labels of a spec."""
    return tuple(dict.fromkeys([*spec.features, *spec.labels]))


def dtypes_of(spec: FeatureSpec) -> dict[str, str]:
    return {
        **{name: feature.dtype for name, feature in spec.features.items()},
        **{name: label.dtype for name, label in spec.labels.items()},
    }


def lists_of(spec: FeatureSpec) -> frozenset[str]:
    """The features and labels that may have several values in a row."""
    wanted = _wanted(spec, learning=True)
    return frozenset(field.name for field in wanted if field.feature_list or field.length != 1)


def inferred(table: Table, step_columns: Sequence[str]) -> tuple[Field, ...]:
    """The fields of a table as it is.

    Raises:
      DataError: no column has a value, or a step column does not exist or has no lists.
    """
    columns = {column.name: column for column in table.columns}
    for name in step_columns:
        if name not in columns:
            raise DataError(
                f"--step_columns: the table has no column {name!r}{did_you_mean(name, columns)}"
            )
        if not columns[name].multi:
            raise DataError(
                f"--step_columns: column {name!r} has one value in each row; a feature list needs "
                "a column of lists"
            )
    found = tuple(
        Field(c.name, c.dtype or "string", c.multi, c.name in step_columns)
        for c in table.columns
        if c.dtype is not None or c.multi
    )
    if not found:
        raise DataError(f"no column of {table.files[0]} has a value; nothing to write")
    return found


def of_spec(
    table: Table,
    spec: FeatureSpec,
    *,
    only: Optional[Collection[str]] = None,
    learning: bool = True,
    remedy: str = "correct the spec, or the table",
) -> tuple[tuple[Field, ...], list[str]]:
    """The fields that a spec needs, and notes about features that the table lacks.

    Args:
      table: the table with their values.
      spec: the spec with the features and labels.
      only: the names of the wanted features and labels; by default all.
      learning: whether training will read the rows. Then `check` also checks each value. For
        predictions, the model itself finds values that it cannot use.
      remedy: the advice in errors about types.

    Raises:
      DataError: columns are missing, or differ from the spec. Lists all of these columns.
    """
    columns = {column.name: column for column in table.columns}
    fields, problems, notes = [], [], []
    for wanted in _wanted(spec, learning):
        name = wanted.name
        if only is not None and name not in only:
            continue
        column = columns.get(name)
        if column is None:
            if wanted.required:
                problems.append(
                    f"column {name!r} is missing, but {spec.source} requires it"
                    f"{did_you_mean(name, [*columns, *table.left_out])}"
                )
            elif name not in spec.ignored:
                notes.append(f"{name}: the table has no such column, so no record has it")
            continue
        if wanted.feature_list and not column.multi:
            problems.append(
                f"column {name!r} has one value in each row, but {spec.source} says feature_list: "
                "true, which needs a column of lists"
            )
        elif column.dtype not in (None, wanted.dtype):
            problems.append(
                f"column {name!r} is {column.dtype}, but {spec.source} says {wanted.dtype}; "
                f"{remedy}"
            )
        elif not column.multi and (wanted.length or 1) > 1:
            problems.append(
                f"column {name!r} has one value in each row, but {spec.source} says "
                f"{wanted.length}, which needs a column of lists"
            )
        elif wanted.required and column.dtype is None:
            problems.append(
                f"column {name!r} has no value in any row, but {spec.source} requires it"
            )
        else:
            fields.append(dataclasses.replace(wanted, multi=column.multi))
    problems += _lists_of_lists(spec, fields, only)
    if problems:
        raise DataError("\n".join([f"{table.files[0]} does not fit the spec", *problems]))
    return tuple(fields), notes


def _lists_of_lists(
    spec: FeatureSpec, fields: Sequence[Field], only: Optional[Collection[str]]
) -> Iterator[str]:
    """The problems of lists of lists: feature lists of lists, and lists without their lengths."""
    for name, feature in spec.features.items():
        if only is not None and name not in only:
            continue
        if feature.feature_list and feature.nested and name not in spec.ignored:
            yield (
                f"feature {name!r} is a list of lists ({feature.form}), which conversion cannot "
                "write; store a flat list with row_lengths, or write the records with "
                "ek.write_sequence_examples"
            )
    names = {field.name for field in fields}
    for field in fields:
        if field.row_lengths is not None and field.row_lengths not in names:
            yield (
                f"column {field.row_lengths!r} is missing, but it is the row_lengths of "
                f"{field.name!r}"
            )


def _wanted(spec: FeatureSpec, learning: bool) -> list[Field]:
    fields = []
    for name, feature in spec.features.items():
        if name not in spec.labels:
            required = feature.is_required and name not in spec.ignored
            length = None if feature.variable else feature.length
            field = Field(name, feature.dtype, False, feature.feature_list, required, length)
            if name not in spec.ignored:
                decode = feature.decode
                field = dataclasses.replace(
                    field,
                    accepted=tuple(accepted_values.of_feature(spec, name)) if learning else (),
                    as_many_as=accepted_values.equal_lengths(spec, name) if learning else (),
                    stored_bytes=decode.stored_bytes if isinstance(decode, Raw) else None,
                    may_be_empty=decode is None or feature.default is not None,
                    row_lengths=feature.row_lengths,
                )
            fields.append(field)
    for name, label in spec.labels.items():
        length = None if label.variable else label.length
        field = Field(name, label.dtype, required=label.missing is None, length=length)
        accepted = tuple(accepted_values.of_label(spec, name))
        as_many_as = accepted_values.equal_lengths(spec, name)
        fields.append(dataclasses.replace(field, accepted=accepted, as_many_as=as_many_as))
    return fields


class Batch(Protocol):
    """Some records to check, such as `reader.Rows`."""

    @property
    def batch(self) -> Any:
        """A pyarrow.RecordBatch."""

    def where(self, i: int) -> str:
        """The name of record `i` in error messages."""


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
    pc = arrow("compute")
    places = np.flatnonzero(value_checks.passes(rows.batch, filters))
    batch = rows.batch.take(arrow().array(places)) if filters else rows.batch

    def refuse(mask: Any, field: Field, what: str) -> None:
        required = "" if "expected" in what else ", which is required"
        raise DataError(
            f"{rows.where(int(places[_first(mask)]))}: column {field.name!r} {what}{required}, as "
            f"{spec_source} says; {remedy}"
        )

    for field in fields:
        column = batch.column(field.name)
        if field.required and column.null_count:
            refuse(column.is_null(), field, "has no value")
        if field.row_lengths is not None:
            _check_row_lengths(batch, field, fields, refuse)
        if not field.multi:
            _check_bytes(column, field, refuse)
            continue
        lengths = pc.list_value_length(column)
        if field.length is not None:
            wrong = pc.not_equal(lengths, field.length)
            if pc.any(wrong).as_py():
                i = _first(wrong)
                got = f"has {counted(lengths[i].as_py(), 'value')}, expected {field.length}"
                refuse(wrong, field, got)
            if field.length == 1:
                _check_bytes(pc.list_element(column, 0), field, refuse)
        elif field.required and not field.feature_list:
            empty = pc.equal(lengths, 0)
            if pc.any(empty).as_py():
                refuse(empty, field, "has no value")
    for field in fields:
        _check_values(batch, field, refuse)


def _check_values(batch: Any, field: Field, refuse: _Refuse) -> None:
    """Checks that values are accepted, and that there are as many as in other columns."""
    column = batch.column(field.name)
    for accepted in field.accepted:
        wrong = np.flatnonzero(value_checks.outside(column, accepted))
        if len(wrong):
            value = value_checks.flat_values(column)[int(wrong[0])].as_py()
            what = f"has {value!r}, expected {accepted.expected}"
            rows = np.arange(len(column)) == value_checks.row_of(column, int(wrong[0]))
            remedy = f" ({accepted.remedy})" if accepted.remedy else ""
            refuse(arrow().array(rows), field, what + remedy)
    for other in field.as_many_as:
        counts = value_checks.counts(batch, field.name)
        expected = value_checks.counts(batch, other)
        different = counts != expected
        if different.any():
            i = int(np.argmax(different))
            got = f"has {counted(counts[i], 'value')}"
            what = f"{got}, expected {expected[i]}, as many as column {other!r}"
            refuse(arrow().array(different), field, what)


def _check_bytes(values: Any, field: Field, refuse: _Refuse) -> None:
    """Checks the size of values that are decoded to numbers. Does not check images."""
    if field.stored_bytes is None and field.may_be_empty:
        return
    pc = arrow("compute")
    sizes = pc.binary_length(values)
    empty = pc.equal(sizes, 0)
    if not field.may_be_empty and pc.any(empty).as_py():
        refuse(empty, field, "is empty")
    if field.stored_bytes is not None:
        wrong = pc.and_(pc.not_equal(sizes, field.stored_bytes), pc.invert(empty))
        if pc.any(wrong).as_py():
            got = f"has {sizes[_first(wrong)].as_py()} bytes, expected {field.stored_bytes}"
            refuse(wrong, field, got)


def _check_row_lengths(batch: Any, field: Field, fields: Sequence[Field], refuse: _Refuse) -> None:
    """Checks that lengths of lists are 0 or more, and add up to the number of values in the row."""
    pc = arrow("compute")
    assert field.row_lengths is not None
    column = batch.column(field.row_lengths)
    is_list = next(f.multi for f in fields if f.name == field.row_lengths)
    flat = np.asarray((column.flatten() if is_list else column.fill_null(0)), np.int64)
    ends = np.cumsum(_lengths(column) if is_list else np.ones(len(column), np.int64))
    sums = np.diff(np.concatenate([[0], np.cumsum(flat)])[np.concatenate([[0], ends])])
    counts = (
        _lengths(batch.column(field.name))
        if field.multi
        else pc.is_valid(batch.column(field.name)).to_numpy(zero_copy_only=False).astype(np.int64)
    )
    below = np.zeros(len(column), bool)
    np.logical_or.at(below, np.searchsorted(ends, np.flatnonzero(flat < 0), side="right"), True)
    wrong = arrow().array(below | (sums != counts))
    if pc.any(wrong).as_py():
        i = _first(wrong)
        what = "a length below 0" if below[i] else f"lengths that add up to {sums[i]}"
        got = (
            f"has {counted(counts[i], 'value')} and {field.row_lengths!r} {what}, expected as many"
        )
        refuse(wrong, field, got)


def _lengths(lists: Any) -> np.ndarray:
    found = arrow("compute").list_value_length(lists).fill_null(0)
    return np.asarray(found, np.int64)


def _first(mask: Any) -> int:
    return int(np.flatnonzero(np.asarray(mask.fill_null(False)))[0])
