"""Reads blocks of serialized Examples or SequenceExamples with any features into arrays.

`tf.io.parse_example` must know every name and type. It ignores other features, and fails at the
first different type. The protobuf library reads records one at a time. Analysis needs all names, at
the speed of arrays. So this module reads the wire format itself, many records at once: the k-th map
entry of every record in one step, the k-th byte of every varint in one step.

It reads only the form that all common writers produce (fields in order, packed numbers, no unknown
fields). The protobuf library reads all other records, and decides what they mean or that they are
not Examples. So the result is always the library's result; only the speed differs. The library also
reads feature lists whose steps have several types or no type. A SequenceExample without feature
lists is read like an Example. Nothing is kept between blocks.

    for name, columns in parse_block(records).items():
        for column in columns:      # one for each type; the caller should refuse several types
            column.rows, column.lengths, column.values
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Optional

import numpy as np

from input_pipelines.prepare.analyze.feature_block import NO_TYPE, FeatureBlock
from input_pipelines.prepare.analyze.protobuf_records import parse_records
from input_pipelines.record_files.framing import FIELD_1, FIELD_2, TAG_OF_DTYPE

_DTYPE_OF_TAG = {tag: dtype for dtype, tag in TAG_OF_DTYPE.items()}

# Reading a varint or a word of a name past the end of a record must stay inside the buffer.
_PADDING = 16
_LONGEST_LENGTH = 5  # bytes of a varint; a record is under 2 GB
_LONGEST_VARINT = 10


class _Odd(Exception):
    """Records that are not in the common form; `rows` are their positions."""

    def __init__(self, rows: np.ndarray):
        super().__init__()
        self.rows = rows


def parse_block(records: Sequence[bytes]) -> dict[str, list[FeatureBlock]]:
    """The features of some records, by name.

    Raises:
      NotAnExample: a record cannot be read as one.
    """
    place = np.arange(len(records))
    common = list(records)
    odd: list[int] = []
    while True:
        try:
            blocks_by_name = _parse_common(common, place)
            break
        except _Odd as error:
            odd += place[error.rows].tolist()
            keep = np.ones(len(common), bool)
            keep[error.rows] = False
            place = place[keep]
            common = [records[i] for i in place.tolist()]
    for name, blocks in parse_records(records, sorted(odd)).items():
        blocks_by_name.setdefault(name, []).extend(blocks)
    return blocks_by_name


def _parse_common(records: Sequence[bytes], place: np.ndarray) -> dict[str, list[FeatureBlock]]:
    data = b"".join(records) + bytes(_PADDING)
    buffer = np.frombuffer(data, np.uint8)
    sizes = np.fromiter((len(r) for r in records), np.int64, len(records))
    ends = np.cumsum(sizes)
    context, lists = _tops(buffer, ends - sizes, ends)
    blocks_by_name: dict[str, list[FeatureBlock]] = {}
    for name, group in _by_name(data, buffer, _entries(buffer, *lists)):
        block = _steps(data, buffer, group)
        blocks_by_name[name] = [dataclasses.replace(block, rows=place[block.rows])]
    for name, group in _by_name(data, buffer, _entries(buffer, *context)):
        tags = buffer[group.value]
        tags = np.where(group.value == group.end, 0, tags)
        for tag in np.unique(tags).tolist():
            chosen = group if len(np.unique(tags)) == 1 else group.take(tags == tag)
            block = _values(data, buffer, chosen, tag)
            rows = place[block.rows]
            blocks_by_name.setdefault(name, []).append(dataclasses.replace(block, rows=rows))
    return blocks_by_name


# --- Structure -----------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class _Entries:
    """Map entries: their record, and where their name and value start and end."""

    row: np.ndarray
    key: np.ndarray
    key_size: np.ndarray
    value: np.ndarray
    end: np.ndarray

    def take(self, which: np.ndarray) -> _Entries:
        return _Entries(*(getattr(self, f.name)[which] for f in dataclasses.fields(self)))


def _varint(buffer: np.ndarray, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Lengths at some places, and where they end; -1 for an invalid, too long length."""
    byte = buffer[at]
    value = (byte & 0x7F).astype(np.int64)
    after = at + 1
    more = np.flatnonzero(byte >= 0x80)
    for i in range(1, _LONGEST_LENGTH):
        if not len(more):
            return value, after
        byte = buffer[at[more] + i]
        value[more] |= (byte & 0x7F).astype(np.int64) << (7 * i)
        after[more] += 1
        more = more[byte >= 0x80]
    value[more] = -1
    return value, after


def _delimited(
    buffer: np.ndarray, at: np.ndarray, limit: np.ndarray, tag: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Fields with a length: where their content starts and ends, and which fields are valid."""
    size, start = _varint(buffer, np.minimum(at + 1, len(buffer) - _PADDING))
    end = start + size
    good = (at < limit) & (buffer[at] == tag) & (size >= 0) & (start <= limit) & (end <= limit)
    return start, end, good


_Places = tuple[np.ndarray, np.ndarray, np.ndarray]  # rows, where a map starts, where it ends


def _tops(buffer: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> tuple[_Places, _Places]:
    """The features (or context) and the feature lists of records at [starts, ends).

    A record has one of them, both in this order, or nothing (an Example without features).
    """
    places = []
    rows, at = np.arange(len(starts)), starts
    for tag in (FIELD_1, FIELD_2):
        here = np.flatnonzero((at < ends) & (buffer[at] == tag))
        start, limit, good = _delimited(buffer, at[here], ends[here], tag)
        _need(good, here)
        places.append((here, start, limit))
        at = at.copy()
        at[here] = limit
    _need(at == ends, rows)
    return places[0], places[1]


def _entries(buffer: np.ndarray, rows: np.ndarray, at: np.ndarray, limit: np.ndarray) -> _Entries:
    """All entries of the maps at [at, limit)."""
    parts = []
    while True:
        left = at < limit
        if not left.all():
            rows, at, limit = rows[left], at[left], limit[left]
        if not len(rows):
            break
        entry, entry_end, good = _delimited(buffer, at, limit, FIELD_1)
        _need(good, rows)
        key, key_end, good = _delimited(buffer, entry, entry_end, FIELD_1)
        _need(good, rows)
        value, value_end, good = _delimited(buffer, key_end, entry_end, FIELD_2)
        _need(good & (value_end == entry_end), rows)
        parts.append((rows, key, key_end - key, value, value_end))
        at = entry_end
    if not parts:
        empty = np.zeros(0, np.int64)
        return _Entries(empty, empty, empty, empty, empty)
    return _Entries(*(np.concatenate(part) for part in zip(*parts)))


def _need(good: np.ndarray, rows: np.ndarray) -> None:
    if not good.all():
        raise _Odd(np.unique(rows[~good]))


def _by_name(data: bytes, buffer: np.ndarray, entries: _Entries) -> list[tuple[str, _Entries]]:
    """The entries of each name, in the order of their records."""
    if not len(entries.row):
        return []
    # A view of the 8 bytes from each place on, so that names are compared 8 bytes at a time.
    words: np.ndarray = np.ndarray((len(buffer) - 7,), "<u8", buffer, strides=(1,))
    longest = int(entries.key_size.max())
    parts = []
    digest = entries.key_size.astype(np.uint64)
    for i in range(0, longest, 8):
        left = np.clip(entries.key_size - i, 0, 8).astype(np.uint64)
        word = words[np.minimum(entries.key + i, len(words) - 1)]
        mask = np.where(left == 8, ~np.uint64(0), (np.uint64(1) << (left * 8 % 64)) - 1)
        parts.append(np.where(left == 0, 0, word & mask))
        digest = (digest ^ parts[-1]) * np.uint64(0x9E3779B97F4A7C15)
        digest ^= digest >> np.uint64(29)
    number, first = _numbered(digest)
    first = first[number]
    same = entries.key_size == entries.key_size[first]
    for part in parts:
        same &= part == part[first]
    _need(same, entries.row)  # Two names with the same digest, if that ever happens.
    small = number.astype(np.uint16 if int(number.max()) < 2**16 else np.int64)
    order = np.argsort(small, kind="stable")  # A fast radix sort for 16 bits.
    groups = np.split(order, np.cumsum(np.bincount(small))[:-1])
    entries_by_name = []
    for where in groups:
        group = entries.take(where)
        if (np.diff(group.row) <= 0).any():
            group = group.take(np.argsort(group.row, kind="stable"))
            _need(np.diff(group.row, prepend=-1) > 0, group.row)  # A record has a name twice.
        start = int(group.key[0])
        try:
            name = data[start : start + int(group.key_size[0])].decode()
        except UnicodeDecodeError:
            raise _Odd(group.row) from None
        entries_by_name.append((name, group))
    return entries_by_name


def _numbered(digests: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A number from 0 on for each different digest, and where each digest is found first.

    Sorting a sample and looking up all digests takes half the time of sorting all of them. The
    sample is enough unless a name is rare.
    """
    sample = np.unique(digests[:: max(len(digests) // 4096, 1)])
    number = np.minimum(np.searchsorted(sample, digests), len(sample) - 1)
    if not (sample[number] == digests).all():
        _, first, number = np.unique(digests, return_index=True, return_inverse=True)
        return number.reshape(-1), first
    first = np.empty(len(sample), np.int64)
    first[number[::-1]] = np.arange(len(digests) - 1, -1, -1)  # The last assignment wins.
    return number, first


# --- Values --------------------------------------------------------------------------------------


def _values(data: bytes, buffer: np.ndarray, group: _Entries, tag: int) -> FeatureBlock:
    rows = group.row
    if tag == 0:
        _need(group.value == group.end, rows)
        return FeatureBlock(NO_TYPE, rows, np.zeros(len(rows), np.int64), np.zeros(0, np.float32))
    if tag not in _DTYPE_OF_TAG:
        raise _Odd(rows)
    dtype = _DTYPE_OF_TAG[tag]
    start, end, good = _delimited(buffer, group.value, group.end, tag)
    _need(good & (end == group.end), rows)
    if dtype == "string":
        lengths, values = _strings(data, buffer, start, end, rows)
        return FeatureBlock(dtype, rows, lengths, values)
    full = np.flatnonzero(end > start)
    at, stop, good = _delimited(buffer, start[full], end[full], FIELD_1)
    _need(good & (stop == end[full]), rows[full])
    lengths = np.zeros(len(rows), np.int64)
    if dtype == "float32":
        _need((stop - at) % 4 == 0, rows[full])
        lengths[full] = (stop - at) // 4
        numbers = buffer[_ragged(at, stop - at)].view("<f4").astype(np.float32, copy=False)
    else:
        lengths[full], numbers = _integers(buffer, at, stop, rows[full])
    return FeatureBlock(dtype, rows, lengths, numbers)


def _steps(data: bytes, buffer: np.ndarray, group: _Entries) -> FeatureBlock:
    """Feature lists with one name: the values of all steps. A step is read like a feature."""
    lengths = np.zeros(len(group.row), np.int64)
    owner, start, end = _repeated(buffer, group.value, group.end, group.row)
    if not len(owner):
        nothing = np.zeros(0, np.float32)
        return FeatureBlock(NO_TYPE, group.row, lengths, nothing, feature_list=True)
    rows = group.row[owner]
    tags = np.where(start == end, 0, buffer[start])
    _need(tags == np.bincount(tags).argmax(), rows)
    _need(tags != 0, rows)
    steps = _Entries(rows, start, start - start, start, end)
    block = _values(data, buffer, steps, int(tags[0]))
    np.add.at(lengths, owner, block.lengths)
    odd = int((block.lengths != 1).sum())
    return FeatureBlock(block.dtype, group.row, lengths, block.values, True, odd)


def _ragged(starts: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """The joined places [start, start + size) of all ranges."""
    before = np.cumsum(sizes) - sizes
    return np.repeat(starts - before, sizes) + np.arange(int(sizes.sum()))


def _integers(
    buffer: np.ndarray, starts: np.ndarray, ends: np.ndarray, rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Packed varints: the number in each place, and all of them as int64."""
    sizes = ends - starts
    content = buffer[_ragged(starts, sizes)]
    last = content < 0x80
    count = np.concatenate([[0], np.cumsum(last)])
    stop = np.cumsum(sizes)
    _need((sizes == 0) | last[np.maximum(stop, 1) - 1], rows)
    lengths = count[stop] - count[stop - sizes]
    after = np.flatnonzero(last) + 1
    width = np.diff(after, prepend=0)
    if len(width) and int(width.max()) > _LONGEST_VARINT:
        raise _Odd(np.unique(np.repeat(rows, lengths)[width > _LONGEST_VARINT]))
    begin = after - width
    numbers = np.zeros(len(after), np.uint64)
    for i in range(int(width.max()) if len(width) else 0):
        here = slice(None) if i == 0 else np.flatnonzero(width > i)
        byte = content[begin[here] + i].astype(np.uint64) & np.uint64(0x7F)
        numbers[here] |= byte << np.uint64(7 * i)
    return lengths, numbers.view(np.int64)


def _strings(
    data: bytes, buffer: np.ndarray, at: np.ndarray, limit: np.ndarray, rows: np.ndarray
) -> tuple[np.ndarray, list[bytes]]:
    """Repeated bytes: the number in each place, and all of them."""
    owner, starts, ends = _repeated(buffer, at, limit, rows)
    lengths = np.bincount(owner, minlength=len(at))
    return lengths, [data[s:e] for s, e in zip(starts.tolist(), ends.tolist())]


def _repeated(
    buffer: np.ndarray, at: np.ndarray, limit: np.ndarray, rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Repeated fields with a length: the place of each field, and where its content is."""
    which: Optional[np.ndarray] = None  # None while all places have a value left.
    parts = []
    numbers = np.arange(len(at))
    while len(at):
        left = at < limit
        if not left.all():
            at, limit, numbers = at[left], limit[left], numbers[left]
            which = numbers
            if not len(at):
                break
        start, end, good = _delimited(buffer, at, limit, FIELD_1)
        _need(good, rows[numbers])
        parts.append((numbers, start, end))
        at = end
    if not parts:
        nothing = np.zeros(0, np.int64)
        return nothing, nothing, nothing
    owner, starts, ends = (np.concatenate([part[i] for part in parts]) for i in range(3))
    if len(parts) > 1 or which is not None:
        order = np.argsort(owner, kind="stable")
        owner, starts, ends = owner[order], starts[order], ends[order]
    return owner, starts, ends
