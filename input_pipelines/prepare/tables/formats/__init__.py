"""The formats of tables: each module reads and writes one; see `table_format.TableFormat`.

    formats.of("CSV").where(part, 12)        # "a.csv: line 13"

The list of formats is `record_files.kinds.TABLES`. A format without a module is an error when this
file is imported.
"""

from __future__ import annotations

import importlib

from input_pipelines.prepare.tables.table_format import TableFormat
from input_pipelines.record_files import kinds

_FORMATS: dict[str, TableFormat] = {
    kind: importlib.import_module(f"{__name__}.{table.module}").FORMAT
    for kind, table in kinds.TABLES.items()
}


def of(kind: str) -> TableFormat:
    """The format of a kind of files that are tables."""
    return _FORMATS[kind]
