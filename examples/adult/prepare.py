"""UCI Adult from its CSV files to TFRecord, for `adult.flags`.

    python examples/adult/prepare.py --data_dir=FOLDER --out_dir=data/adult

FOLDER holds adult.data and adult.test, or the same with .gz, as the UCI Machine Learning Repository
has them. A missing value, `?` there, becomes a missing feature.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import os
from collections.abc import Iterator
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data_dir", required=True, help="folder of adult.data and adult.test")
    parser.add_argument("--out_dir", required=True, help="where the TFRecords go")
    arguments = parser.parse_args()
    for part, name in (("train", "adult.data"), ("test", "adult.test")):
        path = os.path.join(arguments.data_dir, name)
        path = path if os.path.exists(path) else path + ".gz"
        out = os.path.join(arguments.out_dir, f"{part}.tfrecord")
        print(f"{out}: {ek.write_examples(out, rows(path))} rows")


if __name__ == "__main__":
    main()
