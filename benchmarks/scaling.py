"""Measures how training scales with 1, 2 and 4 tasks, and what a step sends.

    python benchmarks/scaling.py [--step_ms 100] [--steps 60] [--batch_size 128]

Each measurement is a cluster of real processes on the loopback interface, started by
--launch_local: one chief, the workers, and one ps if the strategy has any. Every task has one
thread of each kind, and its step takes --step_ms longer (see `scaling_model.py`), like a step of a
larger model on its own machine. The program prints one JSON line for each measurement:
`examples_a_second` of all tasks together, while all of them train; `scaling`, this number divided
by the tasks and by the number of one task; `kib_a_batch`, the traffic on the loopback interface for
each batch. Nothing else should use that interface.

First, it measures what a ps does with the rows of a table: `gathered` and `updated` (by Adagrad)
rows in a second of one core, in a table of 10 million rows of 16 numbers, for 26,624 random ids at
a time.
"""

from __future__ import annotations

import argparse
import glob
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

ROOT = pathlib.Path(__file__).parent.parent
STRATEGIES = ("parameter_server", "sync_replicas", "multi_worker_mirrored")
TASKS = (1, 2, 4)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--step_ms", type=float, default=100)
    parser.add_argument("--steps", type=int, default=60, help="of each task")
    parser.add_argument("--batch_size", type=int, default=128)
    parser.add_argument("--strategies", default=",".join(STRATEGIES))
    arguments = parser.parse_args()
    measure_rows()
    with tempfile.TemporaryDirectory() as folder:
        make_data(folder)
        for strategy in arguments.strategies.split(","):
            alone = None
            for tasks in TASKS:
                rate, bytes_a_batch = measure(folder, strategy, tasks, arguments)
                alone = alone or rate
                line = {
                    "name": strategy, "tasks": tasks, "examples_a_second": round(rate),
                    "scaling": round(rate / alone / tasks, 2),
                    "kib_a_batch": round(bytes_a_batch / 1024, 1),
                }  # fmt: skip
                print(json.dumps(line), flush=True)


def measure_rows(rows: int = 10_000_000, ids: int = 26_624, rounds: int = 30) -> None:
    """Prints the rows that one core gathers and updates in a second."""
    import numpy as np
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    table, slot = (tf.Variable(tf.ones([rows, 16])) for _ in range(2))
    gradient = tf.ones([ids, 16])
    rng = np.random.default_rng(1)
    batches = [tf.constant(rng.integers(0, rows, ids)) for _ in range(rounds)]

    @tf.function
    def gather(batch):
        return tf.reduce_sum(tf.gather(table, batch))

    @tf.function
    def update(batch):
        tf.raw_ops.ResourceSparseApplyAdagrad(
            var=table.handle, accum=slot.handle, lr=0.1, grad=gradient, indices=batch
        )

    line = {"name": "rows a second of a core"}
    for name, function in (("gathered", gather), ("updated", update)):
        function(batches[0])
        begun = time.process_time()
        for batch in batches:
            function(batch)
        line[name] = round(rounds * ids / (time.process_time() - begun))
    print(json.dumps(line), flush=True)


def make_data(folder: str) -> None:
    subprocess.run(
        [sys.executable, "-m", "input_pipelines.synthetic", f"--out_dir={folder}/ads",
         "--rows=50000"],
        cwd=ROOT, check=True, capture_output=True,
    )  # fmt: skip


def measure(
    folder: str, strategy: str, tasks: int, arguments: argparse.Namespace
) -> tuple[float, float]:
    """Returns the examples a second and the bytes a batch of one cluster."""
    name = f"{strategy}-{tasks}"
    times = os.path.join(folder, f"{name}.times")
    os.mkdir(times)
    jobs = f"chief:1,worker:{tasks - 1}"
    if strategy != "multi_worker_mirrored":
        jobs += ",ps:1"
    cluster = [f"--strategy={strategy}", f"--launch_local={jobs}"]
    if strategy == "multi_worker_mirrored" and tasks == 1:
        cluster = []  # There is nobody to reduce with.
    # A step of an asynchronous task is one batch, a synchronous step one batch of each.
    steps = arguments.steps * (tasks if strategy == "parameter_server" else 1)
    done = subprocess.run(
        [
            sys.executable, "run.py", "--spec=feature_specs/catalog/ads.yaml",
            f"--train_files={folder}/ads/dt=2026-01-0[1-7]/*.tfrecord",
            f"--model_dir={folder}/{name}", "--model=benchmarks.scaling_model:WaitingModel",
            "--mode=train", f"--batch_size={arguments.batch_size}", f"--max_steps={steps}",
            *cluster, "--threads=1",
        ],
        cwd=ROOT, capture_output=True, text=True, check=False,
        env={
            **os.environ, "PYTHONPATH": str(ROOT), "SCALING_DIR": times,
            "SCALING_STEP_MS": str(arguments.step_ms),
        },
    )  # fmt: skip
    if done.returncode != 0:
        sys.exit(f"{name} ended with {done.returncode}:\n{done.stderr[-4000:]}")
    return rates(times, tasks, arguments.batch_size)


def rates(folder: str, tasks: int, batch_size: int) -> tuple[float, float]:
    """Examples a second and bytes a batch, from the files that the tasks left."""
    series = []
    for path in glob.glob(f"{folder}/*.txt"):
        lines = [line.split() for line in pathlib.Path(path).read_text().splitlines()]
        # The first steps make connections and trace.
        series.append([(float(when), int(carried)) for when, carried in lines[5:]])
    if len(series) != tasks or not all(series):
        sys.exit(f"{folder}: {len(series)} of {tasks} tasks have trained for more than 5 steps")
    begin, end = max(one[0][0] for one in series), min(one[-1][0] for one in series)
    inside = sorted(step for one in series for step in one if begin <= step[0] <= end)
    if len(inside) < 2 * tasks:
        sys.exit(f"{folder}: the tasks have not trained at the same time; take more --steps")
    (first, sent), (last, sent_by_then) = inside[0], inside[-1]
    batches = len(inside) - 1
    return batches * batch_size / (last - first), (sent_by_then - sent) / batches


if __name__ == "__main__":
    main()
