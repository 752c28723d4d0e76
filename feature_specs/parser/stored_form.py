"""Documents of specs that an earlier release of the kit stored, in the form of this one.

A user's own spec is never changed so: there, the parser says how to write it now.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from feature_specs.kinds import EmbeddingTable


def stored_form(document: dict[str, Any]) -> dict[str, Any]:
    """The document of a spec that an earlier release of the kit stored, as this one has it.

    Embeddings that shared a table each had its options.
    """
    columns: dict[Any, Any] = {}
    tables = {}
    kept = document.get("columns")
    for name, entry in kept.items() if isinstance(kept, Mapping) else ():
        if isinstance(entry, Mapping) and entry.get("shared") is not None and "embedding" in entry:
            entry = dict(entry)
            table = entry["table"] = entry.pop("shared")
            tables[table] = {
                key: entry.pop(key) for key in EmbeddingTable.model_fields if key in entry
            }
        columns[name] = entry
    if not tables:
        return document
    return {**document, "embedding_tables": tables, "columns": columns}
