"""Spills: temporary files with rows for shuffled shards, written once and read by each shard.

A spill has segments: frames of rows for one shard, with their sort keys. A separate index file is
written last, so a spill with an index is complete. A conversion that is started again uses the
spills that exist, and removes them when it has finished. The same rows for the same shards give the
same bytes, so two workers may write the same spill.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from feature_specs.files import documents, file_systems
from feature_specs.files.shards import WholeFile
from input_pipelines.prepare.tables.library import arrow

# How many bytes of frames are kept in memory before they are sorted by shard and written.
_BUFFER = 48 * 2**20

# How many rows of a shard are reordered at a time.
_ROWS = 8192


def names(count: int) -> list[str]:
    """The names of `count` spills."""
    return [f"rows-{i:05}.spill" for i in range(count)]


class Index(documents.Document):
    """The index of a spill: the segments of each shard, as (first byte, rows, bytes of frames)."""

    segments: dict[str, list[tuple[int, int, int]]]


def is_whole(temporary: str, name: str, shards: Sequence[int]) -> bool:
    """Whether a complete spill exists that has the rows of all these shards."""
    index = Index.load(_index_path(temporary, name))
    if index is None or not file_systems.exists(os.path.join(temporary, name)):
        return False
    return set(map(str, shards)) <= set(index.segments)


class SpillWriter:
    """Writes one spill, `name` in the temporary folder. It is complete after its block."""

    def __init__(self, temporary: str, name: str, shards: Sequence[int]):
        """A spill for the shards with these numbers. Rows of other shards must not be added."""
        self._file = WholeFile(os.path.join(temporary, name), temporary)
        self._index = _index_path(temporary, name)
        self._segments: dict[str, list[tuple[int, int, int]]] = {str(n): [] for n in shards}
        self._wanted = np.array(sorted(shards), np.int64)
        self._waiting: list[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]] = []
        self._size = 0

    def __enter__(self) -> SpillWriter:
        self._file.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        if error[0] is not None:
            self._file.__exit__(*error)
            return
        with contextlib.ExitStack() as stack:
            stack.push(self._file)
            if self._waiting:
                self._write()
            index = Index(segments=self._segments)
            if Index.load(self._index) not in (None, index):
                file_systems.remove(self._index)  # From an earlier start, for other shards.
        with file_systems.writing(self._index):
            index.save(self._index, durable=True)

    def wanted(self, shards: np.ndarray) -> np.ndarray:
        """bool [n]: which rows belong to this spill, given their shards."""
        return np.isin(shards, self._wanted)

    def add(
        self, shards: np.ndarray, places_in_shard: np.ndarray, frames: np.ndarray, at: np.ndarray
    ) -> None:
        """Adds rows.

        Args:
          shards: int64 [n].
          places_in_shard: uint64 [n], the sort keys of rows within their shard.
          frames, at: as `framing.frames` returns them.
        """
        self._waiting.append((shards, places_in_shard, np.diff(at), frames))
        self._size += len(frames)
        if self._size >= _BUFFER:
            self._write()

    def _write(self) -> None:
        shards, keys, sizes, frames = (np.concatenate(part) for part in zip(*self._waiting))
        self._waiting, self._size = [], 0
        order = np.argsort(shards, kind="stable")
        frames = _taken(frames, sizes, order)
        shards, keys, sizes = shards[order], keys[order], sizes[order]
        ends = np.concatenate([[0], np.cumsum(sizes)])
        starts = np.flatnonzero(np.diff(shards, prepend=-1))
        for first, last in zip(starts.tolist(), [*starts[1:].tolist(), len(shards)]):
            parts = (
                keys[first:last].astype("<u8"),
                sizes[first:last].astype("<u4"),
                frames[ends[first] : ends[last]],
            )
            size = int(ends[last] - ends[first])
            segment = (self._file.size, last - first, size)
            self._segments[str(int(shards[first]))].append(segment)
            for part in parts:
                self._file.write(np.ascontiguousarray(part).data.cast("B"))


def shuffled(temporary: str, names: Sequence[str], shard: int) -> Iterator[tuple[np.ndarray, int]]:
    """Yields the frames of a shard's rows in their order, in pieces, with their number of rows."""
    keys, sizes, contents = [], [], []
    for name in names:
        index = Index.load(_index_path(temporary, name))
        assert index is not None, f"{name} was written before"
        with file_systems.open_file(os.path.join(temporary, name), "rb") as file:
            for start, rows, size in index.segments[str(shard)]:
                file.seek(start)
                keys.append(np.frombuffer(file.read(8 * rows), "<u8"))
                sizes.append(np.frombuffer(file.read(4 * rows), "<u4").astype(np.int64))
                contents.append(np.frombuffer(file.read(size), np.uint8))
    if not keys:
        return
    content = np.concatenate(contents)
    contents.clear()
    all_sizes = np.concatenate(sizes)
    order = np.argsort(np.concatenate(keys), kind="stable")
    for first in range(0, len(order), _ROWS):
        some = order[first : first + _ROWS]
        yield _taken(content, all_sizes, some), len(some)


def _taken(content: np.ndarray, sizes: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Selects and reorders pieces of `content`; `sizes` are the sizes of all pieces."""
    pa = arrow()
    ends = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
    pieces = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(sizes), [None, pa.py_buffer(ends), pa.py_buffer(content)]
    )
    taken = pieces.take(pa.array(order))
    return np.frombuffer(taken.buffers()[2] or b"", np.uint8)[: int(sizes[order].sum())]


def _index_path(temporary: str, name: str) -> str:
    return os.path.join(temporary, f"{name}.json")
