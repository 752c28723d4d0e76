"""Lists of records equal what tf.data reads, and both refuse the same files."""

from __future__ import annotations

import gc
import gzip
import os
import random

import pytest
import tensorflow as tf

from input_pipelines.errors import DataError
from input_pipelines.record_files import framing, record_lists, tfrecords


def written(path, sizes, members=1):
    """Records of these sizes; in GZIP members if the path ends in .gz."""
    records = [bytes([i % 256]) * size for i, size in enumerate(sizes)]
    stored = framing.framed(records)
    if path.name.endswith(".gz"):
        cuts = [len(stored) * i // members for i in range(members + 1)]
        pieces = [slice(*pair) for pair in zip(cuts, cuts[1:])]
        stored = b"".join(gzip.compress(stored[piece]) for piece in pieces)
    path.write_bytes(stored)
    return records


def read(lists):
    """(The records, the class of the error at the end)"""
    records = []
    try:
        for part in lists:
            records += part
    except (DataError, *tfrecords.READ_ERRORS) as error:
        return records, type(error)
    return records, None


def of_tf_data(files, size, damaged=tfrecords.NO_DAMAGE):
    for block in tfrecords.blocks(files, damaged=damaged).rebatch(size):
        yield block.numpy().tolist()


@pytest.mark.parametrize("name", ["a", "a.gz"])
@pytest.mark.parametrize("size", [1, 7, 1024, 5000])
def test_any_files_in_lists_of_any_size(tmp_path, name, size):
    each = [tmp_path / f"{i}{name}" for i in range(4)]
    counts = (3, 1024, 1, 2100)
    expected = [r for path, n in zip(each, counts) for r in written(path, range(n))]
    lists = list(record_lists.of_files(list(map(str, each)), size))
    assert [r for part in lists for r in part] == expected
    assert {len(part) for part in lists[:-1]} <= {size} and 0 < len(lists[-1]) <= size
    assert lists == list(of_tf_data(list(map(str, each)), size))


def test_members_of_gzip_and_files_without_records(tmp_path):
    path, empty, nothing = (tmp_path / name for name in ("a.gz", "b.gz", "c"))
    expected = written(path, range(50), members=3)
    written(empty, [])
    assert list(record_lists.of_files([str(path), str(empty)])) == [expected]
    nothing.write_bytes(b"")
    for lists in (record_lists.of_files([str(nothing)]), of_tf_data([str(nothing)], 9)):
        assert read(lists) == ([], tf.errors.InvalidArgumentError)


@pytest.mark.parametrize("name", ["a", "a.gz"])
@pytest.mark.parametrize("seed", range(40))
def test_damage_anywhere(tmp_path, name, seed):
    draw = random.Random(seed)
    path = tmp_path / name
    records = written(path, [draw.randrange(200) for _ in range(20)])
    stored = bytearray(path.read_bytes())
    if seed % 2:
        del stored[draw.randrange(len(stored)) :]
    else:
        stored[draw.randrange(len(stored))] ^= 1 << draw.randrange(8)
    path.write_bytes(stored)
    ours, theirs = read(record_lists.of_files([str(path)])), read(of_tf_data([str(path)], 1024))
    assert (ours[1] is None) == (theirs[1] is None)
    assert ours[0] == theirs[0][: len(ours[0])]  # A block before the damage may be missing.
    assert ours[1] is not None or ours[0] == records  # Bits of a header of GZIP may say nothing.
    damaged = {str(path): frozenset({1})}
    found = read(record_lists.of_files([str(path)], 6, damaged=damaged))
    assert found == read(of_tf_data([str(path)], 6, damaged)) and found[1] is None


def test_a_good_file_before_a_damaged_one(tmp_path):
    first, second = tmp_path / "a", tmp_path / "b"
    expected = written(first, range(10))
    written(second, range(10))
    second.write_bytes(second.read_bytes()[:-1])
    lists = record_lists.of_files([str(first), str(second)], 5)
    assert [next(lists), next(lists)] == [expected[:5], expected[5:]]
    with pytest.raises(tfrecords.READ_ERRORS):
        next(lists)


def test_a_missing_file_and_a_record_that_is_too_large(tmp_path, monkeypatch):
    with pytest.raises(tf.errors.NotFoundError):
        next(record_lists.of_files([str(tmp_path / "missing")]))
    path = tmp_path / "a"
    written(path, [10, 1000])
    monkeypatch.setattr(record_lists, "LARGEST_RECORD", 999)
    with pytest.raises(tf.errors.InvalidArgumentError, match="a record has more than 999 bytes"):
        next(record_lists.of_files([str(path)]))


def test_the_first_records_leave_no_file_open(tmp_path):
    paths = [tmp_path / f"{i}{end}" for i in range(30) for end in ("", ".gz")]
    for path in paths:
        written(path, [1000] * 100)
    gc.disable()
    try:
        before = len(os.listdir("/proc/self/fd"))
        found = record_lists.first_records(list(map(str, paths)))
        assert len(os.listdir("/proc/self/fd")) <= before
    finally:
        gc.enable()
    assert [len(records) for records in found.values()] == [64] * 60


def test_reading_inside_a_graph(tmp_path):
    path = tmp_path / "a"
    expected = written(path, range(10))
    with tf.Graph().as_default() as graph:
        assert list(record_lists.of_files([str(path)])) == [expected]
        assert not graph.get_operations()
