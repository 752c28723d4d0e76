"""Every record belongs to exactly one shard, whatever the number of files and workers."""

from __future__ import annotations

import random

import hypothesis
import pytest
from hypothesis import strategies as st

from input_pipelines.record_files import tfrecords, writing
from input_pipelines.record_files.sharding import Shard


def read(files, shard):
    blocks = tfrecords.blocks(*shard.deal(files))
    return [record for block in blocks.as_numpy_iterator() for record in block]


@pytest.mark.ci
@hypothesis.settings(max_examples=8, deadline=None)
@hypothesis.given(
    sizes=st.lists(st.integers(0, 9), min_size=1, max_size=6),
    workers=st.integers(1, 7),
    seed=st.integers(0, 99),
)
def test_each_record_is_read_by_one_worker(tmp_path_factory, sizes, workers, seed):
    folder = tmp_path_factory.mktemp("shards")
    files, written = [], []
    for i, size in enumerate(sizes):
        # An empty file is not a valid TFRecord file; a GZIP file without records is one.
        files.append(f"{folder}/{i}.tfrecord{'' if size else '.gz'}")
        writing.write_examples(files[-1], [{"row": 100 * i + j} for j in range(size)])
    written = sorted(read(sorted(files), Shard()))
    found = []
    for index in range(workers):
        listed = random.Random(seed + index).sample(files, len(files))  # In another order.
        found += read(listed, Shard(workers, index))
    assert len(written) == sum(sizes)
    assert sorted(found) == written


def test_files_are_dealt_out_by_their_sizes():
    sizes = {"a": 40, "b": 10, "c": 30, "d": 20, "e": 0}
    files = ["e", "b", "a", "d", "c"]
    # a: 40, c: 30; d goes to c's shard (50), b to a's shard (50), and the empty e to the first.
    assert Shard(2, 0).deal(files, sizes) == (["a", "b", "e"], Shard())
    assert Shard(2, 1).deal(files, sizes) == (["c", "d"], Shard())
    assert Shard().deal(files) == (sorted(files), Shard())


def test_records_are_dealt_out_where_files_are_few_or_uneven():
    assert Shard(4, 3).deal(["b", "a", "c"]) == (["a", "b", "c"], Shard(4, 3))
    sizes = {"a": 10, "b": 30}
    assert Shard(2, 1).deal(["b", "a"], sizes) == (["a", "b"], Shard(2, 1))
    assert Shard(2, 1).deal(["b", "a"], sizes, whole=True) == (["a"], Shard())
    # Up to 1.25 times the mean counts as even.
    assert Shard(2, 1).deal(["b", "a"], {"a": 30, "b": 50}) == (["a"], Shard())


def test_sizes_are_looked_up(tmp_path):
    for name, size in {"a": 1, "b": 9, "c": 8}.items():
        (tmp_path / name).write_bytes(b"x" * size)
    files = [f"{tmp_path}/{name}" for name in "abc"]
    assert Shard(2, 1).deal(files) == (files[::2], Shard())


@pytest.mark.parametrize(("count", "index"), [(0, 0), (2, 2), (2, -1)])
def test_an_invalid_shard_is_refused(count, index):
    with pytest.raises(ValueError, match="expected an index below count"):
        Shard(count, index)
