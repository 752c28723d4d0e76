"""The framing of TFRecord files around serialized records, and its checksum, by NumPy.

    length      8 bytes, little-endian
    its CRC     4 bytes
    the record
    its CRC     4 bytes

A CRC is CRC-32C, rotated by 15 bits and added to a constant, as TensorFlow's record_writer.h has
it. Written here so that the processes of a conversion need not load TensorFlow, which takes
seconds and half a GB in each, and because one call a record costs more than the record's making.
The checksums of many records are computed together: records are cut into lanes of 1 KiB, the k-th
8 bytes of all lanes are one step, and lanes are put together again, since CRC is linear.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from input_pipelines.tables.library import arrow

HEADER, FOOTER = 12, 4

_POLYNOMIAL = 0x82F63B78
_LANE = 1024
_PADDING = 8


def _byte_table() -> np.ndarray:
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ np.uint32(_POLYNOMIAL), table >> 1)
    return table.astype(np.uint32)


_BYTE = _byte_table()


def _zero_bytes(state: np.ndarray, count: int) -> np.ndarray:
    """States after so many bytes of 0."""
    for _ in range(count):
        state = _BYTE[state & 0xFF] ^ (state >> np.uint32(8))
    return state


def _word_tables() -> list[np.ndarray]:
    """[4][65536]: what the two bytes at each place of a word of 8 add to the state after it."""
    halves = np.arange(65536, dtype=np.uint32)
    # A state is the next 4 bytes exclusive-or'ed in; two bytes are a state of 16 bits.
    last = _zero_bytes(halves, 2)
    return [_zero_bytes(last, 6 - 2 * place) for place in range(4)]


_WORD = _word_tables()


def _lane_tables() -> list[np.ndarray]:
    """[2][65536]: the two halves of a state, after a lane of zeros.

    By repeated squaring: a state's 32 bits move as a matrix does.
    """
    columns = _zero_bytes(np.uint32(1) << np.arange(32, dtype=np.uint32), 1)
    length = 1
    while length < _LANE:
        columns = _times(columns, columns)
        length *= 2
    halves = np.arange(65536, dtype=np.uint32)
    return [_times(columns, halves), _times(columns, halves << np.uint32(16))]


def _times(columns: np.ndarray, states: np.ndarray) -> np.ndarray:
    """States moved by a linear map, given what it makes of each bit."""
    moved = np.zeros_like(states)
    for bit in range(32):
        moved ^= np.where((states >> np.uint32(bit)) & 1, columns[bit], np.uint32(0))
    return moved.astype(np.uint32)


_AFTER_LANE = _lane_tables()


def crc32c(data: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """uint32 [n]: the CRC-32C of the bytes [start, end) of each place.

    Args:
      data: uint8, contiguous, of which the last 8 bytes belong to no place.
      starts, ends: int64 [n].
    """
    sizes = ends - starts
    # All lanes but the first of a record are whole, so that they can be put together from there.
    lanes = np.maximum(-(-sizes // _LANE), 1)
    first = sizes - (lanes - 1) * _LANE
    owner = np.repeat(np.arange(len(sizes)), lanes)
    number = np.arange(len(owner)) - np.repeat(np.cumsum(lanes) - lanes, lanes)
    at = np.where(number == 0, starts[owner], ends[owner] - (lanes[owner] - number) * _LANE)
    length = np.where(number == 0, first[owner], _LANE)
    state = np.where(number == 0, np.uint32(0xFFFFFFFF), np.uint32(0)).astype(np.uint32)
    state = _lane_states(data, at, length, state)
    if int(lanes.max(initial=1)) == 1:
        return ~state
    heads = np.cumsum(lanes) - lanes
    total = state[heads]
    left = np.flatnonzero(lanes > 1)
    for k in range(1, int(lanes.max())):
        left = left[lanes[left] > k]
        before = total[left]
        total[left] = (
            _AFTER_LANE[0][before & 0xFFFF] ^ _AFTER_LANE[1][before >> np.uint32(16)]
            ^ state[heads[left] + k]
        )  # fmt: skip
    return ~total


def _lane_states(
    data: np.ndarray, at: np.ndarray, length: np.ndarray, state: np.ndarray
) -> np.ndarray:
    """States after the bytes of some lanes."""
    # A view of the 8 bytes from each place on.
    words_at: np.ndarray = np.ndarray((len(data) - 7,), "<u8", data, strides=(1,))
    words = length // 8
    order = np.argsort(-words, kind="stable")  # Those that are done by a step stand behind.
    at, state, words, rest = at[order], state[order], words[order], (length % 8)[order]
    active = np.searchsorted(-words, -np.arange(int(words.max(initial=0))), side="left")
    for k, m in enumerate(active.tolist()):
        word = words_at[at[:m] + 8 * k] ^ state[:m]
        parts = word.view("<u2").reshape(m, 4)
        state[:m] = (
            _WORD[0][parts[:, 0]] ^ _WORD[1][parts[:, 1]]
            ^ _WORD[2][parts[:, 2]] ^ _WORD[3][parts[:, 3]]
        )  # fmt: skip
    at = at + 8 * words
    for k in range(7):
        left = np.flatnonzero(rest > k)
        if not len(left):
            break
        index = (state[left] ^ data[at[left] + k]) & 0xFF
        state[left] = _BYTE[index] ^ (state[left] >> np.uint32(8))
    result = np.empty_like(state)
    result[order] = state
    return result


def masked(crc: np.ndarray) -> np.ndarray:
    """CRCs as TFRecord files hold them."""
    rotated = (crc >> np.uint32(15)) | (crc << np.uint32(17))
    return (rotated + np.uint32(0xA282EAD8)).astype("<u4")


def frames(records: Any) -> tuple[np.ndarray, np.ndarray]:
    """A binary array's records as a TFRecord file has them.

    Returns:
      uint8, all frames one after the other; and int64 [n + 1], where each one starts, and the end.
    """
    pa = arrow()
    count = len(records)
    ends = np.frombuffer(records.buffers()[1], np.int32)[records.offset :][: count + 1]
    sizes = np.diff(ends).astype(np.int64)
    places = np.concatenate([[0], np.cumsum(sizes + HEADER + FOOTER)])
    headers = np.zeros((count, HEADER), np.uint8)
    headers[:, :8] = sizes.astype("<u8").view(np.uint8).reshape(count, 8)
    of_length = np.arange(count, dtype=np.int64) * HEADER
    padded = np.concatenate([headers.reshape(-1), np.zeros(_PADDING, np.uint8)])
    check = masked(crc32c(padded, of_length, of_length + 8))
    headers[:, 8:] = check.view(np.uint8).reshape(count, 4)
    fixed = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(HEADER), count, [None, pa.py_buffer(headers)]
    )
    room = pa.scalar(bytes(FOOTER), pa.binary())
    framed = arrow("compute").binary_join_element_wise(
        fixed.cast(pa.binary()), records, room, pa.scalar(b"", pa.binary())
    )
    content = np.frombuffer(framed.buffers()[2] or b"", np.uint8)[: int(places[-1])]
    data = np.concatenate([content, np.zeros(_PADDING, np.uint8)])
    footers = places[1:] - FOOTER
    check = masked(crc32c(data, places[:-1] + HEADER, footers)).view(np.uint8).reshape(count, 4)
    data[footers[:, None] + np.arange(FOOTER)] = check
    return data[: int(places[-1])], places
