"""Chooses the columns of a table that become features of the records.

With a spec, the records have its features and labels, with its types and shapes. Columns that it
does not name are left out. Features that the spec ignores are written if the table has them.
Without a spec, the records have all columns with values. Lists become features with several
values, or feature lists if the user says so.

`batch_checks` checks their values.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Sequence
from typing import Optional

from feature_specs.errors import did_you_mean
from feature_specs.feature import Raw
from feature_specs.spec import FeatureSpec
from feature_specs.validation import accepted_values
from feature_specs.validation.accepted_values import Accepted
from input_pipelines.errors import DataError
from input_pipelines.prepare.tables.reader import Table


@dataclasses.dataclass(frozen=True)
class Field:
    """A feature of the records that are written.

    In a table, `feature_list` and a `length` above 1 need `multi`, and a feature list has the
    `length` None. Any other combination is legal.

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


def names_of_lists(spec: FeatureSpec) -> frozenset[str]:
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
    fields = tuple(
        Field(c.name, c.dtype or "string", multi=c.multi, feature_list=c.name in step_columns)
        for c in table.columns
        if c.dtype is not None or c.multi
    )
    if not fields:
        raise DataError(f"no column of {table.files[0]} has a value; nothing to write")
    return fields


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
      learning: whether training will read the rows. Then `batch_checks` also checks each value. For
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
    problems += _list_problems(spec, fields, only)
    if problems:
        raise DataError("\n".join([f"{table.files[0]} does not fit the spec", *problems]))
    return tuple(fields), notes


def _list_problems(
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
            field = Field(
                name,
                feature.dtype,
                feature_list=feature.feature_list,
                required=required,
                length=length,
            )
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
