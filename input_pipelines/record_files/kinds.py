"""Tells the kind of a file from its name: TFRecord, unless it has the suffix of a table.

    kind_of("rows.csv.gz")        # "CSV"

`TABLES` is the list of the formats of tables. Each has a module in `prepare/tables/formats`, which
reads and writes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from input_pipelines.errors import DataError

TFRECORD, CSV, JSON, PARQUET = "TFRecord", "CSV", "JSON lines", "Parquet"
SVMLIGHT = "svmlight"


class TableKind(NamedTuple):
    """A format of tables.

    Attributes:
      module: its module in `prepare/tables/formats`.
      suffixes: how the names of its files end, in lower case.
      gzip: whether names may also end in .gz, if the file is compressed.
    """

    module: str
    suffixes: tuple[str, ...]
    gzip: bool = False


TABLES = {
    CSV: TableKind("csv", (".csv", ".tsv"), gzip=True),
    JSON: TableKind("json_lines", (".json", ".jsonl"), gzip=True),
    PARQUET: TableKind("parquet", (".parquet",)),
    SVMLIGHT: TableKind("svmlight", (".svm", ".svmlight", ".libsvm", ".txt"), gzip=True),
}


def kind_of(path: str) -> str:
    """The kind of one file."""
    name = path.lower()
    for kind, table in TABLES.items():
        if (name.removesuffix(".gz") if table.gzip else name).endswith(table.suffixes):
            return kind
    return TFRECORD


def table_suffixes() -> str:
    """The suffixes of all tables, for messages: ".csv, .tsv, .json, .jsonl or .parquet"."""
    *others, last = (suffix for table in TABLES.values() for suffix in table.suffixes)
    return f"{', '.join(others)} or {last}"


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
