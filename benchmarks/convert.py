"""Measures the speed and memory of --mode=convert: rows of 15 columns from Parquet to TFRecord.

    python benchmarks/convert.py
    python benchmarks/convert.py --rows 5000000 --order shuffled
    python benchmarks/convert.py --workers 1 --compression gzip

A row has a label, 5 floats, 4 integers and 5 strings (Zipf, up to a million different words each);
about 330 bytes as a record. The program generates the file into --data first, a million rows at a
time, and uses it again later. It prints one JSON line: rows a second of CPU time, which other work
on the machine changes least; rows a second of wall time; and the most memory that this process and
its children used together, sampled 20 times a second (`Pss`, which counts shared pages once). Run
nothing else on the machine.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from input_pipelines.errors import cores
from input_pipelines.prepare.convert.conversion import convert
from input_pipelines.prepare.convert.options import ConvertOptions

_CHUNK = 1_000_000


def table(count: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    columns = {"click": (rng.random(count) < 0.1).astype(np.int64)}
    for i in range(5):
        columns[f"number_{i}"] = rng.exponential(size=count).astype(np.float32)
    for i in range(4):
        columns[f"count_{i}"] = rng.integers(0, 10 ** (i + 2), count)
    for i in range(5):
        words = np.minimum(rng.zipf(1.3, size=count), 10**6)
        columns[f"word_{i}"] = pa.array(np.char.mod("%08x", words))
    return pa.table(columns)


def generate(folder: str, count: int) -> str:
    """The file with `count` rows; an existing file is used again."""
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, f"{count}.parquet")
    if not os.path.exists(path):
        with contextlib.ExitStack() as stack:
            writer = None
            for seed, start in enumerate(range(0, count, _CHUNK)):
                some = table(min(_CHUNK, count - start), seed)
                if writer is None:
                    writer = stack.enter_context(
                        pyarrow.parquet.ParquetWriter(path + ".tmp", some.schema)
                    )
                writer.write_table(some)
        os.replace(path + ".tmp", path)
    return path


class Memory:
    """The most memory that a process and those it started had in use, in MiB."""

    def __init__(self) -> None:
        self.most = 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Memory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(0.05):
            self.most = max(self.most, sum(map(_pss, _tree(os.getpid()))) / 1024)


def _tree(process: int) -> Iterator[int]:
    yield process
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{process}/task"):
            for child in Path(f"/proc/{process}/task/{thread}/children").read_text().split():
                yield from _tree(int(child))


def _pss(process: int) -> int:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1])
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--workers", type=int, default=cores(), help="one a core")
    parser.add_argument("--order", choices=("stable", "shuffled"), default="stable")
    parser.add_argument("--compression", choices=("none", "gzip"), default="none")
    parser.add_argument("--shard_mib", type=int, default=100)
    parser.add_argument("--data", default="data/benchmark_convert")
    arguments = parser.parse_args()
    path = generate(arguments.data, arguments.rows)
    out = os.path.join(arguments.data, "out")
    shutil.rmtree(out, ignore_errors=True)
    options = ConvertOptions(
        shard_mib=arguments.shard_mib, compression=arguments.compression, order=arguments.order
    )
    used = os.times()
    before = used.user + used.system
    with Memory() as memory:
        start = time.perf_counter()
        result = convert([path], directory=out, options=options, workers=arguments.workers)
        seconds = time.perf_counter() - start
    used = os.times()
    cpu = used.user + used.system + used.children_user + used.children_system - before
    line = {
        "benchmark": "convert",
        "order": arguments.order,
        "compression": arguments.compression,
        "rows": result.rows,
        "columns": len(result.plan.fields),
        "shards": len(result.shards),
        "mib": round(sum(shard.bytes for shard in result.shards.values()) / 2**20, 1),
        "workers": arguments.workers,
        "cores": os.cpu_count(),
        "seconds": round(seconds, 2),
        "rows_per_second": round(result.rows / seconds),
        "rows_per_cpu_second": round(result.rows / cpu),
        "peak_mib": round(memory.most),
    }
    shutil.rmtree(out)
    print(json.dumps(line))
    return 0


if __name__ == "__main__":
    sys.exit(main())
