"""The cache does not change batches, and never returns old rows of data that have changed."""

from __future__ import annotations

import glob
import os
import shutil
import threading

import numpy as np
import pytest
import tensorflow as tf

import feature_specs
from input_pipelines import input_fns
from input_pipelines.errors import DataError
from input_pipelines.reading.negatives import Negatives
from input_pipelines.record_files import writing
from input_pipelines.record_files.sharding import Shard
from input_pipelines.row_cache import folder, writer
from input_pipelines.row_cache.cache import RowCache
from input_pipelines.row_cache.writer import ShardWriter
from tests.conftest import make_rows
from tests.input_pipelines.inputs import training

MIB = 2**20


@pytest.fixture
def spec(document):
    document["labels"]["row"] = {"dtype": "float32"}
    document["objectives"]["row"] = {"head": "regression"}
    return feature_specs.parse(document)


@pytest.fixture
def files(tmp_path):
    rows = [{**row, "row": float(row["row"])} for row in make_rows(2500)]
    paths = [f"{tmp_path}/{name}" for name in ("a.tfrecord", "b.tfrecord.gz", "c.tfrecord")]
    for path, part in zip(paths, (rows[:1300], rows[1300:1310], rows[1310:])):
        writing.write_examples(path, part)
    return paths


@pytest.fixture
def cache(tmp_path):
    with RowCache(f"{tmp_path}/cache", limit=100 * MIB) as cache:
        yield cache


def again(cache):
    """A cache for another run with the same folder."""
    cache.close()
    return RowCache(cache.folder, limit=100 * MIB)


def read(cache, spec, files):
    """All rows of files, as a model gets them. Waits until they are stored."""
    rows = cache.rows(spec)
    batches = list(rows.blocks(files, interleaved=False).map(rows.layout.unpack))
    rows.writer.close()
    return batches


def entries(cache):
    return sorted(name for name in os.listdir(cache.folder) if name.endswith(".rows"))


def same(ours, theirs):
    """Checks that two input_fns return equal batches, and returns the number of batches."""
    ours, theirs = (list(input_fn()) for input_fn in (ours, theirs))
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs):
        tf.nest.assert_same_structure(one, other)
        for left, right in zip(tf.nest.flatten(one), tf.nest.flatten(other)):
            assert left.dtype == right.dtype
            if isinstance(left, tf.RaggedTensor):
                np.testing.assert_array_equal(left.row_splits, right.row_splits)
                left, right = left.flat_values, right.flat_values
            # The last bit of TensorFlow's logarithm depends on a row's place in its batch.
            exact = left.dtype != tf.float32
            np.testing.assert_allclose(left, right, rtol=0 if exact else 2e-7, atol=0)
    return len(ours)


@pytest.mark.parametrize("shuffle", [True, False])
def test_batches_are_the_same(spec, files, cache, shuffle):
    options = {"batch_size": 64, "seed": 3, "epochs": 2, "shuffle": shuffle}
    without = training(spec, files, **options)
    made = training(spec, files, **options, cache=cache)
    assert same(made, without) == 79  # 2 x 2500 rows.
    assert (cache.counts.hits, cache.counts.misses, cache.counts.rows) == (0, 3, 2500)
    assert made().element_spec == without().element_spec
    with again(cache) as found:
        assert same(training(spec, files, **options, cache=found), without) == 79
        assert (found.counts.hits, found.counts.misses, found.counts.rows) == (3, 0, 0)


def test_ragged_numbers_and_keys_of_growing_columns_are_cached(document, cache, tmp_path):
    document["features"]["stay"] = {"dtype": "float32", "shape": "variable"}
    document["columns"]["stays"] = {"ragged": "stay"}
    document["columns"]["grows"] = {"growing": "user", "rows": 9}
    document["columns"]["grown_emb"] = {"embedding": "grows", "dimension": 2}
    document["groups"].update(lists=["stays"], grown=["grown_emb"])
    spec, path = feature_specs.parse(document), f"{tmp_path}/d.tfrecord"
    rows = [{**row, "stay": [0.5, 0.1][: i % 3]} for i, row in enumerate(make_rows(100))]
    writing.write_examples(path, rows)
    without = training(spec, [path], batch_size=64, seed=3, epochs=2)
    made = training(spec, [path], batch_size=64, seed=3, epochs=2, cache=cache)
    assert same(made, without) == 4


@pytest.mark.ci
def test_a_restart_a_worker_and_an_evaluation_read_what_they_would(spec, files, cache):
    options = {"batch_size": 32, "seed": 5, "epochs": 3, "rows_an_epoch": 2500, "skip_rows": 3168}
    compared = 0
    for more in ({}, {"shard": Shard(5, 3), "rows_an_epoch": 500, "skip_rows": 480}):
        chosen = {**options, **more}
        compared += same(
            training(spec, files, **chosen, cache=cache),
            training(spec, files, **chosen),
        )
    assert compared == (7500 - 3168 + 31) // 32 + (1500 - 480 + 31) // 32
    assert cache.counts.misses == 6  # A fifth of a file's records is a different shard.
    evaluated = [
        input_fns.eval_input_fn(spec, files, batch_size=100, limit=20, cache=one)
        for one in (cache, None)
    ]
    assert same(*evaluated) == 20
    assert cache.counts.misses == 6  # Training has cached the whole files.


def test_workers_that_share_a_folder_and_files_read_their_own_rows(spec, files, cache):
    options = {"batch_size": 64, "epochs": 1, "shuffle": False}
    for index in range(2):
        shard = Shard(5, index)  # A fifth of the records of each file.
        without = training(spec, files, **options, shard=shard)
        made = training(spec, files, **options, shard=shard, cache=cache)
        assert same(made, without) == 8  # 500 rows.
    assert len(entries(cache)) == 6


def test_it_works_in_a_graph(spec, files, cache):
    expected = [b for _, b in input_fns.eval_input_fn(spec, files, batch_size=500)()]
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        dataset = input_fns.eval_input_fn(spec, files, batch_size=500, cache=cache)()
        iterator = tf.compat.v1.data.make_initializable_iterator(dataset)
        session.run([tf.compat.v1.tables_initializer(), iterator.initializer])
        _, labels = iterator.get_next()
        for batch in expected:
            np.testing.assert_array_equal(session.run(labels["row"]), batch["row"])


def test_a_filter_is_applied_before(document, files, cache):
    document["labels"]["row"] = {"dtype": "float32"}
    document["objectives"]["row"] = {"head": "regression"}
    document["filter"] = [{"feature": "price", "min": 5}]
    spec = feature_specs.parse(document)
    options = {"batch_size": 64, "seed": 3, "epochs": 2}
    batches = same(
        training(spec, files, **options, cache=cache),
        training(spec, files, **options),
    )
    kept = sum(row["price"] >= 5 for row in make_rows(2500))
    assert 0 < kept < 2500
    assert cache.counts.rows == kept
    assert batches == (2 * kept + 63) // 64


@pytest.mark.ci
def test_only_good_records_of_damaged_files_are_cached(spec, files, cache):
    with open(files[0], "rb") as file:
        data = bytearray(file.read())
    data[12 + 5] ^= 1  # In the payload of the first record.
    with open(files[0], "wb") as file:
        file.write(data)
    for left_out, rows, misses in ((frozenset(), 2499, 3), (frozenset({7}), 2498, 1)):
        damaged = {files[0]: left_out}
        options = {"batch_size": 64, "seed": 3, "epochs": 1, "damaged": damaged}
        with again(cache) as run:
            same(
                training(spec, files, **options, cache=run),
                training(spec, files, **options),
            )
            assert run.counts.misses == misses
            evaluated = input_fns.eval_input_fn(
                spec, files, batch_size=99, damaged=damaged, cache=run
            )
            assert sum(len(batch["row"]) for _, batch in evaluated()) == rows


def test_a_bad_record_leaves_nothing_behind(spec, files, cache):
    writing.write_examples(files[1], [{**make_rows(1)[0], "row": 1.0, "price": float("nan")}])
    with pytest.raises(tf.errors.InvalidArgumentError, match="price"):
        read(cache, spec, [files[1]])
    cache.close()
    assert not entries(cache)
    assert set(os.listdir(cache.folder)) <= {".lock", ".digests"}


@pytest.mark.ci
def test_changed_data_are_transformed_again(document, tmp_path):
    (tmp_path / "cities.txt").write_text("rome\noslo\nlima\n")
    document["columns"]["city"] = {"vocabulary": "city", "file": "cities.txt"}
    spec = lambda: feature_specs.parse(document, directory=tmp_path)  # noqa: E731
    path = f"{tmp_path}/a.tfrecord"
    writing.write_examples(path, make_rows(20))
    misses = []

    def look():
        with RowCache(f"{tmp_path}/cache", limit=100 * MIB) as cache:
            features, _ = read(cache, spec(), [path])[0]
            misses.append(cache.counts.misses)
        expected, _ = next(iter(input_fns.eval_input_fn(spec(), [path], batch_size=20)()))
        np.testing.assert_array_equal(features["city"], expected["city"])

    look(), look()
    (tmp_path / "cities.txt").write_text("oslo\nrome\nlima\n")  # The same size as before.
    look(), look()
    kept = os.stat(path)
    writing.write_examples(path, make_rows(20, seed=8)[::-1])
    os.utime(path, ns=(kept.st_atime_ns, kept.st_mtime_ns))
    look(), look()
    os.rename(path, f"{tmp_path}/b.tfrecord")
    path = f"{tmp_path}/b.tfrecord"
    look()
    assert misses == [1, 0, 1, 0, 1, 0, 0]


def test_a_metric_that_needs_items_does_not_find_rows_without_them(cache, tmp_path):
    path = f"{tmp_path}/a.tfrecord"
    writing.write_examples(path, [{"seen": ["a", "b"], "next": ["b", "c"]}])

    def labels(metric):
        spec = feature_specs.parse({
            "features": {"seen": {"dtype": "string", "shape": "variable"}},
            "columns": {"seen": {"hash_bucket": "seen", "size": 20, "sequence": True},
                        "seen_emb": {"embedding": "seen", "dimension": 2}},
            "groups": {"steps": ["seen_emb"]},
            "labels": {"next": {"dtype": "string", "shape": "variable"}},
            "objectives": {"next": {"head": "next_item", "items": "seen", "metrics": [metric]}},
        })  # fmt: skip
        return set(read(cache, spec, [path])[0][1])

    assert labels("mrr") == {"next"}
    assert labels({"popularity_lift": 2}) == {"next", "next/seen"}
    assert labels("mrr") == {"next"}


def test_a_file_that_changes_while_it_is_read_is_not_stored(spec, files, cache, monkeypatch):
    end = ShardWriter.end

    def changing(*arguments):
        writing.write_examples(files[0], [{**row, "row": 1.0} for row in make_rows(5, seed=8)])
        end(*arguments)

    monkeypatch.setattr(ShardWriter, "end", changing)
    read(cache, spec, files[:1])
    assert not entries(cache)
    assert cache.counts.rows == 0


@pytest.mark.parametrize("young", [3 * 10**9, 0], ids=["young files", "old files"])
def test_a_folder_that_vanishes_does_not_stop_a_run(spec, files, cache, monkeypatch, young):
    monkeypatch.setattr(folder, "_YOUNG", young)
    read(cache, spec, files[:1])
    shutil.rmtree(cache.folder)
    assert sum(len(batch["row"]) for _, batch in read(cache, spec, files[1:])) == 1200


def test_rows_that_cannot_be_cached_are_refused(spec, files, cache):
    message = "each epoch keeps different negatives"
    with pytest.raises(ValueError, match=message):
        training(spec, files, batch_size=8, cache=cache, negatives=Negatives("click", 0.5))


def test_a_damaged_entry_is_found_and_removed(spec, files, cache, caplog):
    read(cache, spec, files)
    paths = [f"{cache.folder}/{name}" for name in entries(cache)]
    sizes = {os.path.getsize(path): path for path in paths}
    with open(sizes[max(sizes)], "r+b") as file:
        file.seek(200)
        byte = file.read(1)
        file.seek(200)
        file.write(bytes([byte[0] ^ 1]))
    caplog.set_level("WARNING", "estimator_kit")
    with again(cache) as damaged:
        assert sum(len(batch["row"]) for _, batch in read(damaged, spec, files)) == 2500
        assert (damaged.counts.hits, damaged.counts.misses) == (2, 1)
    assert f"{sizes[max(sizes)]}, the cached rows of {files[0]}, was damaged." in caplog.text
    os.truncate(sizes[min(sizes)], min(sizes) - 1)
    with again(cache) as found:
        read(found, spec, files)
        assert (found.counts.hits, found.counts.misses) == (2, 1)
        assert found.remove_damaged() is None
        os.truncate(sizes[max(sizes)], max(sizes) - 1)  # While the run reads it.
        assert found.remove_damaged() == (
            f"{sizes[max(sizes)]}, the cached rows of {files[0]}, was damaged or removed. The kit "
            "removed the rest of it. Start again, and check the disk"
        )


@pytest.mark.parametrize("limit", [1000, 50_000])
def test_a_run_goes_on_if_the_cache_is_too_small(spec, files, tmp_path, limit, caplog):
    caplog.set_level("WARNING", "estimator_kit")
    with RowCache(f"{tmp_path}/small", limit=limit) as small:
        assert sum(len(batch["row"]) for _, batch in read(small, spec, files)) == 2500
        assert not glob.glob(f"{small.folder}/.{small._folder._run}-*")
        assert sum(os.path.getsize(f"{small.folder}/{name}") for name in entries(small)) <= limit
    (message,) = [r.getMessage() for r in caplog.records if r.name == "estimator_kit"]
    assert message.startswith(f"input cache {tmp_path}/small: ")
    assert message.endswith(
        "Allow more (--input_cache_gib). The run goes on, but stores no more transformed rows"
    )


def test_a_slow_disk_stops_writing_and_not_the_run(spec, files, cache, monkeypatch, caplog):
    caplog.set_level("WARNING", "estimator_kit")
    monkeypatch.setattr(writer, "_MOST_WAITING", 0)
    taken = threading.Event()
    write = ShardWriter._write
    monkeypatch.setattr(
        ShardWriter, "_write", lambda self, *block: taken.wait() and write(self, *block)
    )
    blocks = list(cache.rows(spec).blocks(files, interleaved=True))
    blocks = list(cache.rows(spec).blocks(files, interleaved=True))  # It waits for nothing.
    taken.set()
    cache.close()
    assert [len(block[0]) for block in blocks] == [1024, 10, 1024, 276, 166]
    assert not entries(cache)
    assert [each.getMessage() for each in caplog.records] == [
        f"input cache {cache.folder}: the disk is slower than reading the files. The run goes on, "
        "but stores no more transformed rows"
    ]


def test_readings_that_end_early_or_have_no_rows_leave_no_open_file(spec, files, cache):
    empty = f"{os.path.dirname(files[0])}/empty.tfrecord.gz"
    writing.write_examples(empty, [])
    rows = cache.rows(spec)
    opened = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        assert len(list(rows.blocks([*files, empty], interleaved=False).take(1))) == 1
        list(rows.blocks([empty], interleaved=False))
    rows.writer.wait("")
    cache.close()
    assert len(os.listdir("/proc/self/fd")) <= opened
    assert not glob.glob(f"{cache.folder}/.*-*-*")


def test_a_writer_that_fails_is_waited_for_by_nobody(spec, files, cache, monkeypatch):
    def fail(*_):
        raise MemoryError

    monkeypatch.setattr(ShardWriter, "_write", fail)
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    for _ in training(spec, files, batch_size=64, epochs=3, cache=cache)():
        pass
    assert not entries(cache)


def test_lists_alone_are_stored_and_a_restart_reads_them(document, cache, tmp_path):
    spec = feature_specs.parse({
        "features": {"seen": {"dtype": "string", "shape": "variable"}},
        "columns": {"seen": {"hash_bucket": "seen", "size": 20, "sequence": True},
                    "seen_emb": {"embedding": "seen", "dimension": 2}},
        "groups": {"steps": ["seen_emb"]},
        "labels": {"next": {"dtype": "string", "shape": "variable"}},
        "objectives": {"next": {"head": "next_item", "items": "seen"}},
    })  # fmt: skip
    path = f"{tmp_path}/a.tfrecord"
    writing.write_examples(path, [{"seen": ["a"] * (1 + i % 3), "next": ["b"] * (1 + i % 3)}
                                  for i in range(3000)])  # fmt: skip
    options = {"batch_size": 64, "seed": 3, "epochs": 2}
    assert same(training(spec, [path], **options, cache=cache), training(spec, [path], **options))
    options |= {"rows_an_epoch": 3000, "skip_rows": 1600}
    assert same(training(spec, [path], **options, cache=cache), training(spec, [path], **options))


def test_a_later_epoch_of_a_run_reads_what_the_first_one_stored(spec, files, cache, monkeypatch):
    opened = []
    found = RowCache.found
    monkeypatch.setattr(RowCache, "found", lambda *args: opened.append(found(*args)) or opened[-1])
    for _ in training(spec, files, batch_size=64, epochs=3, cache=cache)():
        pass
    # The first file tells that the first epoch cannot be read from the cache alone.
    assert [path is not None for path in opened] == [False] * 4 + [True] * 6
    assert (cache.counts.hits, cache.counts.misses, cache.counts.rows) == (0, 3, 2500)


def test_a_folder_is_named_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError) as error:
        RowCache(f"{tmp_path}/file", limit=1000)
    assert str(error.value) == (
        f"the input cache {tmp_path}/file: {tmp_path}/file: File exists. Name a writable folder on "
        "a local disk"
    )
