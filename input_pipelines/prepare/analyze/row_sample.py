"""`RowSample`: single values of a bounded sample of rows, so that rules can look at rows.

Statistics describe one feature at a time. The sample has the values of many features in the same
rows: a feature and the label, or two features.

    sample = RowSample()
    sample.add(parse_block(records), np.arange(len(records)), "a.tfrecord", 0)
    sample.merge(other)                                        # in the order of the files
    sample.columns()["city"].codes                             # [n], equal for equal values

A hash of its position in its file chooses a row, so the sample does not depend on the number of
processes. It has up to 100,000 rows, and up to 2,000,000 values: with 200 features, 10,000 rows.
A feature with several values in any row is not in it. Text is kept as a hash of 64 bits. Does not
import TensorFlow.
"""

from __future__ import annotations

import base64
import dataclasses
import functools
import hashlib
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Optional

import numpy as np

from input_pipelines.prepare.analyze.feature_block import FeatureBlock

ROWS = 100_000
VALUES = 2_000_000

# Text is kept as hashes.
_TEXT: np.dtype[Any] = np.dtype(np.uint64)
_TYPES: dict[str, np.dtype[Any]] = {
    "int64": np.dtype(np.int64),
    "float32": np.dtype(np.float32),
    "string": _TEXT,
}


@dataclasses.dataclass(frozen=True)
class Column:
    """The values of one feature in the rows of a sample.

    Attributes:
      values: [n] int64, float32, or for text the uint64 hashes of its values.
      present: [n] whether the row has a value. NaN and infinity do not count as values.
    """

    values: np.ndarray
    present: np.ndarray

    @property
    def text(self) -> bool:
        return self.values.dtype == _TEXT

    @property
    def numbers(self) -> np.ndarray:
        """[n] float64; NaN for a row without a value. Not for text."""
        return np.where(self.present, self.values.astype(np.float64), np.nan)

    @functools.cached_property
    def distinct(self) -> np.ndarray:
        """The different values, sorted."""
        return np.unique(self.values[self.present])

    @functools.cached_property
    def codes(self) -> np.ndarray:
        """[n] int64: the place of each value in `distinct`; -1 for a row without a value."""
        places = np.searchsorted(self.distinct, self.values)
        return np.where(self.present, places, -1).astype(np.int64)


class RowSample:
    """Rows with small hashes, and the single values of their features; see the module."""

    def __init__(self, rows: int = ROWS, values: int = VALUES):
        self._most_rows, self._most_values = rows, values
        self._parts: list[_Part] = []
        self._waiting = 0
        self._lists: set[str] = set()
        self._names: set[str] = set()
        self._below: Optional[int] = None  # Hashes from here on are in no sample.

    def __getstate__(self) -> dict[str, Any]:
        """The state for another process; arrays as bytes in base64."""
        self._shrink()
        state = dict(self.__dict__)
        state["_parts"] = [part.as_plain() for part in self._parts]
        state["_lists"], state["_names"] = sorted(self._lists), sorted(self._names)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._parts = [_Part.of_plain(part) for part in self._parts]  # type: ignore[arg-type]
        self._lists, self._names = set(self._lists), set(self._names)

    def add(
        self,
        blocks: Mapping[str, Iterable[FeatureBlock]],
        rows: np.ndarray,
        file: str,
        before: int,
    ) -> None:
        """Adds some of these rows, [n] int64, increasing; they count from row `before` of a file.

        `FeatureBlock.rows` has the same numbers.
        """
        if not len(rows):
            return
        hashes = _hashes(file, before, rows)
        chosen = np.arange(len(rows))
        if self._below is not None:
            chosen = np.flatnonzero(hashes < np.uint64(self._below))
        place = np.full(int(rows[-1]) + 1, -1, np.int64)
        place[rows[chosen]] = np.arange(len(chosen))
        part = _Part(hashes[chosen], {})
        for name, several in blocks.items():
            for block in several:
                self._add_block(part, name, block, place)
        self._names.update(part.columns)
        self._append(part)

    def merge(self, other: RowSample) -> None:
        """Adds the rows of another sample, which come after the rows of this one."""
        self._lists |= other._lists
        self._names |= other._names
        for part in other._parts:
            self._append(part)

    def columns(self) -> dict[str, Column]:
        """The columns by feature, of the same rows."""
        self._shrink()
        if not self._parts:
            return {}
        columns = self._parts[0].columns
        return {name: Column(*columns[name]) for name in sorted(columns)}

    def _add_block(self, part: _Part, name: str, block: FeatureBlock, place: np.ndarray) -> None:
        if block.feature_list or (len(block.lengths) and int(block.lengths.max()) > 1):
            self._lists.add(name)
        if not block.dtype or name in self._lists:
            return
        starts = np.cumsum(block.lengths) - block.lengths
        kept = (place[block.rows] >= 0) & (block.lengths == 1)
        rows, starts = place[block.rows[kept]], starts[kept]
        if name not in part.columns:
            empty = np.zeros(len(part.hashes), _TYPES[block.dtype])
            part.columns[name] = empty, np.zeros(len(empty), bool)
        values, present = part.columns[name]
        if isinstance(block.values, list):
            values[rows] = _text_hashes([block.values[i] for i in starts.tolist()])
            present[rows] = True
        else:
            values[rows] = block.values[starts]
            present[rows] = np.isfinite(block.values[starts])

    def _append(self, part: _Part) -> None:
        if len(part.hashes):
            self._parts.append(part)
            self._waiting += len(part.hashes)
        if self._waiting > 2 * self._limit:
            self._shrink()

    @property
    def _limit(self) -> int:
        """How many rows the sample may have with these features. It never grows."""
        return max(1, min(self._most_rows, self._most_values // max(len(self._names), 1)))

    def _shrink(self) -> None:
        """Makes one part of all, with the smallest hashes; of equal ones, the first rows."""
        if not self._parts:
            return
        part = _joined(self._parts, self._lists)
        if len(part.hashes) > self._limit:
            kept = np.sort(np.argsort(part.hashes, kind="stable")[: self._limit])
            self._below = int(part.hashes[kept].max())
            part = part.of_rows(kept)
        self._parts, self._waiting = [part], len(part.hashes)


@dataclasses.dataclass
class _Part:
    """Rows in their order: [n] hashes, and (values [n], present [n]) by feature."""

    hashes: np.ndarray
    columns: dict[str, tuple[np.ndarray, np.ndarray]]

    def of_rows(self, rows: np.ndarray) -> _Part:
        columns = {name: (v[rows], p[rows]) for name, (v, p) in self.columns.items()}
        return _Part(self.hashes[rows], columns)

    def as_plain(self) -> dict[str, Any]:
        columns = {name: [_plain(v), _plain(p)] for name, (v, p) in self.columns.items()}
        return {"hashes": _plain(self.hashes), "columns": columns}

    @staticmethod
    def of_plain(plain: Mapping[str, Any]) -> _Part:
        columns = {name: (_array(v), _array(p)) for name, (v, p) in plain["columns"].items()}
        return _Part(_array(plain["hashes"]), columns)


def _joined(parts: Sequence[_Part], without: set[str]) -> _Part:
    if len(parts) == 1:
        columns = {n: both for n, both in parts[0].columns.items() if n not in without}
        return _Part(parts[0].hashes, columns)
    types = {n: v.dtype for part in parts for n, (v, _) in part.columns.items() if n not in without}
    columns = {}
    for name, dtype in types.items():
        pairs = [
            part.columns.get(name)
            or (np.zeros(len(part.hashes), dtype), np.zeros(len(part.hashes), bool))
            for part in parts
        ]
        columns[name] = (
            np.concatenate([values for values, _ in pairs]),
            np.concatenate([present for _, present in pairs]),
        )
    return _Part(np.concatenate([part.hashes for part in parts]), columns)


def _hashes(file: str, before: int, rows: np.ndarray) -> np.ndarray:
    """[n] uint64: a random number for each row of a file, in whatever folder the file is."""
    name = zlib.crc32(file.replace("\\", "/").rpartition("/")[2].partition(".")[0].encode())
    number = rows.astype(np.uint64) + np.uint64(before + (name << 32))
    number = (number + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    number = (number ^ (number >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    return number ^ (number >> np.uint64(32))


def _text_hashes(words: Sequence[bytes]) -> np.ndarray:
    """[n] uint64."""
    known = {word: text_hash(word) for word in set(words)}
    return np.fromiter((known[word] for word in words), _TEXT, len(words))


def text_hash(word: bytes) -> int:
    """The hash of a text in a sample."""
    return int.from_bytes(hashlib.blake2b(word, digest_size=8).digest(), "little")


def _plain(array: np.ndarray) -> list[Any]:
    return [array.dtype.str, base64.b64encode(array.tobytes()).decode()]


def _array(plain: Sequence[Any]) -> np.ndarray:
    return np.frombuffer(base64.b64decode(plain[1]), np.dtype(plain[0])).copy()
