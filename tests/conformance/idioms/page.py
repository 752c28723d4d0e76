"""The tables of docs/guides/estimator_code.md: what the cells and `expected` say.

The first table has a row for each family, on the newest TensorFlow. The second has a row for each
reason why cells are not equal, and for what the first one leaves out.
"""

from __future__ import annotations

import fnmatch
import functools
import re
from collections.abc import Mapping

from tests.conformance.idioms import cells, expected, extra_cells, run
from tests.conformance.idioms.cell import Cell
from tests.conftest import ROOT

PAGE = ROOT / "docs" / "guides" / "estimator_code.md"
MARKS = ("<!-- idioms -->", "<!-- end of idioms -->")

NEWEST = "2.21"

# What the families of cells are called on the page.
TITLES = {
    "layers": "`tf.compat.v1.layers`",
    "losses": "`tf.compat.v1.losses`, in `logits` and as `example_losses`",
    "metrics": "`tf.compat.v1.metrics`, with and without weights",
    "optimizers": "`tf.compat.v1.train.*Optimizer`",
    "keras layers": "`tf.keras.layers`",
    "keras masks": "`tf.keras.layers` after `Embedding(mask_zero=True)`",
    "keras metrics": "`tf.keras.metrics`, with and without weights",
    "keras losses": "`tf.keras.losses`",
    "collections": "`tf.compat.v1.GraphKeys`",
    "tables": "`tf.lookup`, for each kind of keys and values",
    "hooks": "`tf.estimator.*Hook`, `tf.compat.v1.train.*Hook`, and own hooks",
}

_ENDS = {
    run.REFUSED: "refused before a file is written",
    run.NAMED: "ends with a separate status and message",
    run.IMPOSSIBLE: "fails in `tf.estimator`, too",
}


def tables(all_cells: Mapping[str, Cell]) -> str:
    """Both tables as Markdown.

    Raises:
      KeyError: a family has no title, or a line of `expected` is not accepted.
    """
    line_of = functools.partial(expected.line_of, version=NEWEST)
    rows = ["| code | models | equal | not equal |", "| --- | --- | --- | --- |"]
    families = dict.fromkeys(cell.family for cell in all_cells.values())
    for family in families:
        lines = [line_of(name) for name in all_cells if all_cells[name].family == family]
        rows.append(_row(TITLES[family], len(lines), lines.count(None)))
    lines = list(map(line_of, all_cells))
    rows.append(_row("all", len(lines), lines.count(None)))
    rows += ["", "| code | what happens | why |", "| --- | --- | --- |"]
    for line in expected.LINES:
        names = [n for each in line.cells for n in fnmatch.filter(all_cells, each)]
        rows.append(f"| {_listed(names)} | {_ENDS[line.kind]} | {line.reason} |")
    for reason in dict.fromkeys(_left_out().values()):
        names = [name for name, why in _left_out().items() if why == reason]
        rows.append(f"| {_listed(names)} | not tried | {reason} |")
    return "\n".join(rows)


def _row(title: str, count: int, equal: int) -> str:
    return f"| {title} | {count} | {equal} | {count - equal or ''} |"


def _listed(names: list[str]) -> str:
    """The names of entries, without their families."""
    return ", ".join(f"`{re.sub('.*(/|own: )', '', name)}`" for name in names)


def _left_out() -> dict[str, str]:
    """Why the table has no cell of an entry of the surface."""
    return {
        **dict.fromkeys(
            sorted(cells.FOR_CLUSTERS),
            "it waits for other processes; the kit refuses it, and has `--strategy=sync_replicas`",
        ),
        **dict.fromkeys(
            sorted(name.rpartition(".")[2] for name in extra_cells.NEED_ESTIMATOR),
            "a model has no Estimator to give to it",
        ),
        **extra_cells.NOT_OF_USERS,
    }


def with_tables(text: str) -> str:
    """The text of the page with the tables of now."""
    before, _, rest = text.partition(MARKS[0])
    _, _, after = rest.partition(MARKS[1])
    return f"{before}{MARKS[0]}\n\n{tables(cells.all_cells())}\n\n{MARKS[1]}{after}"


def write() -> None:
    """Writes the tables into the page."""
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
