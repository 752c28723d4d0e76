"""Each record is read once an epoch, with any number of workers and after interruptions.

The rows come from `train_input_fn`, as in training. The tests make blocks and windows small, so
that a few rows cross their borders as often as millions of rows would.
"""

from __future__ import annotations

import random
from unittest import mock

import hypothesis
import pytest
import tensorflow as tf
from hypothesis import strategies as st

import feature_specs
from estimator_kit.training.team import Team
from input_pipelines import input_fns
from input_pipelines.reading import shuffling
from input_pipelines.record_files import tfrecords, writing
from input_pipelines.record_files.sharding import Shard
from tests.input_pipelines.inputs import training

SPEC = feature_specs.parse(
    {
        "features": {"x": {"dtype": "int64"}},
        "columns": {"x": {"identity": "x", "size": 10}},
        "groups": {"wide": ["x"]},
        "labels": {"row": {"dtype": "float32"}},
        "objectives": {"row": {"head": "regression"}},
    }
)


def write(folder, sizes):
    """Writes files with consecutively numbered records. Every third and every empty one is GZIP."""
    files, number = [], 0
    for i, size in enumerate(sizes):
        files.append(f"{folder}/{i}.tfrecord{'.gz' if i % 3 == 2 or not size else ''}")
        rows = [{"x": j % 10, "row": float(number + j)} for j in range(size)]
        writing.write_examples(files[-1], rows)
        number += size
    return files


def row_numbers(input_fn):
    batches = [labels["row"].numpy().astype(int).tolist() for _, labels in input_fn()]
    assert len({len(batch) for batch in batches[:-1]}) <= 1, "only the last batch may be smaller"
    return [row for batch in batches for row in batch]


@pytest.mark.ci
@hypothesis.settings(max_examples=5, deadline=None)
@hypothesis.given(
    sizes=st.lists(st.integers(0, 60), min_size=1, max_size=20),
    workers=st.integers(1, 5),
    epochs=st.integers(1, 3),
    batch_size=st.integers(1, 20),
    shuffle=st.booleans(),
    seed=st.integers(0, 2**40),
    interrupted=st.floats(0, 1),
)
def test_each_record_is_read_once_an_epoch(
    tmp_path_factory, sizes, workers, epochs, batch_size, shuffle, seed, interrupted
):
    files = write(tmp_path_factory.mktemp("once"), sizes)
    found: list[list[int]] = [[] for _ in range(epochs)]
    with mock.patch.object(tfrecords, "BLOCK", 4), mock.patch.object(shuffling, "WINDOW", 16):
        for index in range(workers):
            shard = Shard(workers, index)
            listed = random.Random(seed + index).sample(files, len(files))
            own = tfrecords.count_records(*shard.deal(listed))

            def run(skip, listed=listed, shard=shard, own=own):
                return row_numbers(training(
                    SPEC, listed, batch_size=batch_size, seed=seed, epochs=epochs,
                    shuffle=shuffle, shard=shard, skip_rows=skip, rows_an_epoch=own,
                ))  # fmt: skip

            rows = run(0)
            assert len(rows) == epochs * own
            for epoch in range(epochs):
                found[epoch] += rows[epoch * own : (epoch + 1) * own]
            steps = int(interrupted * len(rows)) // batch_size
            if steps:
                assert run(steps * batch_size) == rows[steps * batch_size :]
    for rows in found:
        assert sorted(rows) == list(range(sum(sizes)))


@pytest.mark.nightly
@hypothesis.settings(max_examples=3, deadline=None)
@hypothesis.given(
    sizes=st.lists(st.integers(0, 40), min_size=1, max_size=6).filter(lambda s: sum(s) > 4),
    workers=st.integers(2, 4),
    epochs=st.integers(1, 2),
    batch_size=st.integers(1, 12),
    interrupted=st.integers(0, 9),
)
def test_synchronous_workers_read_each_record_once_and_wait_with_padding(
    tmp_path_factory, sizes, workers, epochs, batch_size, interrupted
):
    files = write(tmp_path_factory.mktemp("padded"), sizes)
    team = Team(size=workers, batches_a_step=workers, ends_together=True)
    shards = [Shard(workers, index) for index in range(workers)]
    counts = [tfrecords.count_records(*shard.deal(files)) for shard in shards]
    hypothesis.assume(min(counts) > 0)
    steps = team.steps_of([epochs * count for count in counts], batch_size)
    stop = min(interrupted, steps)
    found = []
    with mock.patch.object(tfrecords, "BLOCK", 4), mock.patch.object(shuffling, "WINDOW", 16):
        for shard, own in zip(shards, counts):
            for first, last in ((0, stop), (stop, steps)):
                skip = min(team.own_rows(first, batch_size), epochs * own)
                batches = training(
                    SPEC, files, batch_size=batch_size, epochs=epochs, shard=shard,
                    skip_rows=skip, rows_an_epoch=own, pad=True,
                )()  # fmt: skip
                for _, labels in batches.take(last - first):
                    if not labels[input_fns.PADDING]:
                        found += labels["row"].numpy().astype(int).tolist()
    assert sorted(found) == sorted(epochs * [*range(sum(sizes))])


def test_padding_is_the_first_batch_again(tmp_path):
    files = write(tmp_path, [5])
    batches = training(
        SPEC, files, batch_size=3, epochs=1, shuffle=False, skip_rows=3, rows_an_epoch=5, pad=True
    )()
    found = [
        (labels["row"].numpy().tolist(), bool(labels[input_fns.PADDING]))
        for _, labels in batches.take(4)
    ]
    assert found == [([3, 4], False), *[([0, 1, 2], True)] * 3]


def test_a_worker_without_a_record_fails_instead_of_waiting_forever(tmp_path):
    files = write(tmp_path, [1, 0])
    endless = training(SPEC, files, batch_size=4, shard=Shard(2, 1))
    with pytest.raises(tf.errors.InvalidArgumentError) as error:
        next(iter(endless()))
    assert "an epoch of this worker (2 of 2) holds no record; train with fewer workers" in str(
        error.value
    )
