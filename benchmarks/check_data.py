"""Compares the speed of --mode=check_data with reading the files and doing nothing.

    python benchmarks/check_data.py
    python benchmarks/check_data.py --files 16 --rows 50000

A record has 13 floats and 24 strings, about 800 bytes. The program generates the files into --data
first, and uses them again later. It prints one JSON line. All sides read all files, one round after
the other, and the median counts. `plain_read` is the speed of the disk or, here, of the page cache.
`tfrecord_dataset` is TensorFlow's reader, file after file, which only checks checksums. `blocks` is
the reader of trainings, which tf.data runs, and `lists` is the reader for code in Python. `cpu` has
the CPU seconds for a gigabyte, which other work on the machine changes least. `cpu_of_a_small_file`
has the CPU milliseconds of reading 500 records.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

from input_pipelines.record_files import writing

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
import tensorflow as tf

import feature_specs
from input_pipelines.integrity import data_scan
from input_pipelines.record_files import record_lists, tfrecords

FLOATS, WORDS = 13, 24


def rows(count: int, seed: int):
    rng = np.random.default_rng(seed)
    floats = rng.exponential(size=(count, FLOATS))
    words = np.minimum(rng.zipf(1.3, size=(count, WORDS)), 10**6)
    for i in range(count):
        yield {
            "click": int(i % 10 == 0),
            **{f"number_{j}": float(floats[i, j]) for j in range(FLOATS)},
            **{f"word_{j}": f"{words[i, j]:08x}" for j in range(WORDS)},
        }


def spec():
    numbers = {f"number_{j}": {"dtype": "float32"} for j in range(FLOATS)}
    words = {f"word_{j}": {"dtype": "string"} for j in range(WORDS)}
    columns = {
        **{name: {"numeric": name} for name in numbers},
        **{name: {"hash_bucket": name, "size": 1000} for name in words},
    }
    return feature_specs.parse(
        {
            "features": {**numbers, **words},
            "columns": columns,
            "groups": {"wide": list(columns)},
            "labels": {"click": {"dtype": "int64"}},
            "objectives": {"click": {"head": "binary"}},
        }
    )


def read_plainly(paths) -> None:
    for path in paths:
        with open(path, "rb") as file:
            while file.read(2**22):
                pass


def count_with_tensorflow(paths) -> None:
    for path in paths:
        for _ in tf.data.TFRecordDataset(path).batch(tfrecords.BLOCK):
            pass


def count_blocks(paths) -> None:
    for path in paths:
        for _ in tfrecords.blocks([path]):
            pass


def count_lists(paths) -> None:
    for path in paths:
        for _ in record_lists.of_files([path]):
            pass


def cpu_of(side: Callable[[], object]) -> float:
    before = time.process_time()
    side()
    return time.process_time() - before


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--files", type=int, default=8)
    parser.add_argument("--rows", type=int, default=25_000, help="in a file")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--data", default="data/benchmark_check_data")
    arguments = parser.parse_args()
    paths = []
    for i in range(arguments.files):
        paths.append(os.path.join(arguments.data, f"{i:03}-{arguments.rows}.tfrecord"))
        if not os.path.exists(paths[-1]):
            writing.write_examples(paths[-1], rows(arguments.rows, seed=i))
    size = sum(map(os.path.getsize, paths))
    of_spec = spec()
    sides: dict[str, Callable[[], object]] = {
        "plain_read": lambda: read_plainly(paths),
        "tfrecord_dataset": lambda: count_with_tensorflow(paths),
        "blocks": lambda: count_blocks(paths),
        "lists": lambda: count_lists(paths),
        "check_data": lambda: data_scan.scan(paths),
        "check_data_with_spec": lambda: data_scan.scan(paths, spec=of_spec),
    }
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    cpu: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(arguments.rounds):
        for name, side in sides.items():
            start, before = time.perf_counter(), time.process_time()
            side()
            seconds[name].append(time.perf_counter() - start)
            cpu[name].append(time.process_time() - before)
    small = os.path.join(arguments.data, "small.tfrecord")
    writing.write_examples(small, rows(500, seed=0))
    readers = {"blocks": count_blocks, "lists": count_lists}
    small_cpu = {
        name: [cpu_of(functools.partial(reader, [small])) for _ in range(20)]
        for name, reader in readers.items()
    }
    line = {
        "benchmark": "check_data",
        "bytes": size,
        "records": arguments.files * arguments.rows,
        "cores": os.cpu_count(),
        "megabytes_per_second": {
            name: round(size / 1e6 / statistics.median(values)) for name, values in seconds.items()
        },
        "cpu": {
            name: round(statistics.median(values) / (size / 1e9), 2) for name, values in cpu.items()
        },
        "cpu_of_a_small_file": {
            name: round(statistics.median(values) * 1000, 1) for name, values in small_cpu.items()
        },
    }
    print(json.dumps(line))
    return 0


if __name__ == "__main__":
    sys.exit(main())
