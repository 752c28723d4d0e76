"""Tells the kind of a file from its name: TFRecord, unless it has the suffix of a table.

.csv  .tsv           CSV             (also with .gz at the end)
.jsonl  .json        JSON lines      (also with .gz at the end)
.parquet             Parquet
anything else        TFRecord
"""

from __future__ import annotations

from collections.abc import Sequence

from input_pipelines.errors import DataError

TFRECORD, CSV, JSON, PARQUET = "TFRecord", "CSV", "JSON lines", "Parquet"

_SUFFIXES = {".csv": CSV, ".tsv": CSV, ".jsonl": JSON, ".json": JSON}


def kind_of(path: str) -> str:
    """The kind of one file."""
    name = path.lower()
    if name.endswith(".parquet"):
        return PARQUET
    name = name.removesuffix(".gz")
    return next((kind for end, kind in _SUFFIXES.items() if name.endswith(end)), TFRECORD)


def kind_of_all(files: Sequence[str]) -> str:
    """The kind of all files.

    Raises:
      DataError: the files have different kinds.
    """
    first: dict[str, str] = {}
    for path in files:
        first.setdefault(kind_of(path), path)
    if len(first) > 1:
        (kind, path), (other, another) = list(first.items())[:2]
        raise DataError(
            f"by their names, {path} is {kind} and {another} is {other}; give files of one kind"
        )
    return next(iter(first))
