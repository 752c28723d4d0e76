"""Checks a table before it is converted, and the values of its batches as training does.

    check_column(table, "time", "--order_by")             # a DataError that names the flag
    check_key(table, "user_id", "--split")

    refused = value_checks.outside(column, accepted)      # bool [values]: values training refuses
    passes = value_checks.passes(batch, conditions)       # bool [rows]: rows that training reads
    good, undecided = value_checks.verdicts(batch, conditions)
    normalized((Log1p(),), np.float32([3.0, -2.0]))       # [1.386, nan]

Values are checked with the loops of Arrow and NumPy. `batch_checks` turns a mask into an error.
Never changes a value, and never drops a row.

`normalized` has the same steps and types as the TensorFlow ops of
`feature_specs.reference.ops`. So a number is finite here if it is finite there. The last
bits may differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from feature_specs.errors import nearest
from feature_specs.kinds import bounds, normalizers
from feature_specs.kinds.bounds import nearest_float32
from feature_specs.kinds.normalizers import Log1p, MinMax, Normalizer, ZScore
from feature_specs.sections.records import Condition
from feature_specs.validation.accepted_values import Accepted
from input_pipelines.errors import DataError
from input_pipelines.prepare.analyze.feature_names import named_as_id
from input_pipelines.prepare.tables.columns import is_list
from input_pipelines.prepare.tables.library import arrow
from input_pipelines.prepare.tables.reader import Table
from input_pipelines.record_files import kinds

_TINY = np.finfo(np.float32).tiny


def normalized(steps: Sequence[Normalizer], values: np.ndarray) -> np.ndarray:
    """float32 [values]: the steps of int64 or float32 numbers. Some results may not be finite."""
    numbers: Any
    with np.errstate(all="ignore"):
        if values.dtype.kind == "i":
            first = normalizers.before_log(steps)
            numbers = _scaled(normalizers.scaling(steps[:first]), values)
            steps = steps[first:]
        else:
            numbers = values.astype(np.float32)
        for step in steps:
            if isinstance(step, Log1p):
                numbers = np.log1p(numbers)
            elif isinstance(step, ZScore):
                numbers = (numbers - _narrow(step.zscore.mean)) / _narrow(step.zscore.stddev)
            elif isinstance(step, MinMax):
                least, most = step.minmax.min, step.minmax.max
                numbers = (numbers - _narrow(least)) / _narrow(most - least)
            else:
                low, high = _narrow(step.clip.min), _narrow(step.clip.max)
                numbers = np.maximum(np.minimum(numbers, high), low)
        return np.asarray(numbers, np.float32)


def _scaled(scaling: normalizers.Scaling, values: np.ndarray) -> Any:
    integer_part = scaling.whole
    numbers = values.astype(np.float32)
    if integer_part:
        far = numbers - _narrow(integer_part)
        near = (values - np.int64(integer_part)).astype(np.float32)
        numbers = np.where(np.abs(far) < 2.0**62, near, far)
    for low, high in scaling.limits:
        numbers = np.maximum(
            np.minimum(numbers, _narrow(high - integer_part)), _narrow(low - integer_part)
        )
    return (numbers - _narrow(scaling.center - integer_part)) / _narrow(scaling.scale)


def _narrow(number: Any) -> np.float32:
    narrow = np.float32(nearest_float32(number))
    # TensorFlow treats smaller numbers as 0.
    return narrow if abs(narrow) >= _TINY else np.float32(0)


def passes(batch: Any, conditions: Sequence[Condition]) -> np.ndarray:
    """bool [rows]: the rows that pass the filter, and the rows at which training stops."""
    good, undecided = verdicts(batch, conditions)
    result: np.ndarray = good | undecided
    return result


def verdicts(batch: Any, conditions: Sequence[Condition]) -> tuple[np.ndarray, np.ndarray]:
    """Which rows meet all conditions, and for which rows that cannot be decided, bool [rows] twice.

    As in `selection.verdicts`, a row cannot be decided if a feature of a condition is NaN or
    infinite, or has no value and no default.

    Raises:
      DataError: a feature has another type than in the spec.
    """
    result, undecided = np.ones(batch.num_rows, bool), np.zeros(batch.num_rows, bool)
    for condition in conditions:
        entry = condition.filter
        if batch.schema.get_field_index(entry.feature) != -1:
            column = _single(batch.column(entry.feature))
        else:
            column = arrow().nulls(batch.num_rows)
        if arrow().types.is_null(column.type):
            column = column.cast(_type(condition.dtype))
        elif column.type != _type(condition.dtype):
            raise DataError(
                f"feature {entry.feature!r} is {column.type} in the records, but the filter in the "
                f"spec compares {condition.dtype}. Correct the spec, or write the files again"
            )
        default = condition.default
        if default is None:
            undecided |= ~np.asarray(column.is_valid())
            default = "" if condition.dtype == "string" else 0
        filled = column.fill_null(arrow().scalar(default, _type(condition.dtype)))
        for key, words in entry.words.items():
            of = arrow().array(list(words), _type(condition.dtype))
            hits = np.asarray(arrow("compute").is_in(filled, value_set=of))
            result &= hits if key == "in" else ~hits
        for key, bound in entry.bounds.items():
            numbers = np.asarray(filled)
            if key == "min":
                result &= numbers >= bounds.at_least(bound, condition.dtype)
            else:
                result &= numbers <= bounds.at_most(bound, condition.dtype)
            undecided |= ~np.isfinite(numbers)
    return result & ~undecided, undecided


def outside(column: Any, accepted: Accepted) -> np.ndarray:
    """bool for each value of a column, or of all its lists: is it not accepted?

    A null is never refused.
    """
    flat = flat_values(column)
    if arrow().types.is_null(flat.type):
        return np.zeros(len(flat), bool)
    valid = np.asarray(flat.is_valid())
    if accepted.words is not None:
        words = arrow().array([word.encode() for word in accepted.words], arrow().binary())
        result: np.ndarray = valid & ~np.asarray(arrow("compute").is_in(flat, value_set=words))
        return result
    if arrow().types.is_binary(flat.type):
        return np.zeros(len(flat), bool)  # Any text is accepted.
    numbers = np.asarray(flat.fill_null(0))
    good = np.isfinite(numbers)
    if accepted.steps:
        good &= np.isfinite(normalized(accepted.steps, numbers))
    if accepted.low is not None:
        good &= numbers >= accepted.low
    if accepted.high is not None:
        good &= numbers <= accepted.high
    if accepted.whole:
        good &= numbers == np.floor(numbers)
    if accepted.missing is not None:
        good |= numbers == accepted.missing
    other: np.ndarray = valid & ~good
    return other


def row_of(column: Any, place: int) -> int:
    """The row of a value, given its place in `flat_values`."""
    if not is_list(column.type):
        return place
    return int(arrow("compute").list_parent_indices(column)[place].as_py())


def flat_values(column: Any) -> Any:
    """The values of a column, or the joined values of all its lists."""
    return column.flatten() if is_list(column.type) else column


def counts(batch: Any, name: str) -> np.ndarray:
    """int64 [rows]: how many values of a column each row has; 0 if the batch lacks the column."""
    if batch.schema.get_field_index(name) == -1:
        return np.zeros(batch.num_rows, np.int64)
    column = batch.column(name)
    if is_list(column.type):
        lengths = arrow("compute").list_value_length(column).fill_null(0)
        return np.asarray(lengths, np.int64)
    return np.asarray(column.is_valid(), np.int64)


def _single(column: Any) -> Any:
    """A column, or the only value of each list; null for an empty list."""
    if not is_list(column.type):
        return column
    lengths = arrow("compute").list_value_length(column)
    if len(column) and np.asarray(lengths.fill_null(0)).min() > 0:
        return arrow("compute").list_element(column, 0)
    return arrow().array(
        [row[0] if row else None for row in column.to_pylist()], column.type.value_type
    )


def _type(dtype: str) -> Any:
    pa = arrow()
    return {"string": pa.binary(), "int64": pa.int64(), "float32": pa.float32()}[dtype]


# What is wrong with a column of float32 where integers are needed, and the remedy.
IS_FLOAT = "is read as float32, which rounds numbers"
WRITE_INTEGERS = ". If the file has integers, write dtype: int64 in the spec"


def kind_of_tables(files: Sequence[str]) -> None:
    """Raises DataError if the files are TFRecord files, or not all of one kind."""
    if kinds.kind_of_all(files) == kinds.TFRECORD:
        raise DataError(
            f"{files[0]} is TFRecord by its name; the names of tables end in "
            f"{kinds.table_suffixes()}"
        )


def check_rows(table: Table) -> None:
    """Raises DataError if no file has a row."""
    files = table.files
    if not sum(sum(table.row_groups(path)) for path in files):
        raise DataError(
            f"{files[0]} has no rows, so nothing can be converted"
            if len(files) == 1
            else f"{files[0]} and the other {len(files) - 1} files have no rows, so nothing can be "
            "converted"
        )


def check_key(table: Table, key: str, flag: str, remedy: str = "") -> None:
    """Raises DataError unless a column has a key: text or an integer, and no list.

    Args:
      table: the table.
      key: the name of the column.
      flag: the flag that names it.
      remedy: advice for a table without such a column.
    """
    columns = {column.name: column for column in table.columns}
    names = [*columns, *table.left_out]
    if key not in columns:
        ids = [c.name for c in columns.values() if named_as_id(c.name)]
        hint = nearest(key, names) or (f". Did you mean {ids[0]!r}?" if ids else ".")
        raise DataError(
            f"{flag}: the table has no column {key!r}{hint} Its columns are "
            f"{', '.join(names)}.{remedy}"
        )
    column = columns[key]
    if column.multi or column.dtype == "float32":
        what, remedy = ("has lists", "") if column.multi else (IS_FLOAT, WRITE_INTEGERS)
        raise DataError(
            f"{flag}: column {key!r} {what}; a key must be text or an integer in every row{remedy}"
        )


def check_column(table: Table, name: str, flag: str) -> None:
    """Raises DataError unless a column exists, has a value, and has one value in each row."""
    columns = {column.name: column for column in table.columns}
    if name not in columns:
        names = [*columns, *table.left_out]
        raise DataError(
            f"{flag}: the table has no column {name!r}{nearest(name, names) or '.'} Its columns "
            f"are {', '.join(names)}."
        )
    if columns[name].multi:
        raise DataError(f"{flag}: column {name!r} has lists; name a column with one value a row")
    if columns[name].dtype is None:
        raise DataError(f"{flag}: column {name!r} has no value in any row")
