"""Parquet: typed columns in row groups, which can be read separately."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Optional

import numpy as np

from input_pipelines.errors import DataError
from input_pipelines.prepare.tables.columns import Column, NoFeature, column_of
from input_pipelines.prepare.tables.library import arrow, open_file, reading
from input_pipelines.prepare.tables.table_format import (
    ArrowWriter,
    ColumnRequest,
    Part,
    PredictedRows,
    TableColumns,
    TableFormat,
    as_declared,
    check_names,
    flat,
    output_array,
)

# How many bytes of a column are read at a time, so that memory need not hold a whole row group.
_BUFFER = 2**20

# The rows of a row group of predictions, or fewer of this many bytes. They are in memory.
_ROW_GROUP = 2**16
_GROUP_BYTES = 2**26


class Parquet(TableFormat):
    """The format; see `TableFormat`."""

    cut_anywhere = True
    has_types = True

    def columns(self, files: Sequence[str], request: ColumnRequest) -> TableColumns:
        """The columns, which all files declare.

        Integers are float32 if the spec says so. Some files may then have integers, others
        fractions.
        """
        merged: dict[str, Column] = {}
        places: dict[str, str] = {}
        for path in files:
            columns = {
                c.name: as_declared(c, request.dtypes or {}) for c in _columns(path, request.only)
            }
            if merged:
                check_names(files[0], list(merged), path, list(columns))
            for name, column in columns.items():
                earlier = merged.get(name)
                if earlier is None or earlier.dtype is None:
                    merged[name], places[name] = column, path
                elif column.dtype is not None and _type(column) != _type(earlier):
                    raise DataError(
                        f"column {name!r} is {_type(earlier)} in {places[name]} and "
                        f"{_type(column)} in {path}; a feature must have one type"
                    )
        return TableColumns(list(merged.values()))

    def row_groups(self, path: str, rows: int) -> list[tuple[int, int]]:
        with _opened(path) as file:
            metadata = file.metadata
            groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
            return [
                (group.num_rows, max(group.total_byte_size, 8 * group.num_rows * group.num_columns))
                for group in groups
            ]

    def batches(
        self, part: Part, size: int, names: Sequence[str], texts: Optional[Sequence[str]]
    ) -> Iterator[tuple[Any, Any]]:
        with _opened(part.path) as file:
            for batch in file.iter_batches(
                size, row_groups=list(part.groups), columns=list(names), use_threads=False
            ):
                yield batch, batch

    def writer(self, *args: Any) -> ArrowWriter:
        return _Predictions(*args)


def _columns(path: str, only: Optional[Collection[str]] = None) -> tuple[Column, ...]:
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
    columns: dict[str, Column] = {}
    for field in schema:
        if field.name in columns:
            raise DataError(f"{path}: two columns are named {field.name!r}. Rename one of them")
        if only is not None and field.name not in only:
            columns[field.name] = Column(field.name, None)
            continue
        try:
            columns[field.name] = column_of(field.name, field.type)
        except NoFeature as error:
            raise DataError(f"{path}: {error}") from error
    return tuple(columns.values())


def _type(column: Column) -> str:
    values = column.form or str(column.dtype)
    return f"lists of {values}" if column.multi else values


@contextlib.contextmanager
def _opened(path: str) -> Iterator[Any]:
    with reading(path), contextlib.closing(open_file(path)) as source:
        file = arrow("parquet").ParquetFile(
            source, buffer_size=_BUFFER, pre_buffer=False, page_checksum_verification=True
        )
        yield file


class _Predictions(ArrowWriter):
    """Writes predictions: kept columns with their types, and outputs as columns or lists."""

    def _open(self) -> Any:
        pa = arrow()
        fields = []
        if self._keep:
            with _opened(self._path) as file:
                fields = [file.schema_arrow.field(name) for name in self._keep]
        for output in self._outputs:
            dtype = output.arrow_type
            fields.append(pa.field(output.name, dtype if output.width == 1 else pa.list_(dtype)))
        self._schema = pa.schema(fields)
        self._batches: list[Any] = []
        return arrow("parquet").ParquetWriter(self._sink, self._schema)

    def write(self, answers: Mapping[str, np.ndarray], batch: PredictedRows) -> None:
        pa = arrow()
        columns = list(batch.kept)
        for output in self._outputs:
            values = flat(answers[output.name])
            column = output_array(values.reshape(-1), output, batch)
            if output.width != 1:
                ends = np.arange(len(values) + 1, dtype=np.int32) * values.shape[1]
                column = pa.ListArray.from_arrays(pa.array(ends), column)
            columns.append(column)
        self._batches.append(pa.RecordBatch.from_arrays(columns, schema=self._schema))
        rows, size = (sum(getattr(b, of) for b in self._batches) for of in ("num_rows", "nbytes"))
        if rows >= _ROW_GROUP or size >= _GROUP_BYTES:
            self._flush()

    def finish(self) -> None:
        self._flush()
        super().finish()

    def _flush(self) -> None:
        """Writes the batches in memory as one row group."""
        if self._batches:
            self._writer.write_table(arrow().Table.from_batches(self._batches, self._schema))
            self._batches = []


FORMAT = Parquet()
