"""UCI Adult from its CSV files to TFRecord, for `adult.flags`.

    python examples/adult/prepare.py --data_dir=FOLDER --out_dir=data/adult

FOLDER holds adult.data and adult.test, or the same with .gz, as the UCI Machine Learning Repository
has them. A missing value, `?` there, becomes a missing feature. For `search.flags`, the training
rows are also divided: every sixth one into valid.tfrecord, all other rows into fit.tfrecord.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import os
from collections.abc import Iterable, Iterator
from typing import Any

import estimator_kit as ek

COLUMNS = (
    "age", "workclass", "fnlwgt", "education", "education_num", "marital_status", "occupation",
    "relationship", "race", "gender", "capital_gain", "capital_loss", "hours_per_week",
    "native_country", "income",
)  # fmt: skip
NUMBERS = {"age", "fnlwgt", "education_num", "capital_gain", "capital_loss", "hours_per_week"}


def rows(path: str) -> Iterator[dict[str, Any]]:
    """The rows of one of the two files; labels of the test part end in a full stop there."""
    with (gzip.open if path.endswith(".gz") else open)(path, "rt", encoding="utf-8") as file:
        for number, cells in enumerate(csv.reader(file, skipinitialspace=True), start=1):
            if not cells or cells[0].startswith("|"):
                continue
            if len(cells) != len(COLUMNS):
                raise ValueError(f"{path}:{number}: {len(cells)} cells, expected {len(COLUMNS)}")
            row: dict[str, Any] = dict(zip(COLUMNS, cells))
            row["income"] = row["income"].rstrip(".")
            for name, cell in row.items():
                row[name] = None if cell == "?" else int(cell) if name in NUMBERS else cell
            yield row


def write(path: str, rows: Iterable[dict[str, Any]]) -> None:
    print(f"{path}: {ek.write_examples(path, rows)} rows")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data_dir", required=True, help="folder of adult.data and adult.test")
    parser.add_argument("--out_dir", required=True, help="where the TFRecords go")
    arguments = parser.parse_args()
    for part, name in (("train", "adult.data"), ("test", "adult.test")):
        path = os.path.join(arguments.data_dir, name)
        path = path if os.path.exists(path) else path + ".gz"
        write(os.path.join(arguments.out_dir, f"{part}.tfrecord"), rows(path))
        if part == "train":
            for name, valid in (("fit", False), ("valid", True)):
                some = (row for i, row in enumerate(rows(path)) if (i % 6 == 5) == valid)
                write(os.path.join(arguments.out_dir, f"{name}.tfrecord"), some)


if __name__ == "__main__":
    main()
