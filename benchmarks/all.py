"""Measures the numbers that README.md and docs quote, and writes them there: `make benchmark`.

    python benchmarks/all.py [--rounds 3] [--only speed,run,wide_deep,serving,short_runs]

It runs the other benchmarks and collects their lines. With three rounds it took 17 minutes on two
slow cores that did nothing else, with five 12 minutes on two faster ones. Whole processes (`run`
and `short_runs`) have half as many rounds, because they take long, and only their start varies. It
writes the tables in docs/reference/speed.md and the number in README.md if it measured everything.
With `--only` it only prints.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys
from collections.abc import Mapping
from importlib import metadata
from typing import Any

from side_by_side import cpu_of, spread

ROOT = pathlib.Path(__file__).parents[1]
PAGE = ROOT / "docs/reference/speed.md"
README = ROOT / "README.md"
TRAINING = "training from TFRecords, compared with the canned DNNClassifier"
CLAIM = re.compile(r"(?<=trains )[\d.]+(?=\s+times\s+as\s+many\s+rows)")
BLOCK = re.compile(r"(?<=<!-- numbers -->\n).*(?=<!-- end of numbers -->)", re.S)

# What prints comparisons. A whole run has more rows, because its start takes as long as many rows.
PROGRAMS = {
    "speed": ["speed.py", "--only=input,training,cached,serving", "--rows=98304"],
    "run": ["speed.py", "--only=run", "--rows=147456"],
    "wide_deep": ["wide_deep.py", "--rows=49152"],
    "serving": ["serving.py", "--only=requests", "--examples=1"],
}
# What prints the CPU seconds of short runs: in each round, `import tensorflow` and these.
SHORT_RUNS = (
    ["size.py", "--only=columns,objectives", "--columns=40,400", "--objectives=50"],
    ["retraining.py", "--cycles=2"],
)
IMPORT = "`import tensorflow`"
COMPARED = {
    "10 steps, 40 columns": IMPORT,
    "10 steps, 400 columns": "10 steps, 40 columns",
    "10 steps, 50 objectives": "10 steps, 40 columns",
    "a warm retraining cycle": "a first retraining cycle",
}


def lines_of(program: list[str], *options: str) -> list[dict[str, Any]]:
    """What a benchmark prints. Prints it, too."""
    path, *rest = program
    command = [sys.executable, str(ROOT / "benchmarks" / path), *rest, *options]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    if done.returncode:
        raise SystemExit(f"{command}: exit status {done.returncode}")
    print(done.stdout, end="", flush=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def short_runs() -> dict[str, float]:
    """The CPU seconds of one round."""
    seconds = {IMPORT: cpu_of([sys.executable, "-c", "import tensorflow"])}
    for line in (line for program in SHORT_RUNS for line in lines_of(program)):
        if "cycle" in line:
            name = f"a {'first' if line['started_from'] == 'scratch' else 'warm'} retraining cycle"
        else:
            kind = "columns" if "columns" in line else "objectives"
            name = f"10 steps, {line[kind]} {kind}"
        seconds[name] = line["cpu_seconds"]
    return seconds


def machine() -> dict[str, Any]:
    """See machine.py. One thread, because it measures one core."""
    os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
    (line,) = lines_of(["machine.py"])
    del os.environ["OMP_NUM_THREADS"], os.environ["OPENBLAS_NUM_THREADS"]
    return line


def page(
    place: dict[str, Any], compared: list[dict[str, Any]], short: list[dict[str, float]]
) -> str:
    """The text of the block in docs/reference/speed.md."""
    where = (
        f"{place['processor']}, {place['cores']} cores ({', '.join(place['vectors'])}), "
        f"third-level cache {place['l3']}"
    )
    return "\n".join([
        "| measured on | |", "| --- | --- |",
        f"| machine | {where} |",
        f"| float32 matrix products, one core | {place['gflops']} GFLOP/s |",
        f"| copy of memory, one core | {place['copy_gb_s']} GB/s |",
        f"| lookup of a random row, one core | {place['row_ns']} ns |",
        f"| TensorFlow, Python | {metadata.version('tensorflow')}, {platform.python_version()} |",
        f"| threads, rounds | one for each core (the default), {place['rounds']} |",
        f"| load before the start | {place['load']} |",
        "",
        "| what | ours | other side | ratio | ratio of CPU time |",
        "| --- | --- | --- | --- | --- |",
        *map(_comparison, compared),
        "",
        "| CPU seconds of | | compared with | | ratio |",
        "| --- | --- | --- | --- | --- |",
        *(_short_run(name, other, short) for name, other in COMPARED.items()),
        "",
    ])  # fmt: skip


def _comparison(line: dict[str, Any]) -> str:
    ours, peer = (f"{line[side]:,} {line['unit']}" for side in ("ours", "peer"))
    cpu = _ratio(line["cpu"]) if "cpu" in line else ""
    return f"| {line['name']} | {ours} | {peer} | {_ratio(line)} | {cpu} |"


def _short_run(name: str, other: str, rounds: list[dict[str, float]]) -> str:
    both = [[seconds[each] for seconds in rounds] for each in (name, other)]
    mine, base = (f"{statistics.median(each):.1f} s" for each in both)
    ratio = _ratio(spread([a / b for a, b in zip(*both)]))
    return f"| {name} | {mine} | {other} | {base} | {ratio} |"


def _ratio(line: Mapping[str, Any]) -> str:
    return f"{line['ratio']} ({line['least']} to {line['most']})"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default=",".join([*PROGRAMS, "short_runs"]))
    arguments = parser.parse_args()
    os.environ["PYTHONPATH"] = str(ROOT)
    load = os.getloadavg()[0]
    of_processes = (arguments.rounds + 1) // 2
    rounds = f"{arguments.rounds} ({of_processes} of whole processes)"
    place = {**machine(), "load": round(load, 1), "rounds": rounds}
    parts = arguments.only.split(",")
    compared: list[dict[str, Any]] = []
    for name, program in PROGRAMS.items():
        if name in parts:
            many = of_processes if name == "run" else arguments.rounds
            compared += lines_of(program, f"--rounds={many}")
    short = [short_runs() for _ in range(of_processes if "short_runs" in parts else 0)]
    if {*PROGRAMS, "short_runs"} <= {*parts}:
        written = page(place, compared, short)
        PAGE.write_text(BLOCK.sub(lambda _: written, PAGE.read_text("utf-8")), "utf-8")
        (training,) = (line for line in compared if line["name"] == TRAINING)
        readme = README.read_text("utf-8")
        README.write_text(CLAIM.sub(f"{training['cpu']['ratio']:.1f}", readme), "utf-8")


if __name__ == "__main__":
    main()
