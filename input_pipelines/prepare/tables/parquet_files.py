"""Reads Parquet files with pyarrow: their columns, their row groups, and rows of row groups."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Optional

from input_pipelines.errors import DataError
from input_pipelines.prepare.tables import library
from input_pipelines.prepare.tables.columns import Column, NoFeature, column_of
from input_pipelines.prepare.tables.library import arrow, reading

# How many bytes of a column are read at a time, so that memory need not hold a whole row group.
_BUFFER = 2**20


def columns(path: str, only: Optional[Collection[str]] = None) -> tuple[Column, ...]:
    """The columns of a file.

    Args:
      path: the file.
      only: the names of the columns that matter. Other columns may have any type.

    Raises:
      DataError: it is not a Parquet file, two columns have the same name, or a feature cannot store
        a column.
    """
    with _opened(path) as file:
        schema = file.schema_arrow
    found: dict[str, Column] = {}
    for field in schema:
        if field.name in found:
            raise DataError(f"{path}: two columns are named {field.name!r}. Rename one of them")
        if only is not None and field.name not in only:
            found[field.name] = Column(field.name, None)
            continue
        try:
            found[field.name] = column_of(field.name, field.type)
        except NoFeature as error:
            raise DataError(f"{path}: {error}") from error
    return tuple(found.values())


def schema(path: str) -> Any:
    """The Arrow schema of a file, as it was written."""
    with _opened(path) as file:
        return file.schema_arrow


def row_groups(path: str) -> list[tuple[int, int]]:
    """For each row group: its number of rows, and about how many bytes they have unpacked."""
    with _opened(path) as file:
        metadata = file.metadata
        groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
        return [
            (group.num_rows, max(group.total_byte_size, 8 * group.num_rows * group.num_columns))
            for group in groups
        ]


def batches(path: str, groups: Sequence[int], size: int, names: Sequence[str]) -> Iterator[Any]:
    """Some columns of the rows of some row groups, as record batches of up to `size` rows."""
    with _opened(path) as file:
        yield from file.iter_batches(
            size, row_groups=list(groups), columns=list(names), use_threads=False
        )


@contextlib.contextmanager
def _opened(path: str) -> Iterator[Any]:
    with reading(path), contextlib.closing(library.open_file(path)) as source:
        file = arrow("parquet").ParquetFile(
            source, buffer_size=_BUFFER, pre_buffer=False, page_checksum_verification=True
        )
        yield file
