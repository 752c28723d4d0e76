"""What a short training run costs by its size: columns, objectives, rows and files.

    python benchmarks/size.py [--columns 1,40,400,2000] [--objectives 1,20,200]
        [--rows 100000,1000000,10000000] [--files 1,100,10000] [--rounds 5]
        [--only start,bare,columns,objectives,rows,files]

Every run is a process that trains 10 steps of a DNN and writes a checkpoint. Each column is an
embedding of a hashed string, and every fourth one is a number. Each line has the CPU seconds of the
process with its children, the seconds of the clock, its memory, and the bytes of the model
directory. `start` compares the imports of a training with `import tensorflow`. `bare` compares the
run of 400 columns with the least program that trains the same tables: one TensorFlow graph with
Adam and a MonitoredTrainingSession, ten steps on one batch, and two checkpoints. It reads no files,
transforms no strings, and exports nothing. Runs with rows and files read all of them once
(`--epochs=1`) in batches of 2,048.
benchmarks/README.md has results. 10^7 rows need 10 GB of disk. To draw the lines that it prints:

    python benchmarks/size.py > sizes.jsonl
    python benchmarks/plot_size.py sizes.jsonl docs/images/size.svg
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from side_by_side import compare, cpu_of

from input_pipelines.record_files import writing

ROOT = Path(__file__).parents[1]

OURS = "from estimator_kit import main; main.load('train')"
THEIRS = "import tensorflow"


def spec(columns: int, objectives: int) -> dict[str, Any]:
    """A spec as a document. Feature i is a number if i is a multiple of 4, but not 0."""
    numbers = {f"f{i}" for i in range(4, columns, 4)}
    names = [f"f{i}" for i in range(columns)]
    made = {}
    for name in names:
        if name in numbers:
            made[f"{name}_n"] = {"numeric": name}
        else:
            made[f"{name}_id"] = {"hash_bucket": name, "size": 100}
            made[f"{name}_vec"] = {"embedding": f"{name}_id", "dimension": 8}
    return {
        "features": {n: {"dtype": "float32" if n in numbers else "string"} for n in names},
        "labels": {f"y{i}": {"dtype": "int64"} for i in range(objectives)},
        "columns": made,
        "groups": {"deep": [name for name in made if not name.endswith("_id")]},
        "objectives": {f"y{i}": {"head": "binary"} for i in range(objectives)},
    }


def rows(document: dict[str, Any], count: int) -> Iterator[dict[str, Any]]:
    """Rows with the features and labels of a spec."""
    rng = np.random.default_rng(1)
    for _ in range(count):
        values = rng.integers(100, size=len(document["features"]))
        row: dict[str, Any] = {
            name: float(value) if entry["dtype"] == "float32" else f"w{value}"
            for (name, entry), value in zip(document["features"].items(), values)
        }
        yield {**row, **{label: int(values[0] % 2) for label in document["labels"]}}


def measure(what: str, size: int, folder: str, *flags: str) -> None:
    """Runs a training and prints its line."""
    model_dir = Path(folder, "model")
    command = [sys.executable, str(ROOT / "run.py"), "train", f"--spec={folder}/spec.json",
               f"--train_files={folder}/*.tfrecord", f"--model_dir={model_dir}", "--model=dnn",
               "--model_params=hidden_units=[16]", "--report=off", *flags]  # fmt: skip
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    stored = sum(path.stat().st_size for path in model_dir.rglob("*") if path.is_file())
    line = {
        what: size,
        "cpu_seconds": round(cpu, 1),
        "seconds": round(time.perf_counter() - start, 1),
        "largest_mib_so_far": after.ru_maxrss // 1024,
        "model_dir_mb": round(stored / 1e6, 1),
    }
    print(json.dumps(line), flush=True)


def train_bare(columns: int) -> None:
    """Ten steps of a graph with the tables and numbers of `spec(columns, 1)`, without the kit."""
    import tensorflow as tf

    v1 = tf.compat.v1
    v1.disable_eager_execution()
    ids, numbers = tf.zeros([64], tf.int64), tf.ones([64, len(range(4, columns, 4))])
    tables = [v1.get_variable(f"table{i}", [100, 8]) for i in range(columns - numbers.shape[1])]
    hidden = tf.concat([numbers, *(tf.gather(table, ids) for table in tables)], 1)
    for units in (16, 1):
        kernel = v1.get_variable(f"kernel{units}", [hidden.shape[1], units])
        hidden = hidden @ kernel + v1.get_variable(f"bias{units}", [units])
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(tf.ones([64, 1]), hidden))
    step = v1.train.get_or_create_global_step()
    train = v1.train.AdamOptimizer().minimize(loss, step)
    with (
        tempfile.TemporaryDirectory() as folder,
        v1.train.MonitoredTrainingSession(checkpoint_dir=folder, save_summaries_secs=600) as run,
    ):
        for _ in range(10):
            run.run(train)


def compare_with_bare(rounds: int, columns: int = 400) -> None:
    """The CPU seconds of a run with these columns, and of TensorFlow alone."""
    document = spec(columns, 1)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "spec.json").write_text(json.dumps(document), encoding="utf-8")
        writing.write_examples(f"{folder}/0.tfrecord", rows(document, 640))
        command = [sys.executable, str(ROOT / "run.py"), "train", f"--spec={folder}/spec.json",
                   f"--train_files={folder}/*.tfrecord", "--model=dnn", "--report=off",
                   "--model_params=hidden_units=[16]", "--batch_size=64",
                   "--max_steps=10"]  # fmt: skip
        number = iter(range(1000))
        compare(f"10 steps with {columns} columns, compared with a bare TensorFlow graph",
                lambda: cpu_of([*command, f"--model_dir={folder}/{next(number)}"]),
                lambda: cpu_of([sys.executable, __file__, f"--train_bare={columns}"]),
                rounds=rounds, unit="CPU s", less_is_better=True)  # fmt: skip


def run(what: str, size: int) -> None:
    """One measurement."""
    document = spec(size if what == "columns" else 40, size if what == "objectives" else 1)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "spec.json").write_text(json.dumps(document), encoding="utf-8")
        if what in ("columns", "objectives"):
            writing.write_examples(f"{folder}/0.tfrecord", rows(document, 640))
            measure(what, size, folder, "--batch_size=64", "--max_steps=10")
            return
        files = size if what == "files" else 8
        count = (size if what == "rows" else 100_000) // files
        block = min(count, 1000)  # The rows of a file repeat, so that 10^7 are written in a minute.
        writing.write_examples(f"{folder}/block", rows(document, block))
        records = Path(folder, "block").read_bytes()
        for i in range(files):
            with Path(folder, f"{i:05}.tfrecord").open("wb") as file:
                file.writelines([records] * (count // block))
        measure(what, size, folder, "--batch_size=2048", "--epochs=1")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    sizes = {
        "columns": "1,40,400,2000",
        "objectives": "1,20,200",
        "rows": "100000,1000000,10000000",
        "files": "1,100,10000",
    }
    for what, default in sizes.items():
        parser.add_argument(f"--{what}", default=default)
    parser.add_argument("--rounds", type=int, default=5, help="of start and bare")
    parser.add_argument("--only", default=",".join(["start", "bare", *sizes]))
    parser.add_argument("--train_bare", type=int, help="only trains TensorFlow's side of bare")
    arguments = parser.parse_args()
    if arguments.train_bare:
        train_bare(arguments.train_bare)
        return
    os.environ["PYTHONPATH"] = str(ROOT)
    parts = arguments.only.split(",")
    if "start" in parts:
        compare("the imports of a training, compared with `import tensorflow`",
                lambda: cpu_of([sys.executable, "-c", OURS]),
                lambda: cpu_of([sys.executable, "-c", THEIRS]), rounds=arguments.rounds,
                unit="CPU s", less_is_better=True)  # fmt: skip
    if "bare" in parts:
        compare_with_bare(arguments.rounds)
    for what in parts:
        if what in ("start", "bare"):
            continue
        for size in getattr(arguments, what).split(","):
            run(what, int(size))


if __name__ == "__main__":
    main()
