"""Prints what this machine is and how fast its parts are, because the ratios depend on them.

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python benchmarks/machine.py

It prints one JSON line: the processor, the cores that this process may use, the third-level cache,
and three speeds of one core. `gflops` is a product of float32 matrices, which every model needs.
`copy_gb_s` is a copy of memory, reads and writes together. `row_ns` is one lookup in a table of
256 MB, of random rows of 16 numbers.
"""

from __future__ import annotations

import json
import os
import pathlib
import platform
import time
from collections.abc import Callable

import numpy as np

SIDE = 768  # Of the matrices.
BYTES = 64 * 2**20  # Of the memory that is copied, larger than most caches.
TABLE, LOOKUPS = (4_000_000, 16), 200_000
WIDE = ("avx2", "avx512f", "avx512_bf16", "amx_bf16")


def cpu_seconds(work: Callable[[], object], repeats: int = 20) -> float:
    """CPU seconds of one call, the mean of some calls after the first one."""
    work()
    start = time.process_time()
    for _ in range(repeats):
        work()
    return (time.process_time() - start) / repeats


def speeds() -> dict[str, float]:
    """Of one core."""
    random = np.random.default_rng(1)
    matrix = random.random((SIDE, SIDE), np.float32)
    source, target = np.ones(BYTES, np.uint8), np.empty(BYTES, np.uint8)
    table, rows = np.ones(TABLE, np.float32), random.integers(TABLE[0], size=LOOKUPS)
    return {
        "gflops": round(2 * SIDE**3 / cpu_seconds(lambda: matrix @ matrix) / 1e9, 1),
        "copy_gb_s": round(2 * BYTES / cpu_seconds(lambda: np.copyto(target, source)) / 1e9, 1),
        "row_ns": round(cpu_seconds(lambda: table[rows]) / LOOKUPS * 1e9),
    }


def processor() -> dict[str, object]:
    """What Linux says of the processor; None where it does not."""
    path = pathlib.Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    facts: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(":")
        facts.setdefault(name.strip(), value.strip())
    cache = pathlib.Path("/sys/devices/system/cpu/cpu0/cache/index3/size")
    return {
        "processor": facts.get("model name", platform.machine()),
        "cores": len(os.sched_getaffinity(0)),
        "l3": cache.read_text().strip() if cache.exists() else None,
        "vectors": [name for name in WIDE if name in facts.get("flags", "").split()],
    }


if __name__ == "__main__":
    print(json.dumps({**processor(), **speeds()}))
