"""Base of the writers of predictions that use pyarrow."""

from __future__ import annotations

from typing import Any

import numpy as np

from input_pipelines.errors import DataError
from input_pipelines.prepare.tables.library import arrow
from input_pipelines.prepare.tables.table_format import Output, PredictedRows, Writer

NO_TEXT = "is not UTF-8 text, which this kind of file needs. Predict TFRecord files."


class _Sink:
    """A `ShardFile` with the methods that pyarrow needs to write."""

    closed = False
    discards = False  # True after a bad row, because pyarrow always writes the end of a file.

    def __init__(self, file: Any):
        self._file = file

    def write(self, content: Any) -> int:
        if not self.discards:
            self._file.write(content, 0)
        return len(content)

    def flush(self) -> None:
        """Does nothing: the shard is flushed when it is closed."""

    def close(self) -> None:
        self.closed = True


class ArrowWriter(Writer):
    """Subclasses define `write`, and `_open`, which sets `_schema` and returns pyarrow's writer."""

    _schema: Any

    def __init__(self, *args: Any):
        super().__init__(*args)
        self._target = _Sink(self._file)
        self._sink = arrow().PythonFile(self._target, mode="w")
        self._writer = self._open()

    def _open(self) -> Any:
        raise NotImplementedError

    def finish(self) -> None:
        self._writer.close()
        self._sink.close()

    def discard(self) -> None:
        self._target.discards = True
        self._writer.close()
        self._sink.close()


def flat(values: np.ndarray) -> np.ndarray:
    """The values as [rows, values of a row]."""
    return values.reshape(len(values), -1)


def output_array(values: np.ndarray, output: Output, batch: PredictedRows) -> Any:
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
