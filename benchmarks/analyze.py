"""Measures the speed of --mode=analyze: one reading of records with 40 features.

    python benchmarks/analyze.py
    python benchmarks/analyze.py --rows 100000 --workers 1
    python benchmarks/analyze.py --format parquet       # the same rows; or csv, without the lists

A record has 13 floats, 24 strings (Zipf, up to a million different words each), a list of 0 to 4
words, an integer and a label; about 800 bytes. The program generates the records into --data first,
and uses them again later. It prints one JSON line, for the pass from its start, with its processes,
to the finished statistics. Run nothing else on the machine; other work changes
`rows_per_cpu_second` least.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

from input_pipelines.record_files import writing

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np

from input_pipelines.prepare.analyze.scan import scan

FLOATS, WORDS = 13, 24
ROWS_A_FILE = 50_000


def rows(count: int, seed: int):
    """Records by column, as NumPy makes them fast, turned into rows."""
    rng = np.random.default_rng(seed)
    floats = rng.exponential(size=(FLOATS, count)).astype(np.float32)
    words = np.minimum(rng.zipf(1.3, size=(WORDS, count)), 10**6)
    tags = rng.integers(0, 50, size=(count, 4))
    lengths, hours = rng.integers(0, 5, count), rng.integers(0, 24, count)
    labels = rng.random(count) < 0.1
    for i in range(count):
        yield {
            "click": int(labels[i]),
            "hour": int(hours[i]),
            "tags": [f"tag {tag}" for tag in tags[i, : lengths[i]]],
            **{f"number_{j}": float(floats[j, i]) for j in range(FLOATS)},
            **{f"word_{j}": f"{words[j, i]:08x}" for j in range(WORDS)},
        }


def write(path: str, table) -> None:
    """The rows as a file of the kind that its name says."""
    if path.endswith(".tfrecord"):
        writing.write_examples(path, table)
        return
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    columns = pa.Table.from_pylist(list(table))
    temporary = f"{path}.tmp"
    if path.endswith(".parquet"):
        pyarrow.parquet.write_table(columns, temporary)
    else:
        pyarrow.csv.write_csv(columns.drop_columns(["tags"]), temporary)
    os.replace(temporary, path)


def generate(folder: str, count: int, suffix: str) -> list[str]:
    """The files of `count` rows; those that are there are kept."""
    os.makedirs(folder, exist_ok=True)
    paths = []
    for i, start in enumerate(range(0, count, ROWS_A_FILE)):
        size = min(ROWS_A_FILE, count - start)
        paths.append(os.path.join(folder, f"{i:03}-{size}.{suffix}"))
        if not os.path.exists(paths[-1]):
            write(paths[-1], rows(size, seed=i))
    return paths


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=800_000)
    parser.add_argument("--workers", type=int, default=None, help="processes; one a core")
    parser.add_argument("--format", choices=("tfrecord", "parquet", "csv"), default="tfrecord")
    parser.add_argument("--data", default="data/benchmark_analyze")
    arguments = parser.parse_args()
    files = generate(arguments.data, arguments.rows, arguments.format)
    used = os.times()
    before = used.user + used.system
    start = time.perf_counter()
    statistics = scan(files, workers=arguments.workers).statistics(len(files))
    seconds = time.perf_counter() - start
    used = os.times()
    cpu = used.user + used.system + used.children_user + used.children_system - before
    line = {
        "benchmark": "analyze",
        "format": arguments.format,
        "rows": statistics.rows,
        "features": len(statistics.features),
        "bytes": sum(os.path.getsize(path) for path in files),
        "workers": arguments.workers or "one a core",
        "cores": os.cpu_count(),
        "seconds": round(seconds, 2),
        "rows_per_second": round(statistics.rows / seconds),
        "rows_per_cpu_second": round(statistics.rows / cpu),
    }
    print(json.dumps(line))
    return 0


if __name__ == "__main__":
    sys.exit(main())
