"""Compares the training speed of the same model on several TensorFlow versions.

    python benchmarks/tensorflow_versions.py --python .venv/tf2.15-py3.11/bin/python \\
        --python .venv/tf2.21-py3.13/bin/python

It trains the experiment of exp.flags for some epochs in new processes, in turn on each Python,
after one round that does not count. It prints one JSON line for each measurement (examples a second
between the first and the last step, without start and evaluations), then each median and its ratio
to the median of the first Python. Run nothing else on the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def train(python: str, data: str, epochs: int) -> tuple[str, float]:
    """Trains once; the TensorFlow version and the examples a second."""
    with tempfile.TemporaryDirectory() as model_dir:
        done = subprocess.run(
            [
                python, "run.py", "--flagfile=exp.flags", "--mode=train",
                f"--generate_default_data={data}",
                f"--train_files={data}/dt=2026-01-0[1-7]/*.tfrecord", f"--epochs={epochs}",
                f"--model_dir={model_dir}", "--save_checkpoints_steps=1000000",
            ],
            cwd=ROOT, capture_output=True, text=True,
        )  # fmt: skip
        if done.returncode:
            raise SystemExit(f"{python}: exit status {done.returncode}\n{done.stderr}")
        versions = json.loads(Path(model_dir, "versions.json").read_text())
        result = json.loads(Path(model_dir, "result.json").read_text())
    return versions["tensorflow"], result["examples_per_second"]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--python", action="append", required=True, help="repeat for each TensorFlow"
    )
    parser.add_argument(
        "--rounds", type=int, default=5, help="trainings that count, on each Python"
    )
    parser.add_argument(
        "--epochs", type=int, default=8, help="epochs of 175,000 rows in each training"
    )
    parser.add_argument("--data", default="data/ads", help="the default data; generated if missing")
    arguments = parser.parse_args()
    pythons = [os.path.abspath(p) if os.sep in p else p for p in arguments.python]

    rates: dict[str, list[float]] = {}
    for round_ in range(arguments.rounds + 1):
        for python in pythons:
            version, rate = train(python, arguments.data, arguments.epochs)
            line = {"tensorflow": version, "round": round_, "examples_per_second": round(rate)}
            print(json.dumps({**line, "counted": round_ > 0}), flush=True)
            if round_:
                rates.setdefault(f"{version} ({python})", []).append(rate)
    medians = {version: statistics.median(values) for version, values in rates.items()}
    first = next(iter(medians.values()))
    for version, median in medians.items():
        ratio = {"tensorflow": version, "median": round(median), "ratio": round(median / first, 3)}
        print(json.dumps(ratio))
    return 0


if __name__ == "__main__":
    sys.exit(main())
