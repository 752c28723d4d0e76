"""Samples of files: what they read, and which changes they see."""

from __future__ import annotations

import gzip
import hashlib
import os
import random

import pytest
import tensorflow as tf

from input_pipelines.record_files import file_bytes, writing
from input_pipelines.record_files.sharding import sizes_of

CONTENT = random.Random(1).randbytes(100_000)


def sample(path) -> str:
    return file_bytes.samples_of(sizes_of([str(path)]))[str(path)]


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


@pytest.mark.parametrize("size", [0, 1, 4096, 32_768])
def test_a_small_file_is_read_whole(tmp_path, size):
    (tmp_path / "a").write_bytes(CONTENT[:size])
    assert sample(tmp_path / "a") == digest(CONTENT[:size])


def test_of_a_large_file_eight_blocks_are_read(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(CONTENT)
    # 95,904 bytes are before the last block; a seventh of them is 13,700.57.
    places = (0, 13_700, 27_401, 41_101, 54_802, 68_502, 82_203, 95_904)
    expected = digest(b"".join(CONTENT[place : place + 4096] for place in places))
    assert sample(path) == expected
    for place in (0, 41_101 + 4095, 99_999):
        changed = bytearray(CONTENT)
        changed[place] ^= 1
        path.write_bytes(changed)
        assert sample(path) != expected
    changed = bytearray(CONTENT)
    changed[5000] ^= 1  # Between two blocks.
    path.write_bytes(changed)
    assert sample(path) == expected


def test_times_and_spellings_do_not_count(tmp_path, monkeypatch):
    (tmp_path / "a").write_bytes(CONTENT)
    monkeypatch.chdir(tmp_path)
    first = sample("a")
    os.utime("a", (0, 0))
    assert {sample(p) for p in ("a", tmp_path / "a", f"file://{tmp_path}/a")} == {first}


@pytest.mark.parametrize("name", ["a.tfrecord", "a.tfrecord.gz"])
def test_rows_in_another_order_are_another_sample(tmp_path, name):
    rows = [{"row": n} for n in random.Random(2).sample(range(128, 16_384), 2000)]
    path, sizes, samples = tmp_path / name, set(), set()
    for order in (rows, [*rows[1000:], *rows[:1000]]):
        writing.write_examples(str(path), order)
        sizes.add(path.stat().st_size)
        samples.add(sample(path))
    assert len(samples) == 2
    assert name.endswith(".gz") or len(sizes) == 1


def test_of_a_file_in_a_store_only_the_end_is_read():
    packed = gzip.compress(b"small", mtime=0)
    expected = {CONTENT: CONTENT[-32_768:], b"x" + CONTENT: CONTENT[-32_768:], packed: packed}
    for i, (content, end) in enumerate(expected.items()):
        path = f"ram://samples/{i}"
        with tf.io.gfile.GFile(path, "wb") as file:
            file.write(content)
        assert sample(path) == digest(end)


def test_a_file_that_cannot_be_read_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        file_bytes.samples_of({f"{tmp_path}/a": 1})
    with pytest.raises(tf.errors.OpError):
        file_bytes.samples_of({"ram://samples/none": 1})
    assert file_bytes.samples_of({}) == {}
