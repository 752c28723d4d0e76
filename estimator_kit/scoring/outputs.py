"""Writes predictions in the format of the input: TFRecord, CSV, JSON lines or Parquet.

    format          one value for each row    several values for each row
    TFRecord        a feature of an Example   a feature with all values
    JSON lines      a number or text          a list
    Parquet         a column                  a column of lists
    CSV             a column                  one column each: probabilities/0, probabilities/1

Kept columns come first. A kept CSV field keeps its text, and a missing one is empty. A kept value
of JSON lines keeps its text, and a missing key stays missing. A kept feature of a TFRecord is
copied unchanged. No type is inferred from the rows. The output contains no time: the same rows and
the same export give the same file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

from estimator_kit.scoring import kept
from estimator_kit.scoring.export import Output
from estimator_kit.scoring.prediction import json_value
from estimator_kit.scoring.rows import Batch
from feature_specs.files.shards import ShardFile
from input_pipelines.errors import DataError
from input_pipelines.prepare.tables import parquet_files
from input_pipelines.prepare.tables.library import arrow
from input_pipelines.prepare.tables.options import CsvOptions
from input_pipelines.record_files import kinds
from input_pipelines.record_files.framing import framed

_LARGEST_INT64 = 2**63 - 1

# The rows of a row group of Parquet, or fewer of this many bytes. They are in memory.
_ROW_GROUP = 2**16
_GROUP_BYTES = 2**26

_NO_TEXT = "is not UTF-8 text, which this kind of file needs. Predict TFRecord files."

Answers = Mapping[str, np.ndarray]


class Writer(Protocol):
    """Writes one file, batch by batch."""

    def write(self, answers: Answers, batch: Batch) -> None:
        """Adds the rows of a batch with their answers: [rows, width] for each output."""

    def finish(self) -> None:
        """Writes what is left; the caller closes the file."""

    def discard(self) -> None:
        """Ends without an error and drops the file's content."""


def writer(
    kind: str,
    file: ShardFile,
    path: str,
    outputs: Sequence[Output],
    keep: Sequence[str],
    csv: CsvOptions,
) -> Writer:
    """A writer for a kind of file.

    Args:
      kind: the kind; see `record_files.kinds`.
      file: the file to write.
      path: the input file, which may decide the CSV separator and the types of kept columns.
      outputs: the predictions.
      keep: the names of the columns to keep.
      csv: the CSV format.
    """
    if kind == kinds.TFRECORD:
        return _Examples(file, keep)
    if kind == kinds.JSON:
        return _JsonLines(file, keep)
    if kind == kinds.CSV:
        return _Csv(file, outputs, keep, csv.separator(path))
    return _Parquet(file, path, outputs, keep)


def csv_columns(output: Output) -> list[str]:
    """The CSV columns of an output whose width is known."""
    if output.width == 1:
        return [output.name]
    return [f"{output.name}/{i}" for i in range(output.width or 0)]


def _flat(values: np.ndarray) -> np.ndarray:
    """The values as [rows, values of a row]."""
    return values.reshape(len(values), -1)


class _Examples:
    def __init__(self, file: ShardFile, keep: Sequence[str]):
        self._file = file
        self._keep = keep

    def write(self, answers: Answers, batch: Batch) -> None:
        columns = [(name, *_listed(name, _flat(values), batch)) for name, values in answers.items()]
        rows = []
        for i, record in enumerate(batch.records):
            example = tf.train.Example()
            features = example.features.feature
            if self._keep:
                stored = kept.of_record(record)
                for name in self._keep:
                    if name in stored:
                        features[name].CopyFrom(stored[name])
            # `tfrecords.example` looks at each value, which takes ten times as long.
            for name, kind, values in columns:
                getattr(features[name], kind).value.extend(values[i])
            rows.append(example.SerializeToString(deterministic=True))
        self._file.write(framed(rows), 0)

    def finish(self) -> None:
        """Does nothing: each batch is already written."""

    discard = finish


def _listed(name: str, values: np.ndarray, batch: Batch) -> tuple[str, list[list[Any]]]:
    """The list of a Feature that holds an output, and the values of each row."""
    if values.dtype == np.object_:
        return "bytes_list", values.tolist()
    if values.dtype.kind in "iub":
        if values.dtype == np.uint64 and (values > _LARGEST_INT64).any():
            raise _too_large(name, values > _LARGEST_INT64, batch, "int64")
        return "int64_list", values.astype(np.int64).tolist()
    with np.errstate(over="ignore"):
        narrow = values.astype(np.float32)
    endless = np.isinf(narrow) & np.isfinite(values)
    if endless.any():
        raise _too_large(name, endless, batch, "float32")
    return "float_list", narrow.tolist()


def _too_large(name: str, wrong: np.ndarray, batch: Batch, dtype: str) -> DataError:
    row = int(np.flatnonzero(wrong.any(axis=1))[0])
    return DataError(
        f"{batch.where(row)}: the output {name!r} is too large for {dtype}, the type that an "
        "Example stores. Predict Parquet, CSV or JSON lines files."
    )


class _JsonLines:
    def __init__(self, file: ShardFile, keep: Sequence[str]):
        self._file = file
        self._keep = [json.dumps(name, ensure_ascii=False) for name in keep]

    def write(self, answers: Answers, batch: Batch) -> None:
        columns = [column.to_pylist() for column in batch.kept]
        lines = []
        for i in range(len(batch.records)):
            try:
                row = {name: json_value(values[i]) for name, values in answers.items()}
            except UnicodeDecodeError as error:
                raise DataError(f"{batch.where(i)}: an output {_NO_TEXT}") from error
            members = [
                f"{name}: {texts[i]}"
                for name, texts in zip(self._keep, columns)
                if texts[i] is not None
            ]
            members.append(json.dumps(row, ensure_ascii=False)[1:-1])
            lines.append("{" + ", ".join(members) + "}\n")
        self._file.write("".join(lines).encode(), 0)

    def finish(self) -> None:
        """Does nothing: each batch is already written."""

    discard = finish


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


class _ByArrow:
    """Base of the writers that use pyarrow; subclasses set `_writer`."""

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


class _Csv(_ByArrow):
    def __init__(
        self, file: ShardFile, outputs: Sequence[Output], keep: Sequence[str], delimiter: str
    ):
        super().__init__(file)
        pa = arrow()
        self._outputs = outputs
        self._schema = pa.schema(
            [(name, pa.string()) for name in keep]
            + [(name, _type(output)) for output in outputs for name in csv_columns(output)]
        )
        csv = arrow("csv")
        self._writer = csv.CSVWriter(
            self._sink, self._schema, write_options=csv.WriteOptions(delimiter=delimiter)
        )

    def write(self, answers: Answers, batch: Batch) -> None:
        pa = arrow()
        columns = list(batch.kept)
        for output in self._outputs:
            values = _flat(answers[output.name])
            columns += [_column(values[:, i], output, batch) for i in range(values.shape[1])]
        self._writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=self._schema))


class _Parquet(_ByArrow):
    def __init__(self, file: ShardFile, path: str, outputs: Sequence[Output], keep: Sequence[str]):
        super().__init__(file)
        pa = arrow()
        stored = parquet_files.schema(path) if keep else pa.schema([])
        fields = [stored.field(name) for name in keep]
        for output in outputs:
            dtype = _type(output)
            fields.append(pa.field(output.name, dtype if output.width == 1 else pa.list_(dtype)))
        self._outputs = outputs
        self._schema = pa.schema(fields)
        self._writer = arrow("parquet").ParquetWriter(self._sink, self._schema)
        self._held: list[Any] = []
        self._rows = self._bytes = 0

    def write(self, answers: Answers, batch: Batch) -> None:
        pa = arrow()
        columns = list(batch.kept)
        for output in self._outputs:
            values = _flat(answers[output.name])
            column = _column(values.reshape(-1), output, batch)
            if output.width != 1:
                ends = np.arange(len(values) + 1, dtype=np.int32) * values.shape[1]
                column = pa.ListArray.from_arrays(pa.array(ends), column)
            columns.append(column)
        self._held.append(pa.RecordBatch.from_arrays(columns, schema=self._schema))
        self._rows += len(batch.records)
        self._bytes += self._held[-1].nbytes
        if self._rows >= _ROW_GROUP or self._bytes >= _GROUP_BYTES:
            self._flush()

    def finish(self) -> None:
        self._flush()
        super().finish()

    def _flush(self) -> None:
        """Writes the batches in memory as one row group."""
        if self._held:
            self._writer.write_table(arrow().Table.from_batches(self._held, self._schema))
            self._held, self._rows, self._bytes = [], 0, 0


def _type(output: Output) -> Any:
    pa = arrow()
    if output.dtype == "string":
        return pa.string()
    if output.dtype == "bfloat16":
        return pa.float32()
    return pa.from_numpy_dtype(np.dtype(output.dtype))


def _column(values: np.ndarray, output: Output, batch: Batch) -> Any:
    """The values of an output, one row of the batch after the other, as an Arrow array."""
    pa = arrow()
    if output.dtype != "string":
        return pa.array(values.astype(np.float32) if output.dtype == "bfloat16" else values)
    try:
        return pa.array([value.decode() for value in values.tolist()], pa.string())
    except UnicodeDecodeError as error:
        raise DataError(
            f"{batch.where(0)} or a later row of its batch: the output {output.name!r} {_NO_TEXT}"
        ) from error
