"""Tables: CSV, JSON lines and Parquet, damaged or with cells of other types."""

from __future__ import annotations

import json
import random

from tests.integration.fuzz import draws
from tests.integration.fuzz.place import Drawn, Place
from tests.integration.fuzz.start import EXPORT

_FILES = ("table.csv", "table.csv", "table.jsonl", "table.jsonl", "table.parquet")

_CELLS = ("", '"', '""', "'", "nan", "-inf", "1e999", "9" * 30, "00012", "1.5", "true", "ä", "\0",
          "a,b", '"a,b"',
          '"a\nb"', "\ufeff", "x" * 5000, "2026-01-01", "#", "\\", " 1 ", "\udcff", "\r", "NULL",
          "?")  # fmt: skip


def draw(rng: random.Random, place: Place) -> Drawn:
    """A table, and a mode that reads tables."""
    name = rng.choice(_FILES)
    content = place.read(name)
    roll = rng.random()
    if roll < 0.1:
        what = "nothing"
    elif roll < 0.4 or name == "table.parquet":
        what, content = draws.damaged(rng, content)
    elif name == "table.csv":
        what, content = _cells(rng, content)
    else:
        what, content = _objects(rng, content)
    place.write(name, content)
    runs = (
        ("--mode=convert", "--spec=", f"--convert_files={name}", "--convert_dir=out"),
        ("--mode=convert", "--spec=", f"--convert_files={name}", "--convert_dir=out"),
        ("--mode=convert", "--spec=", f"--convert_files={name}", "--convert_dir=out",
         "--convert_order=shuffled", "--split=key:user", "--split_eval=0.5"),
        ("--mode=convert", f"--convert_files={name}", "--convert_dir=out"),
        ("--mode=convert", "--spec=", f"--convert_files={name}", "--convert_dir=out",
         "--sequence_by=user", f"--order_by={rng.choice(('row', 'price'))}",
         "--sequence_columns=row", "--targets=leave_one_out"),
        ("--mode=convert", "--spec=", f"--convert_files={name}", "--convert_dir=out",
         "--split=time:row", "--split_eval=0.5", "--derive_labels=high=price:above:1"),
        ("--mode=analyze", "--spec=", f"--train_files={name}", "--labels=click",
         "--analysis_dir=out"),
        ("--mode=validate", f"--train_files={name}", "--baseline=eval.tfrecord"),
        ("--mode=predict", f"--predict_files={name}", f"--export_dir=model/{EXPORT}",
         "--predict_dir=out",
         "--spec=", "--keep_columns=row"),
    )  # fmt: skip
    run = rng.choices(runs, (3, 2, 2, 2, 1, 1, 4, 1, 1))[0]
    if "--mode=predict" in run:
        place.bring("model")
    options = rng.choices(
        [(), ("--csv_missing=?,None",), ("--csv_comment=#",), ("--csv_skip_spaces",),
         ("--csv_delimiter=;",), ("--csv_columns=a,b,c",), ("--csv_list_separator=o",)],
        [20, 2, 1, 1, 1, 1, 1])[0]  # fmt: skip
    return Drawn(["--flagfile=run.flags", *run, *options], f"{name}: {what}")


def _cells(rng: random.Random, content: bytes) -> tuple[str, bytes]:
    lines = [line.split(",") for line in content.decode().split("\n")]
    done = []
    for _ in range(rng.choice((1, 1, 2, 4))):
        row = rng.randrange(len(lines))
        at = rng.randrange(len(lines[row]))
        what = rng.choice(("cell", "cell", "cell", "more", "less", "line", "header"))
        if what == "cell":
            lines[row][at] = rng.choice(_CELLS)
        elif what == "more":
            lines[row].insert(at, "x")
        elif what == "less":
            del lines[row][at]
        elif what == "line":
            lines.insert(row, [rng.choice(_CELLS)])
        else:
            lines[0] = [*lines[0][:-1], rng.choice((*lines[0], *_CELLS))]
        done.append(f"row {row}: {what}")
        lines = [line or [""] for line in lines] or [[""]]
    text = "\n".join(",".join(line) for line in lines)
    return "; ".join(done), text.encode("utf-8", "surrogateescape")


def _objects(rng: random.Random, content: bytes) -> tuple[str, bytes]:
    lines = content.decode().splitlines()
    done = []
    for _ in range(rng.choice((1, 1, 2, 4))):
        at = rng.randrange(len(lines))
        if rng.random() < 0.2:
            lines[at] = rng.choice(("", "[]", "1", "null", "{}", "{", '{"a": {"b": 1}}',
                                    '{"row": 1, "row": 2}',
                                    '{"": 1}', "NaN", '{"row": NaN}', "[" * 5000))  # fmt: skip
            what = "a line"
        else:
            try:
                what, row = draws.changed(rng, json.loads(lines[at]), most=1)
            except ValueError:
                continue
            lines[at] = json.dumps(row)
        done.append(f"row {at}: {what}")
    return "; ".join(done), ("\n".join(lines) + "\n").encode("utf-8", "surrogatepass")
