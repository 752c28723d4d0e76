"""Reads the files to analyze with Apache Beam instead of processes.

    for summary in summaries(groups, exact_limit, flags):

Each element is a group of files, or of parts of a table, of about 128 MB, like the groups for
processes on one machine. Its summary comes back as JSON, through a folder that the workers can
reach. This program merges the summaries in the order of the files. If sketches were merged in
another order, estimates would differ a little, and so would the written files.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

import pydantic

from feature_specs.sections.records import Condition
from input_pipelines.prepare.analyze import group_scan, summary_json
from input_pipelines.prepare.analyze.summary import RecordSummary
from input_pipelines.prepare.beam import runner
from input_pipelines.prepare.tables.reader import Part

_PARTS = pydantic.TypeAdapter(list[Part])
_FILES = pydantic.TypeAdapter(list[str])
_COMMON = pydantic.TypeAdapter(tuple[int, tuple[Condition, ...]])


def summaries(
    groups: Sequence[Sequence[Any]],
    exact_limit: int,
    conditions: Sequence[Condition],
    flags: Sequence[str],
) -> Generator[RecordSummary, None, None]:
    """Yields the summaries of groups of files, or of parts of tables, in their order."""
    pieces = (
        b"parts " + _PARTS.dump_json(list(group))
        if group and isinstance(group[0], Part)
        else b"files " + _FILES.dump_json(list(group))
        for group in groups
    )
    with runner.scratch(flags) as folder:
        # `in`, a field of Filter, is an alias.
        common = _COMMON.dump_json((exact_limit, tuple(conditions)), by_alias=True)
        for result in runner.run(_work, common, pieces, folder=folder, flags=flags):
            yield summary_json.from_bytes(result)


# --- On a worker ----------------------------------------------------------------------------------


def _work(common: bytes, piece: bytes) -> bytes:
    """Returns the summary of a group."""
    kind, _, content = piece.partition(b" ")
    how = _COMMON.validate_json(common)
    if kind == b"parts":
        found = group_scan.scan_parts(_PARTS.validate_json(content), *how)
    else:
        found = group_scan.scan_files(_FILES.validate_json(content), *how)
    return summary_json.to_bytes(found)
