"""Scans hand-made damaged TFRecord files: which records are read, how the rest is described."""

from __future__ import annotations

import gzip
import pathlib
import zlib

import google_crc32c
import numpy as np
import pytest
import tensorflow as tf

from input_pipelines.record_files import file_bytes, framing, record_scanner
from input_pipelines.record_files.record_scanner import BadRecord, Record

# Ten payloads of 20 + i bytes, with bytes that text functions would lose. Record i has 36 + i bytes
# and begins at 36 i + i (i - 1) / 2.
PAYLOADS = [bytes([0, 10, 255]) + bytes([65 + i]) * (16 + i) + b"\0" for i in range(10)]
SIZE = 10 * 36 + 45
HINT = (
    ". Is it a TFRecord file, and compressed as its name says? (The names of tables end in .csv, "
    ".tsv, .json, .jsonl, .parquet, .svm, .svmlight, .libsvm or .txt.)"
)


def begin(i: int) -> int:
    return 36 * i + i * (i - 1) // 2


def frame(payload: bytes) -> bytes:
    """A record as the description of the format defines it."""
    length = len(payload).to_bytes(8, "little")
    return b"".join([length, checksum(length), payload, checksum(payload)])


def checksum(data: bytes) -> bytes:
    crc = google_crc32c.value(data)
    return ((((crc >> 15) | (crc << 17)) + 0xA282EAD8) % 2**32).to_bytes(4, "little")


WHOLE = b"".join(map(frame, PAYLOADS))


@pytest.fixture
def found(tmp_path):
    """Returns a function: the numbers of the good records, and a sentence for each bad one."""

    def scan(data: bytes, name: str = "a.tfrecord"):
        path = tmp_path / name
        path.write_bytes(data)
        events = list(record_scanner.scan(str(path)))
        assert [event.number for event in events] == list(range(len(events)))
        good = [event for event in events if isinstance(event, Record)]
        bad = [event for event in events if isinstance(event, BadRecord)]
        # Good records are what TensorFlow would have read from an intact file.
        return [PAYLOADS.index(record.payload) for record in good], [b.sentence for b in bad]

    return scan


def flipped(data: bytes, place: int, bit: int = 3) -> bytes:
    changed = bytearray(data)
    changed[place] ^= 1 << bit
    return bytes(changed)


def without(*numbers: int) -> list[int]:
    return [i for i in range(10) if i not in numbers]


def test_these_are_the_bytes_of_tensorflow(tmp_path):
    path = str(tmp_path / "a.tfrecord")
    with tf.io.TFRecordWriter(path) as writer:
        for payload in PAYLOADS:
            writer.write(payload)
    assert pathlib.Path(path).read_bytes() == WHOLE
    assert len(WHOLE) == SIZE == begin(10)


@pytest.mark.parametrize("name", ["a.tfrecord", "a.tfrecord.gz"])
def test_a_whole_file(found, name):
    data = gzip.compress(WHOLE) if name.endswith(".gz") else WHOLE
    assert found(data, name) == (without(), [])


@pytest.mark.parametrize("place", [0, 7, 8, 11])
def test_a_wrong_length_or_its_checksum(found, place):
    assert found(flipped(WHOLE, begin(4) + place)) == (
        without(4),
        ["record 4 at byte 150: the checksum of its length is wrong; 40 bytes are lost, up to the "
         "next record at byte 190"],
    )  # fmt: skip


@pytest.mark.parametrize("place", [12, 35, 36, 39])
def test_a_wrong_payload_or_its_checksum(found, place):
    expected = ["record 4 at byte 150: the checksum of its payload of 24 bytes is wrong"]
    assert found(flipped(WHOLE, begin(4) + place)) == (without(4), expected)


def test_the_last_length(found):
    assert found(flipped(WHOLE, begin(9))) == (
        without(9),
        ["record 9 at byte 360: the checksum of its length is wrong; 45 bytes are lost, up to the "
         "end of the file"],
    )  # fmt: skip


def test_two_neighbors(found):
    data = flipped(flipped(WHOLE, begin(4) + 20), begin(5))
    assert found(data) == (
        without(4, 5),
        ["record 4 at byte 150: the checksum of its payload of 24 bytes is wrong",
         "record 5 at byte 190: the checksum of its length is wrong; 41 bytes are lost, up to the "
         "next record at byte 231"],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("end", "good", "reason"),
    [
        (begin(4), 4, None),
        (begin(4) + 5, 4, "the file has only 5 of its first 12 bytes"),
        (begin(4) + 12, 4, "the file has only 12 of its 40 bytes"),
        (SIZE - 1, 9, "the file has only 44 of its 45 bytes"),
    ],
)
def test_a_file_cut_short(found, end, good, reason):
    expected = [] if reason is None else [f"record {good} at byte {begin(good)}: it is cut off: "
                                          f"{reason}"]  # fmt: skip
    assert found(WHOLE[:end]) == (list(range(good)), expected)


def test_bytes_that_are_missing_inside(found):
    # The end of record 4 and all but the end of record 6.
    assert found(WHOLE[: begin(4) + 30] + WHOLE[begin(7) - 4 :]) == (
        without(4, 5, 6),
        ["record 4 at byte 150: the checksum of its payload of 24 bytes is wrong"],
    )
    # Bytes of the last record are missing, so that it would end after the end of the file.
    assert found(WHOLE[: begin(8) + 10] + WHOLE[begin(8) + 11 :]) == (
        without(8),
        ["record 8 at byte 316: the checksum of its length is wrong; 43 bytes are lost, up to the "
         "next record at byte 359"],
    )  # fmt: skip


def test_a_stretch_of_zeros(found):
    data = WHOLE[: begin(3)] + bytes(begin(6) - begin(3)) + WHOLE[begin(6) :]
    assert found(data) == (
        without(3, 4, 5),
        ["record 3 at byte 111: the checksum of its length is wrong; 120 bytes are lost, up to the "
         "next record at byte 231"],
    )  # fmt: skip


def test_a_long_stretch_is_searched_piece_by_piece(found):
    gap = np.random.default_rng(0).bytes(600_000)
    good, bad = found(WHOLE[: begin(3)] + gap + WHOLE[begin(3) :])
    assert good == without()
    assert bad == [
        "record 3 at byte 111: the checksum of its length is wrong; 600,000 bytes are lost, up to "
        "the next record at byte 600111"
    ]


def test_a_file_without_a_byte(found):
    for name in ("a.tfrecord", "a.tfrecord.gz"):
        assert found(b"", name) == ([], ["record 0 at byte 0: the file is empty: it has 0 bytes"])


def test_another_compression_than_the_name_says(found):
    assert found(gzip.compress(WHOLE)) == (
        [],
        ["record 0 at byte 0: the file is GZIP, but its name does not end in .gz or .gzip" + HINT],
    )
    assert found(WHOLE, "a.gz") == (
        [], ["record 0 at byte 0: the file is not GZIP, but its name ends in .gz or .gzip" + HINT],
    )  # fmt: skip


def test_no_tfrecord_file_at_all(found):
    wrong = "record 0 at byte 0: the checksum of its length is wrong; 400 bytes are lost, up to"
    assert found(b"a,b\n" * 100) == ([], [f"{wrong} the end of the file{HINT}"])


def packed(*, level: int = 0) -> bytes:
    """WHOLE as GZIP; not compressed by default, so that all bytes are at known places.

    The file header has 10 bytes, the block header 5, and the trailer 8.
    """
    packer = zlib.compressobj(level, zlib.DEFLATED, 31)
    return packer.compress(WHOLE) + packer.flush()


@pytest.mark.parametrize("end", [1, 5, 12])
def test_gzip_cut_before_the_first_record(found, end):
    cut = "record 0 at unpacked byte 0: the GZIP stream is cut off here"
    assert found(packed()[:end], "a.gz") == ([], [cut])


def test_gzip_cut_between_two_records_and_inside_one(found):
    for end in (15 + begin(4), 15 + begin(4) + 7, 15 + begin(5) - 1):
        assert found(packed()[:end], "a.gz") == (
            [0, 1, 2, 3], ["record 4 at unpacked byte 150: the GZIP stream is cut off here"],
        )  # fmt: skip


def test_gzip_cut_behind_the_last_record(found):
    assert found(packed()[:-3], "a.gz") == (
        without(), ["record 10 at unpacked byte 405: the GZIP stream is cut off here"],
    )  # fmt: skip


def test_gzip_with_a_flipped_bit(found):
    # In a payload: zlib notices it only at the end, the checksum of the record immediately.
    error = "Error -3 while decompressing data: incorrect data check"
    assert found(flipped(packed(), 15 + begin(4) + 20), "a.gz") == (
        without(4),
        ["record 4 at unpacked byte 150: the checksum of its payload of 24 bytes is wrong",
         f"record 10 at unpacked byte 405: the GZIP stream is broken here: {error}"],
    )  # fmt: skip


def test_gzip_keeps_what_came_before_a_break(found):
    # Two members, the second of which has an impossible block at its start.
    second = bytearray(packed())
    second[10] = 0xFF
    good, bad = found(packed(level=9) + bytes(second), "a.gz")
    assert good == without()
    assert bad == [
        "record 10 at unpacked byte 405: the GZIP stream is broken here: Error -3 while "
        "decompressing data: invalid block type"
    ]
    # If a stored block is broken at its end, the bytes of the blocks before it are kept.
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    start = packer.compress(WHOLE) + packer.flush(zlib.Z_FULL_FLUSH)
    assert found(start + b"\xff", "a.gz")[0] == without()


def test_gzip_of_several_members(found):
    halves = gzip.compress(WHOLE[: begin(5)]) + gzip.compress(WHOLE[begin(5) :])
    assert found(halves, "a.gz") == (without(), [])
    assert found(halves + b"\0\0", "a.gz") == (
        without(),
        ["record 10 at unpacked byte 405: the GZIP stream is broken here: Error -3 while "
         "decompressing data: incorrect header check"],
    )  # fmt: skip


def test_the_first_header_is_found_wherever_it_is():
    random = np.random.default_rng(1)
    header = frame(b"x")[:12]
    for before in (0, 1, 7, 1000):
        data = random.bytes(before) + header + random.bytes(20)
        assert framing.first_header(data) == before
    assert framing.first_header(header[:11]) is None
    assert framing.first_header(bytes(1000)) is None


@pytest.mark.parametrize("members", [1, 2])
def test_the_length_of_gzip_files(tmp_path, members):
    path = tmp_path / "a.gz"
    path.write_bytes(packed() * members)
    assert file_bytes.gzip_length(str(path)) == members * SIZE
    assert file_bytes.reached_end(str(path), members * SIZE)
    assert not file_bytes.reached_end(str(path), members * SIZE - 36)
    path.write_bytes((packed() * members)[:-1])
    assert file_bytes.gzip_length(str(path)) is None
    assert not file_bytes.reached_end(str(path), members * SIZE)
