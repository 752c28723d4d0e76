"""How good the built-in models are, over five seeds: writes quality.md.

    python benchmarks/quality.py --data FOLDER [--only adult] [--work runs/quality]

FOLDER has adult/adult.data(.gz), adult/adult.test(.gz) and bike_sharing/hour.csv(.gz), as the UCI
Machine Learning Repository has them. Three parts: `ads`, the generator's advertising log, where the
best possible AUC is known (needs no FOLDER); `adult`; and `bikes`. A part is a module,
`quality_<part>.py`, which says what is trained, and what its section of the report is.

Prints one JSON line a run: {"part", "name", "seed", "metrics", "seconds"}. The lines are kept in
`<work>/lines.jsonl`, and runs that are there are not repeated, so that a start that was interrupted
goes on; delete the file to measure anew. The report has the parts of which there are lines. All of
it takes about a quarter of an hour on two cores.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
_HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(_HERE, ".."), _HERE]

import quality_ads  # noqa: E402
import quality_adult  # noqa: E402
import quality_bikes  # noqa: E402
from quality_runs import ROOT, Line, measure, read_lines  # noqa: E402

PARTS = {"ads": quality_ads, "adult": quality_adult, "bikes": quality_bikes}

_HEAD = """\
# Model quality

Written by `python benchmarks/quality.py --data FOLDER`; see the head of that file. Every number is
that of an evaluation at the end of a training. No seed was left out, and settings are the same for
all seeds. All runs are in one process, by the flags that are shown.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", help="folder of adult/ and bike_sharing/")
    parser.add_argument("--only", help="parts, separated by commas")
    parser.add_argument("--work", default="runs/quality", help="where data and models go")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--tiny", action="store_true", help="few rows and steps: does it run?")
    parser.add_argument("--report", default=os.path.join(_HERE, "quality.md"))
    arguments = parser.parse_args()
    chosen = arguments.only.split(",") if arguments.only else list(PARTS)
    for part in chosen:
        if part not in PARTS:
            parser.error(f"--only: no part {part!r}; there are {', '.join(PARTS)}")
        if PARTS[part].NEEDS_DATA and arguments.data is None:
            parser.error(f"--data is missing; the part {part} needs it")
    work = os.path.abspath(arguments.work)
    report = os.path.abspath(arguments.report)
    data = os.path.abspath(arguments.data) if arguments.data else None
    os.makedirs(work, exist_ok=True)
    os.chdir(ROOT)  # Flagfiles name specs from there.
    lines_file = os.path.join(work, "lines.jsonl")
    lines = read_lines(lines_file)
    for part in chosen:
        for seed in range(1, arguments.seeds + 1):
            for run in PARTS[part].runs(work, data, seed, tiny=arguments.tiny):
                if run.key in {line.key for line in lines}:
                    continue
                lines.append(measure(run, work))
                text = json.dumps(dataclasses.asdict(lines[-1]))
                print(text, flush=True)
                with open(lines_file, "a", encoding="utf-8") as file:
                    file.write(text + "\n")
    write_report(lines, report)


def write_report(lines: list[Line], path: str) -> None:
    """The sections of the parts, with the seeds that all runs of a part have."""
    sections = [_HEAD]
    for part, module in PARTS.items():
        of_part = [line for line in lines if line.part == part]
        done = [{line.seed for line in of_part if line.name == name} for name in module.SETTINGS]
        seeds = set.intersection(*done)
        if seeds:
            sections.append(module.section([line for line in of_part if line.seed in seeds]))
    with open(path + ".tmp", "w", encoding="utf-8") as file:
        file.write("\n".join(sections))
    os.replace(path + ".tmp", path)


if __name__ == "__main__":
    main()
