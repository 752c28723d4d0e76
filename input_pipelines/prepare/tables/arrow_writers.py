"""Writes predictions with pyarrow: what the writers of several formats share.

A writer gets the answers of an export batch by batch. Its file is a `ShardFile`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from feature_specs.files.shards import ShardFile
from input_pipelines.errors import DataError
from input_pipelines.prepare.tables.library import arrow
from input_pipelines.prepare.tables.table_format import OutputColumn, PredictedRows

NO_TEXT = "is not UTF-8 text, which this kind of file needs. Predict TFRecord files."


def flat(values: np.ndarray) -> np.ndarray:
    """The values as [rows, values of a row]."""
    return values.reshape(len(values), -1)


class _Sink:
    """A `ShardFile` with the methods that pyarrow needs to write."""

    closed = False
    discards = False  # True after a bad row, because pyarrow always writes the end of a file.

    def __init__(self, file: ShardFile):
        self._file = file

    def write(self, content: Any) -> int:
        if not self.discards:
            self._file.write(content, 0)
        return len(content)

    def flush(self) -> None:
        """Does nothing: the shard is flushed when it is closed."""

    def close(self) -> None:
        self.closed = True


class ArrowWriter:
    """Base of the writers that use pyarrow. Subclasses set `_writer` and define `write`."""

    _writer: Any

    def __init__(self, file: ShardFile):
        self._target = _Sink(file)
        self._sink = arrow().PythonFile(self._target, mode="w")

    def finish(self) -> None:
        self._writer.close()
        self._sink.close()

    def discard(self) -> None:
        self._target.discards = True
        self._writer.close()
        self._sink.close()


def arrow_type(output: OutputColumn) -> Any:
    """The Arrow type of the values of an output."""
    pa = arrow()
    if output.dtype == "string":
        return pa.string()
    if output.dtype == "bfloat16":
        return pa.float32()
    return pa.from_numpy_dtype(np.dtype(output.dtype))


def one_column(values: np.ndarray, output: OutputColumn, batch: PredictedRows) -> Any:
    """The values of an output, one row of the batch after the other, as an Arrow array."""
    pa = arrow()
    if output.dtype != "string":
        return pa.array(values.astype(np.float32) if output.dtype == "bfloat16" else values)
    try:
        return pa.array([value.decode() for value in values.tolist()], pa.string())
    except UnicodeDecodeError as error:
        raise DataError(
            f"{batch.where(0)} or a later row of its batch: the output {output.name!r} {NO_TEXT}"
        ) from error
