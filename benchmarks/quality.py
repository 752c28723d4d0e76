"""Measures how good the built-in models are, over five seeds, and writes quality.md.

    python benchmarks/quality.py --data FOLDER [--only adult] [--work runs/quality]

FOLDER has adult/adult.data(.gz), adult/adult.test(.gz) and bike_sharing/hour.csv(.gz), from the UCI
Machine Learning Repository. There are five parts: `ads`, the generator's advertising log, where
the best possible AUC is known (it needs no FOLDER); `adult`; `bikes`; `start`, the start values of
embeddings; and `models`, which model when. The last one needs the folders that `public_data`
describes. Each part is a module, `quality_<part>.py`, with its trainings and its section of the
report.

The program prints one JSON line for each run: {"part", "name", "seed", "metrics", "seconds"}. It
keeps the lines in `<work>/lines.jsonl` and does not repeat these runs, so an interrupted
measurement continues. To measure again, delete the file. The report has the parts that have lines.
All parts take about a quarter of an hour on two cores.
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
import quality_models  # noqa: E402
import quality_start  # noqa: E402
from quality_runs import ROOT, Line, measure, read_lines  # noqa: E402

PARTS = {
    "ads": quality_ads,
    "adult": quality_adult,
    "bikes": quality_bikes,
    "start": quality_start,
    "models": quality_models,
}

_HEAD = """\
# Model quality

`python benchmarks/quality.py --data FOLDER` writes this file. Every number comes from an evaluation
at the end of a training. No seed is left out, and all seeds have the same settings. All runs are in
one process, with the flags that are shown.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", help="the folder with adult/ and bike_sharing/")
    parser.add_argument("--only", help="the parts to run, separated by commas")
    parser.add_argument("--work", default="runs/quality", help="the folder for data and models")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument(
        "--tiny", action="store_true", help="few rows and steps, to test the program"
    )
    parser.add_argument("--report", default=os.path.join(_HERE, "quality.md"))
    arguments = parser.parse_args()
    chosen = arguments.only.split(",") if arguments.only else list(PARTS)
    for part in chosen:
        if part not in PARTS:
            parser.error(f"--only: unknown part {part!r}. Use one of: {', '.join(PARTS)}.")
        if PARTS[part].NEEDS_DATA and arguments.data is None:
            parser.error(f"--data is missing. The part {part} needs it.")
    work = os.path.abspath(arguments.work)
    report = os.path.abspath(arguments.report)
    data = os.path.abspath(arguments.data) if arguments.data else None
    os.makedirs(work, exist_ok=True)
    os.chdir(ROOT)  # Paths in flagfiles start there.
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
    """Writes the sections of the parts, with the seeds that all runs of a part have."""
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
