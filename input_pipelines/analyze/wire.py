"""Reads blocks of serialized Examples or SequenceExamples into arrays, whatever their features.

`tf.io.parse_example` has to be told every name and type, passes over what it was not told, and
stops at the first other type; the protobuf library takes records one at a time. Analysis needs all
names, whatever they are, at the speed of arrays. So this reads the wire format itself, many records
at once: the k-th map entry of every record in one step, the k-th byte of every varint in one step.

Only the form that every common writer produces is read so (fields in order, packed numbers, no
unknown fields). A record of any other form goes to the protobuf library, which decides what it
means or that it is no Example: the result is the library's for every record, only the speed is
not. All SequenceExamples that have feature lists go there; one without is an Example in all but
name, and is read as such. Reads only; keeps nothing between blocks.

    for name, columns in parse_block(records).items():
        for column in columns:      # one a type; more than one is for the caller to refuse
            column.rows, column.lengths, column.values
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Optional, Union

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError

# The wire format's tags: the field's number times 8 plus its wire type, 2 for "with a length".
_FIELD_1, _FIELD_2 = 0x0A, 0x12
_DTYPE_OF_TAG = {0x0A: "string", 0x12: "float32", 0x1A: "int64"}
_DTYPE_OF_LIST = {"bytes_list": "string", "float_list": "float32", "int64_list": "int64"}
_NO_TYPE = ""

# Read past the end of a record stays inside the buffer: a varint, or a word of a name.
_PADDING = 16
_LONGEST_LENGTH = 5  # bytes of a varint; a record is under 2 GB
_LONGEST_VARINT = 10


class NotAnExample(ValueError):
    """A record that protobuf cannot read; `row` is its position in the block."""

    def __init__(self, row: int):
        super().__init__(f"record {row} of the block is no serialized tf.train.Example")
        self.row = row


@dataclasses.dataclass(frozen=True)
class FeatureBlock:
    """The values of one feature, of one type, in one block.

    Attributes:
      dtype: `float32`, `int64`, `string`, or empty for a feature that says no type (and so holds
        nothing).
      rows: [n] the records that have it, increasing.
      lengths: [n] the number of values in each of them, 0 or more.
      values: all values one after the other, as float32 or int64 or a list of bytes.
      feature_list: whether they are the steps of a feature list, and not of the record itself.
      odd_steps: how many of the steps have another number of values than one.
    """

    dtype: str
    rows: np.ndarray
    lengths: np.ndarray
    values: Union[np.ndarray, list[bytes]]
    feature_list: bool = False
    odd_steps: int = 0


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
            found = _parse_common(common, place)
            break
        except _Odd as error:
            odd += place[error.rows].tolist()
            keep = np.ones(len(common), bool)
            keep[error.rows] = False
            place = place[keep]
            common = [records[i] for i in place.tolist()]
    for name, blocks in _parse_odd(records, sorted(odd)).items():
        found.setdefault(name, []).extend(blocks)
    return found


class _Gathered:
    """The values of one feature, of one type, of records that come one by one."""

    def __init__(self) -> None:
        self.lengths: dict[int, int] = {}  # by row
        self.values: list[Any] = []
        self.odd_steps = 0

    def add(self, row: int, values: Sequence[Any]) -> None:
        self.lengths[row] = self.lengths.get(row, 0) + len(values)
        self.values.extend(values)

    def block(self, dtype: str, feature_list: bool) -> FeatureBlock:
        values = self.values if dtype == "string" else np.array(self.values, dtype or np.float32)
        rows, lengths = (np.array(list(part)) for part in (self.lengths, self.lengths.values()))
        return FeatureBlock(dtype, rows, lengths, values, feature_list, self.odd_steps)


def _parse_odd(records: Sequence[bytes], rows: Sequence[int]) -> dict[str, list[FeatureBlock]]:
    """Some of the records, in the order of their rows, as protobuf reads them."""
    gathered: dict[tuple[str, str, bool], _Gathered] = defaultdict(_Gathered)
    for row in rows:
        context, lists = _by_protobuf(records[row], row)
        for name, feature in context.items():
            dtype, values = _stored(feature)
            gathered[name, dtype, False].add(row, values)
        for name, feature_list in lists.items():
            steps = [_stored(step) for step in feature_list.feature]
            dtypes = {dtype for dtype, _ in steps} or {_NO_TYPE}
            if len(dtypes) == 1:
                found = gathered[name, dtypes.pop(), True]
                found.add(row, [value for _, values in steps for value in values])
                found.odd_steps += sum(len(values) != 1 for _, values in steps)
                continue
            # A step that says no type is one of the list's, whose others do.
            typed = next(dtype for dtype, _ in steps if dtype)
            for dtype, values in steps:
                found = gathered[name, dtype or typed, True]
                found.add(row, values)
                found.odd_steps += len(values) != 1
    result: dict[str, list[FeatureBlock]] = {}
    for (name, dtype, feature_list), found in gathered.items():
        result.setdefault(name, []).append(found.block(dtype, feature_list))
    return result


def _by_protobuf(record: bytes, row: int) -> tuple[Any, Any]:
    """The features of a record and its feature lists, by name; an Example has none."""
    try:
        parsed = tf.train.SequenceExample.FromString(record)
        return parsed.context.feature, parsed.feature_lists.feature_list
    except DecodeError:
        pass
    try:  # It may hold something unknown in the place of feature lists.
        return tf.train.Example.FromString(record).features.feature, {}
    except DecodeError:
        raise NotAnExample(row) from None


def _stored(feature: Any) -> tuple[str, Any]:
    kind = feature.WhichOneof("kind")
    return (_DTYPE_OF_LIST[kind], getattr(feature, kind).value) if kind else (_NO_TYPE, ())


def _parse_common(records: Sequence[bytes], place: np.ndarray) -> dict[str, list[FeatureBlock]]:
    data = b"".join(records) + bytes(_PADDING)
    buffer = np.frombuffer(data, np.uint8)
    sizes = np.fromiter((len(r) for r in records), np.int64, len(records))
    ends = np.cumsum(sizes)
    entries = _entries(buffer, ends - sizes, ends)
    found: dict[str, list[FeatureBlock]] = {}
    for name, group in _by_name(data, buffer, entries):
        tags = buffer[group.value]
        tags = np.where(group.value == group.end, 0, tags)
        for tag in np.unique(tags).tolist():
            chosen = group if len(np.unique(tags)) == 1 else group.take(tags == tag)
            block = _values(data, buffer, chosen, tag)
            rows = place[block.rows]
            found.setdefault(name, []).append(dataclasses.replace(block, rows=rows))
    return found


# --- Structure -----------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class _Entries:
    """Map entries: which record, where the name starts and ends, where the value does."""

    row: np.ndarray
    key: np.ndarray
    key_size: np.ndarray
    value: np.ndarray
    end: np.ndarray

    def take(self, which: np.ndarray) -> _Entries:
        return _Entries(*(getattr(self, f.name)[which] for f in dataclasses.fields(self)))


def _varint(buffer: np.ndarray, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Lengths at some places, and where they end; a length too long to be one is -1."""
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
    """Fields with a length: where their content starts and ends, and which are in order."""
    size, start = _varint(buffer, np.minimum(at + 1, len(buffer) - _PADDING))
    end = start + size
    good = (at < limit) & (buffer[at] == tag) & (size >= 0) & (start <= limit) & (end <= limit)
    return start, end, good


def _entries(buffer: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> _Entries:
    """All map entries of records that lie at [starts, ends)."""
    rows = np.flatnonzero(ends > starts)  # An empty record is an Example without features.
    at, limit, good = _delimited(buffer, starts[rows], ends[rows], _FIELD_1)
    _need(good & (limit == ends[rows]), rows)
    parts = []
    while True:
        left = at < limit
        if not left.all():
            rows, at, limit = rows[left], at[left], limit[left]
        if not len(rows):
            break
        entry, entry_end, good = _delimited(buffer, at, limit, _FIELD_1)
        _need(good, rows)
        key, key_end, good = _delimited(buffer, entry, entry_end, _FIELD_1)
        _need(good, rows)
        value, value_end, good = _delimited(buffer, key_end, entry_end, _FIELD_2)
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


def _by_name(
    data: bytes, buffer: np.ndarray, entries: _Entries
) -> list[tuple[str, _Entries]]:
    """Entries of each name, in the order of their records."""
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
    _need(same, entries.row)  # Two names of one digest, if that ever happens.
    small = number.astype(np.uint16 if int(number.max()) < 2**16 else np.int64)
    order = np.argsort(small, kind="stable")  # By radix for 16 bits, which takes no time.
    groups = np.split(order, np.cumsum(np.bincount(small))[:-1])
    found = []
    for where in groups:
        group = entries.take(where)
        if (np.diff(group.row) <= 0).any():
            group = group.take(np.argsort(group.row, kind="stable"))
            _need(np.diff(group.row, prepend=-1) > 0, group.row)  # A name that is there twice.
        start = int(group.key[0])
        try:
            name = data[start : start + int(group.key_size[0])].decode()
        except UnicodeDecodeError:
            raise _Odd(group.row) from None
        found.append((name, group))
    return found


def _numbered(digests: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A number from 0 on for each different digest, and where it first stands.

    Sorting some of them and looking all up takes half the time of sorting all; it is enough
    unless a name is rare.
    """
    known = np.unique(digests[:: max(len(digests) // 4096, 1)])
    number = np.minimum(np.searchsorted(known, digests), len(known) - 1)
    if not (known[number] == digests).all():
        _, first, number = np.unique(digests, return_index=True, return_inverse=True)
        return number.reshape(-1), first
    first = np.empty(len(known), np.int64)
    first[number[::-1]] = np.arange(len(digests) - 1, -1, -1)  # The last assignment stays.
    return number, first


# --- Values --------------------------------------------------------------------------------------


def _values(data: bytes, buffer: np.ndarray, group: _Entries, tag: int) -> FeatureBlock:
    rows = group.row
    if tag == 0:
        _need(group.value == group.end, rows)
        return FeatureBlock(_NO_TYPE, rows, np.zeros(len(rows), np.int64), np.zeros(0, np.float32))
    if tag not in _DTYPE_OF_TAG:
        raise _Odd(rows)
    dtype = _DTYPE_OF_TAG[tag]
    start, end, good = _delimited(buffer, group.value, group.end, tag)
    _need(good & (end == group.end), rows)
    if dtype == "string":
        lengths, values = _strings(data, buffer, start, end, rows)
        return FeatureBlock(dtype, rows, lengths, values)
    full = np.flatnonzero(end > start)
    at, stop, good = _delimited(buffer, start[full], end[full], _FIELD_1)
    _need(good & (stop == end[full]), rows[full])
    lengths = np.zeros(len(rows), np.int64)
    if dtype == "float32":
        _need((stop - at) % 4 == 0, rows[full])
        lengths[full] = (stop - at) // 4
        numbers = buffer[_ragged(at, stop - at)].view("<f4").astype(np.float32, copy=False)
    else:
        lengths[full], numbers = _integers(buffer, at, stop, rows[full])
    return FeatureBlock(dtype, rows, lengths, numbers)


def _ragged(starts: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """The places [start, start + size) of each, one after the other."""
    before = np.cumsum(sizes) - sizes
    return np.repeat(starts - before, sizes) + np.arange(int(sizes.sum()))


def _integers(
    buffer: np.ndarray, starts: np.ndarray, ends: np.ndarray, rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Packed varints: how many in each place, and all of them as int64."""
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
    """Repeated bytes: how many in each place, and all of them."""
    lengths = np.zeros(len(at), np.int64)
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
        start, end, good = _delimited(buffer, at, limit, _FIELD_1)
        _need(good, rows[numbers])
        lengths[numbers] += 1
        parts.append((numbers, start, end))
        at = end
    if not parts:
        return lengths, []
    starts, ends = (np.concatenate([part[i] for part in parts]) for i in (1, 2))
    if len(parts) > 1 or which is not None:
        order = np.argsort(np.concatenate([part[0] for part in parts]), kind="stable")
        starts, ends = starts[order], ends[order]
    return lengths, [data[s:e] for s, e in zip(starts.tolist(), ends.tolist())]
