"""The rows of one file in batches: serialized records, and the columns that are kept.

Rows of a table become records with the features that the export reads, as in a conversion
(`input_pipelines/prepare/convert`). They need no labels.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, Optional

import numpy as np

from input_pipelines.errors import DataError
from input_pipelines.prepare.convert import batch_checks
from input_pipelines.prepare.convert.encoding import Encoder
from input_pipelines.prepare.convert.fields import Field
from input_pipelines.prepare.tables import reader
from input_pipelines.prepare.tables.storable import Rounded
from input_pipelines.prepare.tables.table_format import Part
from input_pipelines.record_files import record_lists, tfrecords


@dataclasses.dataclass(frozen=True)
class Batch:
    """Consecutive rows of a file.

    Attributes:
      records: serialized records, an object array [rows].
      kept: for a table, an Arrow array for each column that is kept, of JSON text for JSON lines
        (see `json_texts`); empty for TFRecords, whose records contain them.
      path, first: the file, and the number of rows before this batch.
      part: for a table, the part that has these rows.
    """

    records: np.ndarray
    kept: Sequence[Any]
    path: str
    first: int
    part: Optional[Part] = None

    def where(self, i: int) -> str:
        """Names row `i` of the batch for errors: records count from 0, rows and lines from 1."""
        if self.part is None:
            return f"{self.path}: record {self.first + i}"
        return reader.where(self.part, self.first + i + 1)


def of_tfrecords(
    path: str, size: int, damaged: tfrecords.Damaged = tfrecords.NO_DAMAGE
) -> Iterator[Batch]:
    """Yields the records of a file in batches of `size`, without the known bad records.

    Raises:
      TensorFlow's errors of reading; see `tfrecords.naming_what_is_corrupt`.
    """
    first = 0
    for records in record_lists.of_files([path], size, damaged=damaged):
        yield Batch(np.array(records, np.object_), (), path, first)
        first += len(records)


def of_table(
    part: Part,
    fields: Sequence[Field],
    keep: Sequence[str],
    spec_source: str,
    size: int,
    rounded: Optional[Rounded] = None,
) -> Iterator[Batch]:
    """Yields the rows of a table's file in batches of at most `size`.

    Args:
      part: the file.
      fields: the features of the records.
      keep: the columns to keep, unchanged.
      spec_source: the path of the spec, for errors.
      size: the largest number of rows in a batch.
      rounded: counts how many values a float32 does not keep.

    Raises:
      DataError: the file cannot be read, or a row lacks what the spec requires.
    """
    encoder = Encoder(fields)
    count = 0
    for rows, kept in reader.read_beside(part, keep, rounded, as_text=True):
        batch_checks.check(rows, fields, spec_source, remedy=batch_checks.CORRECT_ROW)
        for start in range(0, rows.batch.num_rows, size):
            records = encoder.encode(rows.batch.slice(start, size)).to_pylist()
            yield Batch(
                np.array(records, object),
                [column.slice(start, size) for column in kept],
                rows.path,
                rows.first + start,
                part,
            )
        count += rows.batch.num_rows
    if count != part.count:
        raise DataError(
            f"{part.path}: expected {part.count:,} rows, got {count:,}. The file changed while it "
            "was read; start again when it no longer changes."
        )
