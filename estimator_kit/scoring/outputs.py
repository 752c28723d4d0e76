"""Writes predictions in the format of the input: TFRecord, CSV, JSON lines or Parquet.

    format          one value for each row    several values for each row
    TFRecord        a feature of an Example   a feature with all values
    JSON lines      a number or text          a list
    Parquet         a column                  a column of lists
    CSV             a column                  one column each: probabilities/0, probabilities/1
    svmlight        as CSV; `.csv` follows the name of the input

Kept columns come first. A kept CSV field keeps its text, and a missing one is empty. A kept value
of JSON lines keeps its text, and a missing key stays missing. A kept feature of a TFRecord is
copied unchanged. No type is inferred from the rows. The output contains no time: the same rows and
the same export give the same file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from estimator_kit.scoring import kept
from input_pipelines.errors import DataError
from input_pipelines.prepare.tables import formats
from input_pipelines.prepare.tables.table_format import PredictedRows, Writer, flat
from input_pipelines.record_files import kinds
from input_pipelines.record_files.framing import framed

_LARGEST_INT64 = 2**63 - 1

Answers = Mapping[str, np.ndarray]


def writer(kind: str, *args: Any) -> Writer:
    """A writer for a kind of file (`record_files.kinds`); for the arguments, see `Writer`."""
    return (_Examples if kind == kinds.TFRECORD else formats.of(kind).writer)(*args)


class _Examples(Writer):
    def write(self, answers: Answers, batch: PredictedRows) -> None:
        columns = [(name, *_listed(name, flat(values), batch)) for name, values in answers.items()]
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


def _listed(name: str, values: np.ndarray, batch: PredictedRows) -> tuple[str, list[list[Any]]]:
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


def _too_large(name: str, wrong: np.ndarray, batch: PredictedRows, dtype: str) -> DataError:
    row = int(np.flatnonzero(wrong.any(axis=1))[0])
    return DataError(
        f"{batch.where(row)}: the output {name!r} is too large for {dtype}, the type that an "
        "Example stores. Predict Parquet, CSV or JSON lines files."
    )
