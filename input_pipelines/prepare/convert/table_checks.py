"""Whether files are tables, and whether a table has the columns that flags name.

    kind_of_tables(files)
    check_column(table, "time", "--order_by")
    check_key(table, "user_id", "--split")

Each function returns nothing if all is well, and raises a DataError that names the flag.
"""

from __future__ import annotations

from collections.abc import Sequence

from feature_specs.errors import nearest
from input_pipelines.errors import DataError
from input_pipelines.prepare.analyze.columns import named_as_id
from input_pipelines.prepare.tables.reader import Table
from input_pipelines.record_files import kinds

# What is wrong with a column of float32 where integers are needed, and the remedy.
IS_FLOAT = "is read as float32, which rounds numbers"
WRITE_INTEGERS = ". If the file has integers, write dtype: int64 in the spec"


def kind_of_tables(files: Sequence[str]) -> None:
    """Raises DataError if the files are TFRecord files, or not all of one kind."""
    if kinds.kind_of_all(files) == kinds.TFRECORD:
        raise DataError(
            f"{files[0]} is TFRecord by its name; the names of tables end in .csv, .tsv, .json, "
            ".jsonl or .parquet"
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
        known = [*columns, *table.left_out]
        raise DataError(
            f"{flag}: the table has no column {name!r}{nearest(name, known) or '.'} Its columns "
            f"are {', '.join(known)}."
        )
    if columns[name].multi:
        raise DataError(f"{flag}: column {name!r} has lists; name a column with one value a row")
    if columns[name].dtype is None:
        raise DataError(f"{flag}: column {name!r} has no value in any row")
