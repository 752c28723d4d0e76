"""Finds lengths that would make TensorFlow allocate much memory, or all of it, and die."""

from __future__ import annotations

import gzip

import pytest
import tensorflow as tf

from input_pipelines.errors import DataError
from input_pipelines.integrity import data_scan
from input_pipelines.record_files import (
    file_lengths,
    framing,
    record_lists,
    record_scanner,
    tfrecords,
    writing,
)
from input_pipelines.record_files.sharding import Shard
from tests.conftest import make_rows
from tests.input_pipelines.record_files.test_record_scanner import checksum, frame

GOOD = [writing.example(row).SerializeToString() for row in make_rows(3)]
BEFORE = b"".join(map(frame, GOOD))


def header(length: int) -> bytes:
    """The first twelve bytes of a record. With 2^36 or more, they are enough to end TensorFlow."""
    stored = length.to_bytes(8, "little")
    return stored + checksum(stored)


def check_one_bad_record(path, message):
    """All readers refuse the record between two times `BEFORE`, and a scan loses nothing else."""
    for read in (tfrecords.blocks, record_lists.first_records, tfrecords.count_records):
        with pytest.raises(DataError) as error:
            read([path])
        assert str(error.value) == message
    report = data_scan.scan([path])[0]
    assert (report.records, report.bad_records) == (7, 1)
    blocks = list(tfrecords.blocks([path], damaged={path: report.left_out}))
    assert [record for block in blocks for record in block.numpy()] == GOOD * 2


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
        f"{path}: record 3 at {byte} {len(BEFORE)}: its length is {length:,} bytes, expected at "
        f"most 67,108,864; 62 bytes are lost, up to the next record at byte {len(BEFORE) + 62}"
    )
    check_one_bad_record(path, message)


@pytest.mark.parametrize("name", ["a.tfrecord", "a.tfrecord.gz"])
def test_errors_that_tensorflow_reports_are_left_to_it(tmp_path, name):
    """A file is intact, is truncated, or has a wrong checksum before a very large length."""
    path = tmp_path / name
    wrong = bytearray(header(2**40))
    wrong[8] ^= 1
    for data in (BEFORE, BEFORE[:-5], b"", BEFORE + bytes(wrong), BEFORE + header(2**26)):
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        assert not file_lengths.has_too_large(str(path))
    path.write_bytes(b"\x1f\x8b\x08 no more of it")
    assert not file_lengths.has_too_large(str(path))


@pytest.mark.parametrize("name", ["a.tfrecord", "a.tfrecord.gz"])
def test_a_record_has_a_largest_size(tmp_path, monkeypatch, name):
    """The record is all there, and TensorFlow could read it. Nothing else is lost."""
    for module in (file_lengths, record_scanner, tfrecords):
        monkeypatch.setattr(module, "LARGEST_RECORD", 1000)
    path = str(tmp_path / name)

    def write(size):
        data = BEFORE + frame(bytes(size)) + BEFORE
        with open(path, "wb") as file:
            file.write(gzip.compress(data) if name.endswith(".gz") else data)

    write(1000)
    assert [r for block in tfrecords.blocks([path]) for r in block.numpy()] == [
        *GOOD, bytes(1000), *GOOD
    ]  # fmt: skip
    write(1001)
    byte = "unpacked byte" if name.endswith(".gz") else "byte"
    message = (
        f"{path}: record 3 at {byte} {len(BEFORE)}: its length is 1,001 bytes, expected at most "
        f"1,000; 1,017 bytes are lost, up to the next record at byte {len(BEFORE) + 1017}"
    )
    check_one_bad_record(path, message)
    # The graph finds it too where a file was not looked at before, because it is remote.
    monkeypatch.setattr(file_lengths, "has_too_large", lambda path: False)
    with pytest.raises(tf.errors.InvalidArgumentError, match="a record has more than 1000 bytes"):
        list(tfrecords.blocks([path]))


def test_nothing_writes_a_record_that_is_too_large(tmp_path, monkeypatch):
    monkeypatch.setattr(writing, "LARGEST_RECORD", 100)
    monkeypatch.setattr(framing, "LARGEST_RECORD", 100)
    framing._header.cache_clear()
    path = str(tmp_path / "a.tfrecord")
    size = len(writing.example({"a": 98 * "x"}).SerializeToString())
    with pytest.raises(ValueError, match=rf"a\.tfrecord: row 1: it has {size} bytes, expected at "
                                         r"most 100\. Leave out"):  # fmt: skip
        writing.write_examples(path, [{"a": "x"}, {"a": 98 * "x"}])
    assert not tf.io.gfile.exists(path)
    framing.framed([bytes(100)])
    with pytest.raises(DataError, match=r"a record would have 101 bytes, expected at most 100\."):
        framing.framed([bytes(101)])


def test_a_record_may_be_as_long_as_its_file(tmp_path):
    path = str(tmp_path / "a.tfrecord")
    with open(path, "wb") as file:
        file.write(BEFORE + header(2**26))
        file.truncate(len(BEFORE) + 12 + 2**26 + 4)  # A hole, which takes no disk space.
    assert not file_lengths.has_too_large(path)
    with open(path, "ab") as file:
        file.write(header(2**40))
    assert file_lengths.has_too_large(path)


def test_a_walk_crosses_the_pieces_that_it_reads(tmp_path, monkeypatch):
    monkeypatch.setattr(file_lengths, "_CHUNK", 37)
    for name in ("a.tfrecord", "b.tfrecord.gz"):
        path = tmp_path / name
        for data, found in ((BEFORE * 9, False), (BEFORE * 9 + header(2**40), True)):
            path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
            assert file_lengths.has_too_large(str(path)) == found


def test_too_many_bytes_are_not_checked(tmp_path, monkeypatch):
    path = str(tmp_path / "a.tfrecord")
    with open(path, "wb") as file:
        file.write(BEFORE + header(2**40))
    monkeypatch.setattr(file_lengths, "_MOST", len(BEFORE))
    file_lengths.check([path])
    assert data_scan.scan([path])[0].bad_records == 1
    assert tf.io.gfile.exists(path)


@pytest.mark.parametrize("chunk", [16, 61, 2**22])
def test_records_are_counted_by_their_lengths(tmp_path, monkeypatch, chunk):
    """Also where a header, a payload or several records lie across the pieces that are read."""
    monkeypatch.setattr(file_lengths, "_CHUNK", chunk)
    payloads = [bytes(n) for n in (0, 1, 200, 16, 0, 61, 45, 12)]
    path = tmp_path / "a.tfrecord"
    path.write_bytes(b"".join(map(frame, payloads)))
    assert file_lengths.count(str(path)) == len(payloads)
    shards = [tfrecords.count_records([str(path)] * 2, Shard(3, i)) for i in range(3)]
    assert shards == [6, 6, 4]  # Places 0, 3, 6; 1, 4, 7; 2, 5: in each of the two.


def test_files_that_have_to_be_read_are_not_counted_by_their_lengths(tmp_path):
    wrong = bytearray(header(5) + bytes(9))
    wrong[8] ^= 1
    path = tmp_path / "a.tfrecord"
    for data in (b"", BEFORE[:-1], BEFORE + b"\0", BEFORE + bytes(wrong), BEFORE + header(2**40)):
        path.write_bytes(data)
        assert file_lengths.count(str(path)) is None
    packed = tmp_path / "a.tfrecord.gz"
    packed.write_bytes(gzip.compress(BEFORE))
    assert file_lengths.count(str(packed)) is None
    assert file_lengths.count("memory://a.tfrecord") is None
    assert file_lengths.count(str(tmp_path / "absent")) is None


def test_counting_reads_no_payload(tmp_path):
    """A wrong payload is counted, and reported when the record is read."""
    path = tmp_path / "a.tfrecord"
    data = bytearray(BEFORE)
    data[-10] ^= 1
    path.write_bytes(data)
    assert tfrecords.count_records([str(path)]) == 3
    with pytest.raises(tf.errors.DataLossError):
        list(tfrecords.blocks([str(path)]))


def test_a_file_that_changes_is_counted_again(tmp_path):
    path = tmp_path / "a.tfrecord"
    path.write_bytes(BEFORE)
    assert file_lengths.count(str(path)) == 3
    path.write_bytes(BEFORE * 2)
    assert file_lengths.count(str(path)) == 6


def test_a_row_that_is_no_text_is_named(tmp_path):
    path = str(tmp_path / "a.tfrecord")
    with pytest.raises(ValueError, match=r"a\.tfrecord: row 1: .* surrogates not allowed"):
        writing.write_examples(path, [{"a": "x"}, {"a": "\ud800"}])
