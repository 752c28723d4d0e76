"""Documents of specs that an earlier release of the kit stored, in the form of this one.

A user's own spec is never changed so: there, the parser says how to write it now.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from feature_specs.kinds import EmbeddingTable


def stored_form(document: dict[str, Any]) -> dict[str, Any]:
    """The document of a spec that an earlier release of the kit stored, as this one has it.

    Embeddings that shared a table each had its options. In the section `retraining`, `period_rows`
    was `day_rows`, and `leave_out` was `leave_out_day`.
    """
    if isinstance(document.get("retraining"), Mapping):
        document = {**document, "retraining": _of_periods(document["retraining"])}
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


def _of_periods(section: Mapping[Any, Any]) -> dict[Any, Any]:
    made = {"period_rows" if key == "day_rows" else key: value for key, value in section.items()}
    rates = section.get("label_rate")
    if isinstance(rates, Mapping):
        made["label_rate"] = {
            label: {**rate, "otherwise": "leave_out"}
            if isinstance(rate, Mapping) and rate.get("otherwise") == "leave_out_day"
            else rate
            for label, rate in rates.items()
        }
    return made
