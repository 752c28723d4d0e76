"""What kind of file a name says: TFRecord, unless it ends as a table does.

.csv  .tsv           CSV             and with .gz behind it
.jsonl  .json        JSON lines      and with .gz behind it
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
    """The kind that all of some files are of.

    Raises:
      DataError: they are of several.
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
