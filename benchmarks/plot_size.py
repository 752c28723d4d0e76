"""Draws the lines that size.py prints: CPU seconds by the size of a spec and of its data.

    python benchmarks/plot_size.py sizes.jsonl docs/images/size.svg

Both axes are logarithmic. A dashed line through the largest size shows what cost in proportion to
the size would be: a cost that grows faster than the size is steeper than this line. It needs
matplotlib, which the kit itself does not use: `pip install matplotlib`.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

SIZES = ("columns", "objectives", "rows", "files")


def draw(lines: list[dict[str, Any]], out: Path) -> None:
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise SystemExit("plot_size.py needs matplotlib: pip install matplotlib") from error
    pyplot.rcParams.update({"svg.hashsalt": "size", "font.size": 9})
    figure, places = pyplot.subplots(1, len(SIZES), figsize=(11, 3), sharey=True)
    for place, what in zip(places, SIZES):
        found = sorted((line[what], line["cpu_seconds"]) for line in lines if what in line)
        sizes, seconds = zip(*found)
        place.loglog(sizes, seconds, marker="o")
        proportional = [seconds[-1] * size / sizes[-1] for size in sizes]
        place.loglog(sizes, proportional, linestyle="--", linewidth=0.8, color="gray")
        place.set_xlabel(what)
        place.set_ylim(1, 2000)
        place.grid(visible=True, which="major", linewidth=0.3)
    places[0].set_ylabel("CPU seconds of the process")
    figure.tight_layout()
    figure.savefig(out, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("lines", type=Path, help="the output of size.py")
    parser.add_argument("out", type=Path, help="the file of the picture, such as size.svg")
    arguments = parser.parse_args()
    lines = [json.loads(line) for line in arguments.lines.read_text("utf-8").splitlines()]
    draw(lines, arguments.out)


if __name__ == "__main__":
    main()
