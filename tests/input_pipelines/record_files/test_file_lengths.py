"""Finds lengths that would make TensorFlow allocate too much memory and die."""

from __future__ import annotations

import gzip

import pytest
import tensorflow as tf

from input_pipelines.errors import DataError
from input_pipelines.integrity import data_scan
from input_pipelines.record_files import file_lengths, tfrecords, writing
from tests.conftest import make_rows
from tests.input_pipelines.record_files.test_record_scanner import checksum, frame

GOOD = [writing.example(row).SerializeToString() for row in make_rows(3)]
BEFORE = b"".join(map(frame, GOOD))


def header(length: int) -> bytes:
    """The first twelve bytes of a record. With 2^36 or more, they are enough to end TensorFlow."""
    stored = length.to_bytes(8, "little")
    return stored + checksum(stored)


@pytest.mark.parametrize("length", [2**40, 2**62, 2**64 - 1])
@pytest.mark.parametrize("name", ["a.tfrecord", "a.tfrecord.gz"])
def test_a_length_beyond_the_file_is_a_bad_record(tmp_path, name, length):
    data = BEFORE + header(length) + bytes(50) + BEFORE
    path = str(tmp_path / name)
    packed = name.endswith(".gz")
    with open(path, "wb") as file:
        file.write(gzip.compress(data) if packed else data)
    byte = "unpacked byte" if packed else "byte"
    message = (
        f"{path}: record 3 at {byte} {len(BEFORE)}: it is cut off: the file has only "
        f"{62 + len(BEFORE)} of its {16 + length:,} bytes; 62 bytes are lost, up to the next "
        f"record at byte {len(BEFORE) + 62}"
    )
    for read in (tfrecords.blocks, tfrecords.first_records, tfrecords.count_records):
        with pytest.raises(DataError) as error:
            read([path])
        assert str(error.value) == message
    report = data_scan.scan([path])[0]
    assert (report.records, report.bad_records) == (7, 1)
    blocks = list(tfrecords.blocks([path], damaged={path: report.left_out}))
    assert [record for block in blocks for record in block.numpy()] == GOOD * 2


@pytest.mark.parametrize("name", ["a.tfrecord", "a.tfrecord.gz"])
def test_errors_that_tensorflow_reports_are_left_to_it(tmp_path, name):
    """A file is intact, is truncated, or has a wrong checksum before a very large length."""
    path = tmp_path / name
    wrong = bytearray(header(2**40))
    wrong[8] ^= 1
    for data in (BEFORE, BEFORE[:-5], b"", BEFORE + bytes(wrong), BEFORE + header(2**29)):
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        assert not file_lengths.says_too_much(str(path))
    path.write_bytes(b"\x1f\x8b\x08 no more of it")
    assert not file_lengths.says_too_much(str(path))


def test_a_record_may_be_as_long_as_its_file(tmp_path):
    path = str(tmp_path / "a.tfrecord")
    with open(path, "wb") as file:
        file.write(BEFORE + header(2**30))
        file.truncate(len(BEFORE) + 12 + 2**30 + 4)  # A hole, which takes no disk space.
    assert not file_lengths.says_too_much(path)
    with open(path, "ab") as file:
        file.write(header(2**40))
    assert file_lengths.says_too_much(path)


def test_a_walk_crosses_the_pieces_that_it_reads(tmp_path, monkeypatch):
    monkeypatch.setattr(file_lengths, "_CHUNK", 37)
    for name in ("a.tfrecord", "b.tfrecord.gz"):
        path = tmp_path / name
        for data, found in ((BEFORE * 9, False), (BEFORE * 9 + header(2**40), True)):
            path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
            assert file_lengths.says_too_much(str(path)) == found


def test_too_many_bytes_are_not_checked(tmp_path, monkeypatch):
    path = str(tmp_path / "a.tfrecord")
    with open(path, "wb") as file:
        file.write(BEFORE + header(2**40))
    monkeypatch.setattr(file_lengths, "_MOST", len(BEFORE))
    file_lengths.check([path])
    assert data_scan.scan([path])[0].bad_records == 1
    assert tf.io.gfile.exists(path)
