"""Parts of new_version.py that run in their own processes: loading a version, and a delta.

    python benchmarks/new_version_parts.py load EXPORT REQUESTS.npz
    python benchmarks/new_version_parts.py next_to EXPORT REQUESTS.npz OTHER_EXPORT
    python benchmarks/new_version_parts.py delta EXPORT REQUESTS.npz DELTA.npz

`load` loads an export as the server does, and sends it one request. `next_to` loads the other
export while a thread asks the first one: how long an answer takes at most, and how long another
thread of Python waits at most (for the interpreter's lock, or for a core). `delta` loads it, reads
changed rows from DELTA.npz (`ids_<n>` and `rows_<n>` of each table) and writes them into the
tables of the loaded session. Each prints one JSON line. The kit has no such delta; this only
measures its cost.
"""

from __future__ import annotations

import ctypes
import gc
import hashlib
import io
import json
import os
import pathlib
import sys
import threading
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf

from estimator_kit.serving.loaded_model import LoadedModel

OUTPUT = "click/logistic"
WIDTH = 16  # Floats in a row of a table.
REPEATS, WARM_UP = 300, 20
PAUSE_SECS, IDLE_SECS = 0.01, 5.0


def memory_mib(name: str) -> int:
    """VmRSS or VmHWM of this process."""
    status = pathlib.Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.split(f"{name}:")[1].split()[0]) // 1024


def records_of(path: str) -> np.ndarray:
    with np.load(path, allow_pickle=False) as file:
        parts = np.split(file["records"], np.cumsum(file["lengths"])[:-1])
    array = np.empty(len(parts), np.object_)
    array[:] = [part.tobytes() for part in parts]
    return array


def answer(model: LoadedModel, records: np.ndarray) -> np.ndarray:
    (name,) = model.signatures["serving_default"].inputs
    return model.run("serving_default", {name: records}, [OUTPUT])[OUTPUT]


def tables_in(graph: tf.Graph) -> dict[str, tf.Tensor]:
    """The handle of each table of `WIDTH` columns, by name."""
    handles = [op for op in graph.get_operations() if op.type == "VarHandleOp"]
    shapes = {op: [dim.size for dim in op.get_attr("shape").dim] for op in handles}
    return {
        op.name.replace("/", "-"): op.outputs[0]
        for op, shape in shapes.items()
        if len(shape) == 2 and shape[1] == WIDTH
    }


def quantiles_ms(model: LoadedModel, records: np.ndarray) -> dict[str, float]:
    taken = []
    for _ in range(WARM_UP + REPEATS):
        start = time.perf_counter()
        answer(model, records)
        taken.append(time.perf_counter() - start)
    p50, p99 = np.quantile(taken[WARM_UP:], [0.5, 0.99]) * 1000
    return {"p50_ms": float(p50), "p99_ms": float(p99)}


def load(export: str, requests: str) -> dict[str, float]:
    records, before = records_of(requests), memory_mib("VmRSS")
    start, cpu = time.perf_counter(), time.process_time()
    model = LoadedModel(export, 1)
    loaded, cpu_loaded = time.perf_counter(), time.process_time()
    answer(model, records)
    return {
        "load_secs": loaded - start,
        "load_cpu_secs": cpu_loaded - cpu,
        "first_answer_secs": time.perf_counter() - loaded,
        "mib": memory_mib("VmRSS") - before,
        "most_mib": memory_mib("VmHWM") - before,
    }


def next_to(export: str, requests: str, other: str) -> dict[str, float]:
    records, model = records_of(requests), LoadedModel(export, 1)
    answer(model, records)
    result: dict[str, float] = {}
    for when in ("idle", "loading"):
        over, longest = threading.Event(), {"answer": 0.0, "python": 0.0}
        works = {"answer": lambda: answer(model, records), "python": lambda: None}

        def repeat(name: str, over=over, longest=longest, works=works) -> None:
            while not over.is_set():
                start = time.perf_counter()
                over.wait(PAUSE_SECS)
                works[name]()
                longest[name] = max(longest[name], time.perf_counter() - start - PAUSE_SECS)

        threads = [threading.Thread(target=repeat, args=(name,)) for name in works]
        for thread in threads:
            thread.start()
        start = time.perf_counter()
        if when == "loading":
            loaded = LoadedModel(other, 2)
        else:
            time.sleep(IDLE_SECS)
        result[f"{when}_secs"] = time.perf_counter() - start
        over.set()
        for thread in threads:
            thread.join()
        result |= {f"{when}_longest_{name}_secs": value for name, value in longest.items()}
    result["both_mib"] = memory_mib("VmRSS")
    loaded.close()
    result["closed_mib"] = memory_mib("VmRSS")
    del loaded
    gc.collect()
    result["collected_mib"] = memory_mib("VmRSS")
    ctypes.CDLL(None).malloc_trim(0)
    result["trimmed_mib"] = memory_mib("VmRSS")
    return result


def delta(export: str, requests: str, path: str) -> dict[str, float]:
    records, model = records_of(requests), LoadedModel(export, 1)
    before = quantiles_ms(model, records)
    session, handles = model._session, tables_in(model._session.graph)
    start = time.perf_counter()
    data = pathlib.Path(path).read_bytes()
    hashlib.sha256(data).hexdigest()
    with np.load(io.BytesIO(data), allow_pickle=False) as file:
        parts = dict(file)
    names = [n.removeprefix("ids_") for n in sorted(parts) if n.startswith("ids_")]
    read = time.perf_counter()
    with session.graph.as_default():
        updates = []
        for name in names:
            ids, rows = (tf.compat.v1.placeholder(d) for d in (tf.int64, tf.float32))
            update = tf.raw_ops.ResourceScatterUpdate(
                resource=handles[name], indices=ids, updates=rows
            )
            updates.append((update, {ids: parts[f"ids_{name}"], rows: parts[f"rows_{name}"]}))
    for update, feeds in updates:
        session.run(update, feeds)
    assigned = time.perf_counter()
    with np.load(requests, allow_pickle=False) as file:
        np.testing.assert_allclose(answer(model, records), file["answer_1"], atol=1e-6)
    after = quantiles_ms(model, records)
    shapes = [handles[name].op.get_attr("shape").dim for name in names]
    tables = [np.ones([dim.size for dim in shape], np.float32) for shape in shapes]
    start_copy = time.perf_counter()
    copies = [table.copy() for table in tables]
    copied = time.perf_counter() - start_copy
    assert len(copies) == len(tables)
    return {
        "delta_mib": len(data) / 2**20,
        "read_secs": read - start,
        "assign_secs": assigned - read,
        "copy_tables_secs": copied,
        **{f"{name}_before": value for name, value in before.items()},
        **{f"{name}_after": value for name, value in after.items()},
    }


def main() -> None:
    part, *arguments = sys.argv[1:]
    print(json.dumps({"load": load, "next_to": next_to, "delta": delta}[part](*arguments)))


if __name__ == "__main__":
    main()
