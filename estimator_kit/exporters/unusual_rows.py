"""Which rows tell most of whether an export reads as the input pipeline does: unusual ones.

    unusual = UnusualRows()
    unusual.add(0, features)          # batch by batch, what a session returns of them
    unusual.places                    # [3, 812, 6001]

Of each column the first row that has no id (a missing value, or one outside a vocabulary), and
those with the smallest and the largest number or id, the shortest and the longest list; of each
feature as it is stored the first with an empty string, and the longest. A break on such rows alone
is not seen in the first hundred. Holds a few numbers a column; never holds a row.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np


class UnusualRows:
    """The unusual rows of those added so far."""

    def __init__(self) -> None:
        # By name and what is unusual: how much, and the row, over all that were added.
        self._found: dict[tuple[str, str], tuple[float, int]] = {}

    @property
    def places(self) -> list[int]:
        """Their numbers, each once, in order."""
        return sorted({row for _, row in self._found.values()})

    def add(self, first: int, values: Mapping[str, Any]) -> None:
        """Looks at rows that come after `first` others: arrays [rows, ...] or ragged, by name."""
        for name, value in values.items():
            if hasattr(value, "nested_row_splits"):
                splits = value.nested_row_splits
                lengths = np.diff(splits[0])
                self._extremes(name, "length", first, lengths, np.arange(len(lengths)))
                rows = np.arange(len(lengths))
                for inner in splits:
                    rows = np.repeat(rows, np.diff(inner))
                self._values(name, first, np.asarray(value.flat_values), rows)
            else:
                array = np.asarray(value)
                width = int(np.prod(array.shape[1:], dtype=np.int64))
                self._values(name, first, array.reshape(-1), np.arange(len(array)).repeat(width))

    def _values(self, name: str, first: int, flat: np.ndarray, rows: np.ndarray) -> None:
        if not len(flat):
            return
        if flat.dtype.kind in "OS":
            flat = np.array([len(word) for word in flat])
            self._see(name, "empty", 0.0, first, rows[flat == 0])
        elif flat.dtype.kind in "iu":
            self._see(name, "none", 0.0, first, rows[flat == -1])
            flat, rows = flat[flat != -1], rows[flat != -1]
        self._extremes(name, "value", first, flat, rows)

    def _extremes(
        self, name: str, what: str, first: int, flat: np.ndarray, rows: np.ndarray
    ) -> None:
        if len(flat):
            lowest, highest = int(np.argmin(flat)), int(np.argmax(flat))
            self._see(name, f"least {what}", float(flat[lowest]), first, rows[[lowest]])
            self._see(name, f"largest {what}", -float(flat[highest]), first, rows[[highest]])

    def _see(self, name: str, what: str, size: float, first: int, rows: np.ndarray) -> None:
        """Keeps the first of some rows where its size is below what was seen."""
        if len(rows):
            before = self._found.get((name, what))
            if before is None or size < before[0]:
                self._found[name, what] = (size, first + int(rows[0]))
