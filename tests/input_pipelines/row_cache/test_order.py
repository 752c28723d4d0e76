"""The order of rows is the same with and without a cache, cold or warm, and after a restart."""

from __future__ import annotations

import os
from unittest import mock

import hypothesis
import pytest
import tensorflow as tf
from hypothesis import strategies as st

from input_pipelines.reading import shuffling
from input_pipelines.record_files import tfrecords, writing
from input_pipelines.row_cache.cache import RowCache
from tests.input_pipelines.inputs import training
from tests.input_pipelines.reading.test_exactly_once import SPEC, row_numbers, write


@pytest.fixture(autouse=True)
def small_blocks():
    with (
        mock.patch.object(tfrecords, "BLOCK", 4),
        mock.patch.object(shuffling, "WINDOW", 16),
        mock.patch.object(shuffling, "BLOCK_BUFFER", 5),
    ):
        yield


@pytest.mark.ci
@hypothesis.settings(
    max_examples=3,
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture],
)
@hypothesis.given(
    sizes=st.lists(st.integers(0, 40), min_size=1, max_size=40).filter(any),
    are_plain=st.booleans(),
    shuffle=st.booleans(),
    seed=st.integers(0, 2**40),
    stored=st.floats(0, 1),
    interrupted=st.floats(0, 1),
)
def test_the_order_does_not_depend_on_what_is_stored(
    tmp_path_factory, sizes, are_plain, shuffle, seed, stored, interrupted
):
    folder = tmp_path_factory.mktemp("order")
    files = write(folder, [size for size in sizes if size] if are_plain else sizes)
    if are_plain:
        for path in [path for path in files if path.endswith(".gz")]:
            records = [record for block in tfrecords.blocks([path]) for record in block.numpy()]
            os.unlink(path)
            files[files.index(path)] = path = path.removesuffix(".gz")
            with tf.io.TFRecordWriter(path) as writer:
                for record in records:
                    writer.write(record)
    options = {"batch_size": 7, "seed": seed, "shuffle": shuffle}
    with RowCache(f"{folder}/cache", limit=10**9) as cache:
        some = files[: 1 + int(stored * len(files))]
        for _ in cache.rows(SPEC).blocks(some, interleaved=False):
            pass

    def read(skip, cache=None):
        return row_numbers(
            training(
                SPEC, files, **options, epochs=2, cache=cache, skip_rows=skip, rows_an_epoch=total
            )
        )

    total = sum(sizes)
    expected = read(0)
    assert sorted(expected) == sorted(2 * [*range(total)])
    skip = int(interrupted * 2 * total)
    assert read(skip) == expected[skip:]
    for _ in range(2):  # Partly stored, then warm.
        with RowCache(f"{folder}/cache", limit=10**9) as cache:
            assert read(skip, cache) == expected[skip:]
            assert read(0, cache) == expected


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("is_cached", [True, False])
def test_a_restart_does_not_read_what_it_skips(tmp_path, shuffle, is_cached):
    path = f"{tmp_path}/rows.tfrecord"
    writing.write_examples(path, [{"x": i % 10, "row": float(i)} for i in range(400)])
    opened = []
    records_at = tfrecords.records_at

    def seen(path, offset, count):
        def note(offset):
            opened.append(int(offset))
            return offset

        return records_at(path, tf.numpy_function(note, [offset], tf.int64), count)

    with RowCache(f"{tmp_path}/cache", limit=10**9) as cache:
        used = cache if is_cached else None
        options = {"batch_size": 4, "epochs": 1, "shuffle": shuffle, "rows_an_epoch": 400}
        whole = row_numbers(training(SPEC, [path], **options, cache=used))
        with mock.patch.object(tfrecords, "records_at", seen):
            rest = row_numbers(training(SPEC, [path], **options, cache=used, skip_rows=360))
    assert rest == whole[360:]
    # The last 40 rows, with those before them in the window of the first one.
    assert len(opened) == (12 if shuffle else 10)
