"""Rows of a function, read as one file with these rows."""

from __future__ import annotations

import functools
import itertools
import re
import sqlite3
import threading

import pytest
import tensorflow as tf

import feature_specs
from input_pipelines.errors import DataError
from input_pipelines.reading.own_rows import OwnRows, place_of_function
from input_pipelines.reading.selection import Selection
from input_pipelines.record_files import writing
from input_pipelines.record_files.sharding import Shard
from tests.input_pipelines.inputs import training

DOCUMENT = {
    "features": {"row": {"dtype": "int64"}, "tags": {"dtype": "string", "shape": "variable"}},
    "columns": {
        "row": {"numeric": "row"},
        "tag": {"hash_bucket": "tags", "size": 10},
    },
    "groups": {"wide": ["tag"], "deep": ["row"]},
    "labels": {"click": {"dtype": "int64"}},
    "objectives": {"click": {"head": "binary"}},
}
SPEC = feature_specs.parse(DOCUMENT)
FILTERED = feature_specs.parse({**DOCUMENT, "filter": [{"feature": "row", "min": 1000}]})


def row(i):
    return {"row": i, "tags": ["a", "b"][: i % 3], "click": i % 2}


def own(function, spec=SPEC, **options):
    return OwnRows(spec, function, name="rows", mode="train", **options)


def numbers(batches):
    return [int(i) for features, _ in batches for i in tf.reshape(features["row"], [-1])]


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("own") / "rows.tfrecord")
    writing.write_examples(path, map(row, range(2500)))
    return path


def test_the_same_batches_as_of_one_file(file):
    rows = own(lambda mode: map(row, range(2500)))
    for options in (
        {"epochs": 2, "skip_rows": 2600, "rows_an_epoch": 2500},
        {"epochs": 1, "shard": Shard(3, 1), "pad": True},
    ):
        batches = 9 if "pad" in options else -1
        of_file, of_rows = (
            training(SPEC, source, batch_size=100, seed=5, **options)().take(batches)
            for source in ([file], rows)
        )
        for first, second in itertools.zip_longest(of_file, of_rows):
            for a, b in zip(*(tf.nest.flatten(x, expand_composites=True) for x in (first, second))):
                assert a.numpy().tolist() == b.numpy().tolist()


def test_a_data_set_repeats_if_no_epochs_are_given():
    rows = own(lambda mode: tf.data.Dataset.range(5).map(
        lambda i: {"row": i, "click": i % 2, "tags": tf.fill([i % 3], "a")}
    ))  # fmt: skip
    batches = training(SPEC, rows, batch_size=4, shuffle=False)()
    assert numbers(batches.take(3)) == [0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1]


def test_a_filter_drops_rows_of_a_function():
    rows = own(lambda mode: map(row, range(1003)), FILTERED)
    batches = training(FILTERED, rows, batch_size=4, shuffle=False, epochs=1)()
    assert numbers(batches) == [1000, 1001, 1002]
    counts = rows.count(Selection(FILTERED))
    assert (counts.read, counts.kept) == (1003, (3,))
    assert [rows.count(Selection(FILTERED), Shard(2, i)).kept for i in (0, 1)] == [(2,), (1,)]


def test_counts_read_the_rows_unless_a_data_set_knows_their_number():
    calls = []

    def rows(mode):
        calls.append(mode)
        for i in range(1030):
            calls.append(i)
            yield row(i)

    found = own(rows)
    selection = Selection(SPEC)
    assert found.count(selection).kept == (1030,)
    assert [found.count(selection, Shard(4, i)).kept for i in range(4)] == [
        (258,), (258,), (257,), (257,),
    ]  # fmt: skip
    assert len(calls) == 1031  # They were read once.
    dataset = tf.data.Dataset.range(7).map(lambda i: {"row": i, "click": i, "bad": 1 // i})
    assert own(lambda mode: dataset).count(selection).kept == (7,)  # A row is not read.


def test_an_input_without_an_end():
    endless = own(lambda mode: map(row, itertools.count()))
    assert endless.count(Selection(SPEC), more_than=3000).kept[0] > 2**60
    assert own(lambda mode: map(row, range(5))).count(Selection(SPEC), more_than=9).kept == (5,)
    dataset = own(lambda mode: tf.data.Dataset.from_tensors(row(1)).repeat())
    with pytest.raises(DataError, match="the data set never ends, so it has no epochs"):
        dataset.count(Selection(SPEC))
    batches = training(
        SPEC, endless, batch_size=10, shuffle=False, skip_rows=1500, rows_an_epoch=2**62
    )
    assert numbers(batches().take(1)) == list(range(1500, 1510))


def test_each_reading_has_a_thread_of_its_own_and_closes_what_it_left():
    threads, closed = [], threading.Event()

    def rows(mode):
        threads.append(threading.current_thread())
        connection = sqlite3.connect(":memory:")
        connection.row_factory = sqlite3.Row
        try:
            for i in itertools.count():
                # Other threads may not use this connection.
                yield connection.execute(f"SELECT {i} AS row, 0 AS click").fetchone()
        finally:
            connection.close()
            closed.set()

    batches = training(SPEC, own(rows), batch_size=500, shuffle=False)()
    assert numbers(batches.take(4)) == list(range(2000))
    assert closed.wait(60)
    threads[0].join(60)
    assert not threads[0].is_alive() and threads[0] is not threading.current_thread()


def fails(mode):
    yield row(0)
    raise KeyError("price")


def lost(mode):
    raise ConnectionResetError("the database is away")


ROW_OF = {"click": 1, "row": 1}
ONCE = iter([ROW_OF])
PROBLEMS = {
    "none": (lambda mode: None, "rows: expected a tf.data.Dataset, or an iterable of rows such as "
             "a generator, got None (NoneType). Return the rows, or write `yield` before each"),
    "tuple": (lambda mode: (ROW_OF, 1), "an iterable of rows such as a generator, got ({'click'"),
    "row": (lambda mode: ROW_OF, "got {'click': 1, 'row': 1} (dict)"),
    "no dictionary": (lambda mode: [ROW_OF, 3], "rows: row 1: expected a dictionary, got 3 (int)"),
    "element": (lambda mode: tf.data.Dataset.range(3), "the elements of the data set: expected a"),
    "dtype": (lambda mode: [{"row": "x"}], "rows: row 0: 'row': expected int64, got 'x' (str)"),
    "raises": (fails, "rows raised KeyError: 'price'"),
    "twice": (lambda mode: ONCE, "rows: returned the same list_iterator as in the call before, "
              "which has no row left. Make a new one in each call"),
}  # fmt: skip


@pytest.mark.parametrize("case", PROBLEMS)
def test_problems_name_the_function(case):
    function, message = PROBLEMS[case]
    rows = own(function)
    if case == "twice":
        assert [len(block) for block in rows.blocks()] == [1]
    with pytest.raises(DataError, match=re.escape(message)) as error:
        list(rows.blocks())
    assert str(error.value).startswith(f"{__file__}:"), error.value
    # The same from a pipeline, which has its own error.
    with pytest.raises(DataError, match=re.escape(message)), rows.naming_problems():
        list(rows.dataset(Selection(SPEC)))


def test_the_place_of_an_error_is_its_line():
    with pytest.raises(DataError) as error:
        list(own(fails).blocks())
    line = fails.__code__.co_firstlineno + 2
    assert str(error.value) == f"{__file__}:{line}: rows raised KeyError: 'price'"
    with pytest.raises(tf.errors.UnavailableError, match="the database is away"):
        list(own(lost).blocks())
    with pytest.raises(DataError, match=r"reading the data set failed: .*mine"):
        numbers_ = tf.data.Dataset.range(3).map(
            lambda i: {"row": i, "click": tf.cast(tf.debugging.check_numerics(
                tf.math.log(-1.0 - tf.cast(i, tf.float32)), "mine"), tf.int64)}
        )  # fmt: skip
        list(own(lambda mode: numbers_).blocks())


def test_the_places_of_functions():
    line = fails.__code__.co_firstlineno
    for function in (fails, functools.partial(fails)):
        assert place_of_function(function, "f") == f"{__file__}:{line}: f"
    assert place_of_function(len, "len") == "len"


def test_identities():
    rows = lambda mode: map(row, range(100))  # noqa: E731
    assert own(rows).identity() == {"input_fn": "rows", "input_version": None}
    first, same, other = (
        own(function, version="1").identity()
        for function in (rows, rows, lambda mode: map(row, range(1, 100)))
    )
    assert first == same != other and first["input_version"] == "1"
