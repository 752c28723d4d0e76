"""Finds unusual rows, which show best whether an export reads like the input pipeline.

    unusual = UnusualRows()
    unusual.add(0, features)          # batch by batch, as a session returns the features
    unusual.places                    # [3, 812, 6001]

For each column: the first row without an id (a missing value, or a value outside a vocabulary), and
the rows with the smallest and largest number or id, and the shortest and longest list. For each
stored feature: the first row with an empty string, and the row with the longest string. An error
that only such rows show is rarely seen in the first hundred rows. This module keeps a few numbers
for each column, and never keeps a row.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np


class UnusualRows:
    """The unusual rows of those added so far."""

    def __init__(self) -> None:
        # (name, what is unusual) -> (its size, the row), over all rows that were added.
        self._found: dict[tuple[str, str], tuple[float, int]] = {}

    @property
    def places(self) -> list[int]:
        """The sorted numbers of the unusual rows."""
        return sorted({row for _, row in self._found.values()})

    def add(self, first: int, values: Mapping[str, Any]) -> None:
        """Looks at a batch of rows.

        Args:
          first: the number of the batch's first row.
          values: arrays [rows, ...] or ragged values, by name.
        """
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
        """Keeps the first of these rows if its size is smaller than before."""
        if len(rows):
            before = self._found.get((name, what))
            if before is None or size < before[0]:
                self._found[name, what] = (size, first + int(rows[0]))
