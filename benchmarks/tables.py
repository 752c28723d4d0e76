"""Training straight from Parquet, compared with training from TFRecord files: whole runs.

    python benchmarks/tables.py [--rows 262144] [--rounds 5]

Each run is a process that reads every row once, from a Parquet file or from the TFRecord files that
`convert` makes of it, and trains the DNN of `speed.py`. The first run with a Parquet file converts
it into a folder of the cache, and later runs read that. Transformed rows of an earlier run are
removed before each run. A fourth side runs `convert` and then a training, as two commands. Each
line has rows a second of the clock, and `cpu` microseconds of all processes for each row.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

import click_logs
import numpy as np
import pyarrow as pa
import pyarrow.parquet
from side_by_side import Measured, in_turn, report, rows_a_second
from training_speed import BATCH, RATE, UNITS

ROOT = Path(__file__).parents[1]
RUN = str(ROOT / "run.py")


def prepare(folder: str, rows: int) -> None:
    """Writes the spec and the rows, as Parquet."""
    Path(folder, "spec.json").write_text(json.dumps(click_logs.document()), encoding="utf-8")
    parts = [click_logs.columns(rows // 4, seed=i) for i in range(4)]
    made = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    columns = {
        name: pa.array(values.astype(str) if values.dtype.kind == "S" else values)
        for name, values in made.items()
    }
    pyarrow.parquet.write_table(pa.table(columns), f"{folder}/rows.parquet")


def convert(folder: str) -> list[str]:
    return [
        sys.executable, RUN, "convert", f"--spec={folder}/spec.json",
        f"--convert_files={folder}/rows.parquet", f"--convert_dir={folder}/records",
    ]  # fmt: skip


def train(folder: str, files: str) -> list[str]:
    for name in ("model", "cache/estimator_kit/rows"):
        shutil.rmtree(f"{folder}/{name}", ignore_errors=True)
    return [
        sys.executable, RUN, "train", f"--spec={folder}/spec.json", f"--train_files={files}",
        "--epochs=1",
        f"--batch_size={BATCH}", "--model=dnn", f"--model_params=hidden_units={[*UNITS]}",
        "--model_params=optimizer=adagrad", f"--model_params=learning_rate={RATE}",
        f"--model_dir={folder}/model", "--report=off",
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=262_144)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    os.environ["PYTHONPATH"] = str(ROOT)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = f"{folder}/cache"
        prepare(folder, arguments.rows)
        table, records = f"{folder}/rows.parquet", f"{folder}/records/*.tfrecord"

        def both() -> Measured:
            shutil.rmtree(f"{folder}/records", ignore_errors=True)
            return rows_a_second(arguments.rows, convert(folder), train(folder, records))

        def first() -> Measured:
            shutil.rmtree(f"{folder}/cache", ignore_errors=True)
            return rows_a_second(arguments.rows, train(folder, table))

        def of(files: str) -> Measured:
            return rows_a_second(arguments.rows, train(folder, files))

        ways = {"both": both, "first": first, "later": lambda: of(table),
                "records": lambda: of(records)}  # fmt: skip
        measured = in_turn(ways, arguments.rounds)
    for title, ours, peer in (
        ("the first run with Parquet, compared with `convert` and a run", "first", "both"),
        ("the first run with Parquet, compared with TFRecord files", "first", "records"),
        ("a later run with Parquet, compared with TFRecord files", "later", "records"),
    ):
        report(title, measured[ours], measured[peer], "rows/s")


if __name__ == "__main__":
    main()
