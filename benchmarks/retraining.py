"""What a retraining cycle costs, by its stages: with a warm start, and from scratch.

    python benchmarks/retraining.py [--rows 31250] [--cycles 3] [--work_dir DIR]
        [--profile | --one_process]

It runs the command of examples/retraining on days of the default data, three times: the first
cycle, a cycle with one new day that starts from the live model, and a cycle with one more day that
starts from scratch. `--rows` is the size of a window: five days for training, and one for
evaluation. Each line has the CPU seconds of the process with its children, the seconds of the
clock, and the CPU seconds of the stages. `around` is the rest: the imports, and the pages at the
end. `--profile` writes the profile of each cycle's main thread to the work directory. With
`--one_process`, one process runs all cycles, as a worker of `retrain --watch` does; the first one
then has the imports.
benchmarks/README.md has results.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

from input_pipelines.synthetic import impression_log

ROOT = Path(__file__).parents[1]
_FLAGS = ROOT / "examples/retraining/retrain.flags"
_SPEC = ROOT / "examples/retraining/spec.yaml"
_WINDOW = 6  # Days for training and evaluation.
_CYCLES = ("first, from scratch", "warm start", "from scratch")


def prepare(folder: Path, rows: int) -> None:
    """Writes the data, the flags and the spec. Every second cycle trains from scratch."""
    days = _WINDOW + len(_CYCLES) - 1
    impression_log.generate(
        str(folder / "data/ads"), rows=days * (rows // _WINDOW), days=days, shards_per_day=2,
        first_day="2026-01-01",
    )  # fmt: skip
    kept = [line for line in _FLAGS.read_text().splitlines() if "generate_default" not in line]
    (folder / "retrain.flags").write_text("\n".join(kept) + "\n")
    spec = yaml.safe_load(_SPEC.read_text())
    spec["retraining"]["full_every"] = len(_CYCLES) - 1
    (folder / "spec.yaml").write_text(yaml.safe_dump(spec))
    words = folder / "vocabularies"
    words.mkdir(exist_ok=True)
    for path in _SPEC.with_name("vocabularies").iterdir():
        (words / path.name).write_bytes(path.read_bytes())


def _here(folder: Path, arguments: list[str]) -> None:
    from estimator_kit.main import main

    os.chdir(folder)
    with contextlib.redirect_stdout(sys.stderr):
        if main(["run.py", *arguments]):
            sys.exit(1)


def _elsewhere(folder: Path, start: list[str], arguments: list[str]) -> None:
    command = [sys.executable, *start, str(ROOT / "run.py"), *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stdout + done.stderr)


def _cpu() -> float:
    """CPU seconds of this process and of its children that have ended."""
    both = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in both)


def cycle(folder: Path, number: int, *, profile: bool, one_process: bool) -> None:
    """Runs one cycle and prints its line."""
    start = ["-m", "cProfile", "-o", f"{folder}/{number}.prof"] if profile else []
    arguments = [
        "--flagfile=retrain.flags", "--mode=retrain", "--spec=spec.yaml",
        f"--as_of=2026-01-{_WINDOW + number - 1:02d}",
    ]  # fmt: skip
    before, begun = _cpu(), time.perf_counter()
    _here(folder, arguments) if one_process else _elsewhere(folder, start, arguments)
    cpu = _cpu() - before
    place = folder / f"runs/retraining/cycles/{number:04d}"
    names = ("window", "vocabularies", "checks", "train", "gate", "promote", "clean")
    stages = {name: json.loads((place / f"{name}.json").read_text()) for name in names}
    taken = {name: stage["cpu_seconds"] for name, stage in stages.items()}
    line = {
        "cycle": _CYCLES[number - 1],
        "started_from": stages["train"]["start"]["kind"],
        "rows_trained": stages["train"]["rows_trained"],
        "cpu_seconds": round(cpu, 1),
        "seconds": round(time.perf_counter() - begun, 1),
        "stages": {
            **{name: round(value, 2) for name, value in taken.items()},
            "around": round(cpu - sum(taken.values()), 2),
        },
    }
    print(json.dumps(line), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=31_250)
    parser.add_argument("--cycles", type=int, default=len(_CYCLES), help="the first ones")
    parser.add_argument("--work_dir")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--one_process", action="store_true")
    arguments = parser.parse_args()
    os.environ["PYTHONPATH"] = str(ROOT)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(arguments.work_dir or temporary).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        prepare(folder, arguments.rows)
        for number in range(1, arguments.cycles + 1):
            cycle(folder, number, profile=arguments.profile, one_process=arguments.one_process)


if __name__ == "__main__":
    main()
