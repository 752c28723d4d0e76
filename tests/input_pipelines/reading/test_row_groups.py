"""The rows of a group stay together, are read once, and come where a restart expects them."""

from __future__ import annotations

import itertools
import logging

import numpy as np
import pytest
import tensorflow as tf

import feature_specs
from input_pipelines import input_fns
from input_pipelines.errors import DataError
from input_pipelines.integrity import diagnosis
from input_pipelines.reading import row_groups
from input_pipelines.reading.mixing import Mix, Part
from input_pipelines.reading.negatives import Negatives
from input_pipelines.reading.selection import RowCounts, Selection
from input_pipelines.record_files import record_lists, tfrecords, writing
from input_pipelines.record_files.sharding import Shard
from tests.input_pipelines.inputs import training

DOCUMENT = {
    "features": {"x": {"dtype": "float32"}, "query": {"dtype": "string", "default": ""}},
    "columns": {"x": {"numeric": "x"}},
    "groups": {"deep": ["x"]},
    "labels": {"grade": {"dtype": "int64"}},
    "objectives": {"grade": {"head": "ranking", "group_by": "query"}},
}
SPEC = feature_specs.parse(DOCUMENT)


def write(path, sizes, *, first=0, group="q"):
    """Writes runs of these sizes; x is the number of the row."""
    rows, number = [], first
    for i, size in enumerate(sizes):
        for _ in range(size):
            query = f"{group}{i}" if size > 1 else None
            rows.append({"x": float(number), "query": query, "grade": number % 3})
            number += 1
    writing.write_examples(path, rows)
    return path


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Two files, the first of two blocks; (paths, the rows of each run)."""
    folder = tmp_path_factory.mktemp("runs")
    rng = np.random.default_rng(3)
    sizes = [rng.integers(1, 12, 300).tolist(), [*rng.integers(1, 9, 150).tolist(), 40]]
    first = sum(sizes[0])
    paths = [write(f"{folder}/a.tfrecord", sizes[0], group="a"),
             write(f"{folder}/b.tfrecord.gz", sizes[1], first=first, group="b")]  # fmt: skip
    ends = np.cumsum([0, *sizes[0], *sizes[1]])
    return paths, [tuple(range(a, b)) for a, b in zip(ends, ends[1:])]


def numbers(input_fn, limit=None):
    batches = input_fn()
    batches = batches if limit is None else batches.take(limit)
    return [features["x"][:, 0].numpy().astype(int).tolist() for features, _ in batches]


def test_every_run_is_whole_and_in_one_batch_once_an_epoch(data):
    paths, runs = data
    total = runs[-1][-1] + 1
    batches = numbers(training(SPEC, paths, batch_size=50, epochs=2))
    assert len(batches) == -(-2 * total // 50)
    assert all(batches) and max(map(len, batches)) < 50 + 40
    starts = {run[0]: run for run in runs}
    seen = []
    for batch in batches:
        while batch:
            run = starts[batch[0]]
            assert tuple(batch[: len(run)]) == run
            seen.append(run)
            batch = batch[len(run) :]
    assert sorted(seen) == sorted([*runs, *runs])
    epoch = seen[: len(runs)]
    assert sorted(epoch) == sorted(runs) and epoch != runs and epoch != seen[len(runs) :]
    # Rows of both files are near each other, but rows that are neighbors in a file are not.
    places = np.array([run[0] for run in epoch])
    assert np.mean(np.abs(np.diff(places)) > 100) > 0.8


@pytest.mark.ci
def test_the_order_depends_on_the_seed(data):
    first, again, other = (
        numbers(training(SPEC, data[0], batch_size=64, epochs=1, seed=seed)) for seed in (1, 1, 2)
    )
    assert first == again and first != other


@pytest.mark.parametrize("shuffle", [True, False])
def test_a_restart_reads_the_batches_that_would_have_come(data, shuffle):
    paths, runs = data
    options = {"batch_size": 50, "epochs": 2, "shuffle": shuffle}
    whole = numbers(training(SPEC, paths, **options))
    for steps in (1, len(whole) // 2 + 1):  # In the first epoch and in the second.
        rest = training(
            SPEC, paths, **options, skip_rows=steps * 50, rows_an_epoch=runs[-1][-1] + 1
        )
        assert numbers(rest) == whole[steps:]


def test_evaluation_keeps_the_order_and_the_runs(data):
    paths, runs = data
    batches = numbers(input_fns.eval_input_fn(SPEC, paths, batch_size=30))
    assert list(itertools.chain(*batches)) == list(range(runs[-1][-1] + 1))
    ends = {run[-1] for run in runs if len(run) <= 30} | {runs[-1][29], runs[-1][-1]}
    assert all(batch[-1] in ends for batch in batches)
    assert numbers(input_fns.eval_input_fn(SPEC, paths, batch_size=30, limit=2)) == batches[:2]


def test_runs_longer_than_a_block_and_than_a_batch(tmp_path):
    path = write(f"{tmp_path}/a.tfrecord", [3, 2500, 2])
    runs = list(tfrecords.blocks([path], cut=row_groups.runs_of_a_file(SPEC, longest=5000)))
    assert [n for _, lengths in runs for n in lengths.numpy()] == [3, 2500, 2]
    batches = numbers(training(SPEC, [path], batch_size=400, epochs=1,
                                               shuffle=False))  # fmt: skip
    # Runs 3, six of 400, 100 and 2, each in the batch of its last row: 403, 803, ..., 2505.
    assert [len(batch) for batch in batches] == [3, 400, 400, 400, 400, 400, 502]


def test_batches_by_hand():
    rows = tf.constant([str(i) for i in range(10)])
    runs = tf.data.Dataset.from_tensors((rows, tf.constant([3, 3, 4], tf.int64)))
    # Last rows 2, 5 and 9 of batches that begin at 0, 4 and 8.
    assert [b.shape[0] for b in row_groups.whole_batches(runs, 4)] == [3, 3, 4]
    assert [b.shape[0] for b in row_groups.whole_batches(runs, 4, skip_rows=4)] == [3, 4]
    assert [b.shape[0] for b in row_groups.whole_batches(runs, 5)] == [3, 7]
    assert not list(row_groups.whole_batches(runs.take(0), 4))


def test_groups_of_sequence_examples(tmp_path):
    document = {**DOCUMENT, "features": {**DOCUMENT["features"], "s": {
        "dtype": "float32", "feature_list": True}}, "ignored": ["s"]}  # fmt: skip
    rows = [({"x": float(i), "query": "abb"[i % 3 :][:1], "grade": 1}, {"s": [1.0]})
            for i in range(7)]  # fmt: skip
    path = f"{tmp_path}/a.tfrecord"
    writing.write_sequence_examples(path, rows)
    spec = feature_specs.parse(document)
    blocks = tfrecords.blocks([path], cut=row_groups.runs_of_a_file(spec, longest=9))
    assert [n for _, lengths in blocks for n in lengths.numpy()] == [1, 2, 1, 2, 1]


def test_workers_that_would_share_a_file_are_refused(data):
    with pytest.raises(ValueError, match="Write at least one file for each worker"):
        training(SPEC, data[0], batch_size=8, shard=Shard(3, 0))()


def test_records_whose_groups_are_apart_are_refused_or_warned_of(tmp_path, caplog):
    def check(queries):
        rows = [{"x": 0.0, "query": query, "grade": 1} for query in queries]
        writing.write_examples(f"{tmp_path}/a.tfrecord", rows)
        row_groups.check_neighbors(SPEC, record_lists.first_records([f"{tmp_path}/a.tfrecord"]))

    def said():
        return [r.getMessage() for r in caplog.records if r.name == "estimator_kit"]

    end = (
        "are not next to a record with the same 'query', but the head ranking learns from rows "
        "that follow each other. Sort the records of each file by this feature, or choose another "
        "group_by"
    )
    with pytest.raises(DataError) as error:
        check(["a", "b", "a", "b", None, None])
    assert str(error.value) == f"of the first 6 records of 1 files, 6 {end}"
    with pytest.raises(DataError) as error:
        check([None, "", None])
    assert str(error.value) == (
        "none of the first 3 records of 1 files has a value of the feature 'query', but the head "
        "ranking compares the rows that share a value. Write the feature into the records, or "
        "choose another group_by"
    )
    with caplog.at_level(logging.WARNING, "estimator_kit"):
        check("aabb")
        assert not said()
        check("aabcd")
        assert said() == [f"of the first 5 records of 1 files, 3 {end}"]


def test_bad_groups_and_labels_are_named(tmp_path):
    required = {**DOCUMENT, "features": {"x": {"dtype": "float32"}, "query": {"dtype": "string"}}}
    spec = feature_specs.parse(required)
    path = f"{tmp_path}/a.tfrecord"
    writing.write_examples(path, [{"x": 1.0, "query": "a", "grade": 1}, {"x": 1.0, "grade": 1}])
    assert diagnosis.find_bad_record(spec, [path]) == (
        f"{path}: record 1 at byte 65: feature 'query' is missing, and it has no default in the "
        "spec; give it one if records may lack it"
    )
    writing.write_examples(path, [{"x": 1.0, "query": "a", "grade": -1}])
    assert diagnosis.find_bad_record(spec, [path]) == (
        f"{path}: record 0 at byte 0: label 'grade' is -1, expected 0 or more for the ranking head "
        "of objective 'grade'"
    )


@pytest.mark.ci
def test_what_the_filter_drops_leaves_its_run_and_does_not_part_it(tmp_path):
    spec = feature_specs.parse({**DOCUMENT, "filter": [{"feature": "x", "max": 6}]})
    queries = ["a", "a", "a", "b", "a", "b", "b", "c", "c"]
    x = [0, 9, 1, 2, 9, 3, 4, 5, 9]
    paths = [f"{tmp_path}/{name}.tfrecord" for name in "ab"]
    rows = [{"x": float(v), "query": q, "grade": 1} for v, q in zip(x, queries)]
    writing.write_examples(paths[0], rows)
    writing.write_examples(paths[1], [{"x": 9.0, "query": "d", "grade": 1}])
    kept = [[0, 1], [2, 3, 4], [5]]
    # The last row of the second run is row 4 of those that are kept, so in batch 1.
    whole = [[0, 1], [2, 3, 4, 5]]
    assert numbers(input_fns.eval_input_fn(spec, paths, batch_size=3)) == whole
    assert Selection(spec).count(paths) == RowCounts(10, (6,))
    options = {"batch_size": 3, "seed": 5, "epochs": 3, "rows_an_epoch": 6}
    whole = numbers(training(spec, paths, **options))
    for batch in map(list, whole):
        while batch:
            run = next(run for run in kept if run[0] == batch[0])
            assert batch[: len(run)] == run
            batch = batch[len(run) :]
    rest = numbers(training(spec, paths, **options, skip_rows=9))
    assert rest == whole[3:]
    text, _ = row_groups.neighbors(spec, record_lists.first_records(paths))
    assert not text  # Only c is alone.
    nothing = feature_specs.parse({**DOCUMENT, "filter": [{"feature": "x", "min": 10}]})
    endless = training(nothing, paths, batch_size=3)
    with pytest.raises(tf.errors.InvalidArgumentError, match="holds no record that is kept"):
        next(iter(endless()))


def test_rows_that_are_kept_together_are_neither_mixed_nor_sampled(data):
    message = "rows of one 'query' are kept together for the head ranking"
    mix = Mix(tuple(Part(path, (path,), 1) for path in data[0]))
    with pytest.raises(ValueError, match=message):
        training(SPEC, mix, batch_size=8)
    with pytest.raises(ValueError, match=message):
        training(SPEC, data[0], batch_size=8, negatives=Negatives("grade", 0.5))
    with pytest.raises(ValueError) as error:
        Negatives.of("0.5", SPEC)
    assert str(error.value) == (
        "got '0.5': the head ranking learns from all rows of one 'query', so negatives cannot be "
        "dropped from a list"
    )
