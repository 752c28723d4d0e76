"""Compares reading with TensorFlow's own ways, and with the cache of transformed rows.

    python benchmarks/input.py [--rows 400000] [--rounds 3] [--only records,cache,window,counting]

Records have 13 numbers and 26 strings, about 800 bytes; batches have 1024 rows. Every measurement
reads a whole epoch, shuffled, inside tf.data (`Dataset.reduce`). It includes the time to make the
input: with the cache, to hash the files and, for a cold cache, to write the rows. `counting` counts
the records of the files, compared with reading them.
benchmarks/README.md has results.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tensorflow as tf
from click_logs import canned_input_fn, generate, spec
from side_by_side import compare
from training_speed import BATCH

import estimator_kit as ek
from input_pipelines import input_fns
from input_pipelines.reading.shuffling import Span
from input_pipelines.reading.sources import Files
from input_pipelines.record_files import tfrecords
from input_pipelines.row_cache.cache import Cached, RowCache

GIB = 2**30
DAYS = 7


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=400_000, help="rows of the generated data")
    parser.add_argument("--rounds", type=int, default=3, help="rounds that count")
    parser.add_argument("--only", default="records,cache,window,counting", help="what is measured")
    parser.add_argument("--data", help="a folder for the generated data, to use them again")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        # One shard more than the days of a window.
        paths = generate(arguments.data or folder, arguments.rows)
        for name in arguments.only.split(","):
            parts = {"records": records, "cache": cache, "window": window, "counting": counting}
            parts[name](paths, arguments.rows, f"{folder}/cache", arguments.rounds)


def records(paths: list[str], rows: int, folder: str, rounds: int) -> None:
    """Rows a second without a cache."""

    def per_record() -> tf.data.Dataset:
        entries = ek.make_parse_example_spec(spec())

        def parse(record: tf.Tensor) -> tf.Tensor:
            features = tf.io.parse_single_example(record, entries)
            return features, features.pop("click")

        read = tf.data.TFRecordDataset(paths, num_parallel_reads=2).shuffle(10_000)
        return read.map(parse, num_parallel_calls=tf.data.AUTOTUNE).batch(BATCH).prefetch(4)

    def batched() -> tf.data.Dataset:
        # The dataset itself never ends.
        return canned_input_fn(paths, BATCH, spec())().take(rows // BATCH)

    def ours() -> float:
        return rows / seconds(input_fns.train_input_fn(spec(), paths, batch_size=BATCH, epochs=1))

    peers = {"parsing each record": per_record, "make_batched_features_dataset": batched}
    for name, peer in peers.items():
        compare(
            f"input, compared with {name} (ours gives ids, not strings)",
            ours, lambda peer=peer: rows / seconds(peer), rounds=rounds, unit="rows/s",
        )  # fmt: skip


def cache(paths: list[str], rows: int, folder: str, rounds: int) -> None:
    """Compares an epoch whose rows are in the cache with epochs without them."""

    def cold() -> float:
        shutil.rmtree(folder, ignore_errors=True)
        return epoch(paths, folder)

    def warm() -> float:
        return epoch(paths, folder)

    def without() -> float:
        return epoch(paths, None)

    compare("an epoch, warm cache, compared with a cold cache", warm_after(cold, warm), cold,
            rounds=rounds, unit="s", less_is_better=True)  # fmt: skip
    compare("an epoch, warm cache, compared with no cache", warm, without, rounds=rounds, unit="s",
            less_is_better=True)  # fmt: skip
    compare("an epoch, cold cache, compared with no cache", cold, without, rounds=rounds, unit="s",
            less_is_better=True)  # fmt: skip
    epoch(paths, folder)
    compare(
        "a later epoch of a run, warm cache, compared with no cache",
        lambda: later_epoch(paths, folder),
        lambda: later_epoch(paths, None), rounds=rounds, unit="s", less_is_better=True,
    )  # fmt: skip


def window(paths: list[str], rows: int, folder: str, rounds: int) -> None:
    """An epoch of seven days, with six of them in the cache, compared with no cache.

    A run needs some tenths of a second to make its graphs, so the ratio depends on the rows of a
    day. It is measured for days of one shard, and for days of eight shards in two files.
    """
    os.makedirs(f"{folder}-days")
    for name, days in {
        "one file": [[path] for path in paths],
        "two files": [pairs(paths, day, f"{folder}-days") for day in range(len(paths))],
    }.items():

        def ours(days=days, epochs=1) -> float:
            shutil.rmtree(folder, ignore_errors=True)
            epoch(files_of(days[:DAYS]), folder)
            return epoch(files_of(days[1 : DAYS + 1]), folder, epochs)

        def without(days=days, epochs=1) -> float:
            return epoch(files_of(days[1 : DAYS + 1]), None, epochs)

        rows_a_day = rows // len(paths) * (1 if name == "one file" else 8)
        for epochs in (1, 2):
            compare(
                f"{epochs} epochs of seven days of {rows_a_day:,} rows in {name}, one of them new, "
                "with the cache, compared with no cache",
                lambda ours=ours, epochs=epochs: ours(epochs=epochs),
                lambda without=without, epochs=epochs: without(epochs=epochs),
                rounds=rounds, unit="s", less_is_better=True,
            )  # fmt: skip


def counting(paths: list[str], rows: int, folder: str, rounds: int) -> None:
    """Seconds to count the records, by the CPU's clock, because reading uses two cores."""
    size = sum(os.path.getsize(path) for path in paths) / 1e9

    def ours() -> float:
        start = time.process_time()
        assert tfrecords.count_records(paths) == rows
        return (time.process_time() - start) / size

    def reading() -> float:
        start = time.process_time()
        read = tf.data.TFRecordDataset(paths, num_parallel_reads=2)
        found = read.reduce(tf.constant(0, tf.int64), lambda total, _: total + 1)
        assert found.numpy() == rows
        return (time.process_time() - start) / size

    compare(f"counting {size:.1f} GB of records, compared with reading them", ours, reading,
            rounds=rounds, unit="CPU s/GB", less_is_better=True)  # fmt: skip


def files_of(days: list[list[str]]) -> list[str]:
    return [path for day in days for path in day]


def pairs(paths: list[str], day: int, folder: str) -> list[str]:
    """Two files of a day, each the records of four shards; no two files of all days are alike."""
    made = []
    for distance in (1, 3):
        made.append(f"{folder}/day-{day}-{distance}.tfrecord")
        with open(made[-1], "wb") as file:
            for shard in ((day + distance * i) % len(paths) for i in range(4)):
                with open(paths[shard], "rb") as source:
                    shutil.copyfileobj(source, file)
    return made


def warm_after(cold, warm):
    def measure() -> float:
        cold()
        return warm()

    return measure


def epoch(paths: list[str], folder: str | None, epochs: int = 1) -> float:
    """Seconds of the first epochs of a run."""
    if folder is None:
        return seconds(input_fns.train_input_fn(spec(), paths, batch_size=BATCH, epochs=epochs))
    with RowCache(folder, limit=10 * GIB) as opened:
        return seconds(cached_input_fn(paths, opened, epochs))


def cached_input_fn(paths: list[str], cache: RowCache, epochs: int):
    source = Cached.of(Files(spec(), paths), cache)
    return input_fns.training_batches(source, batch_size=BATCH, span=Span(epochs=epochs))


def later_epoch(paths: list[str], folder: str | None) -> float:
    """Seconds of another epoch in the same run."""
    if folder is None:
        return epoch(paths, None)
    with RowCache(folder, limit=10 * GIB) as opened:
        input_fn = cached_input_fn(paths, opened, 1)
        input_fn()
        return seconds(input_fn)


def seconds(make_input) -> float:
    """How long it takes to make an input and read all of it."""
    start = time.perf_counter()
    batches = make_input().map(lambda features, label: tf.constant(1, tf.int64))
    batches.reduce(tf.constant(0, tf.int64), lambda total, one: total + one).numpy()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
