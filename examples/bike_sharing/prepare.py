"""UCI Bike Sharing from its CSV file to TFRecord, for `bike_sharing.flags`.

    python examples/bike_sharing/prepare.py --data_dir=FOLDER --out_dir=data/bike_sharing

FOLDER contains hour.csv, or hour.csv.gz, from the UCI Machine Learning Repository: one row per hour
of 2011 and 2012. In every month, the days up to the 19th are for training, and the later days are
for testing. Days are not split, because an hour is similar to the hour before it: a split by rows
would test hours whose neighbors were in the training data. All months are in both parts. The test
therefore measures how well a model fills in days, and not how well it forecasts the growth of the
next year.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import os
from collections.abc import Iterator
from typing import Union

import estimator_kit as ek

IDS = ("yr", "season", "mnth", "hr", "holiday", "weekday", "workingday", "weathersit")
NUMBERS = ("temp", "atemp", "hum", "windspeed")
LABELS = ("casual", "registered")
LAST_TRAINING_DAY = 19


def day_of_month(date: str) -> int:
    """19 of `2011-01-19`, and of `1/19/11`, which some copies of the file have."""
    parts = date.split("-") if "-" in date else date.split("/")
    if len(parts) != 3:
        raise ValueError(f"dteday: got {date!r}, expected a date like 2011-01-19 or 1/19/11")
    return int(parts[2] if "-" in date else parts[1])


def rows(path: str, *, train: bool) -> Iterator[dict[str, Union[int, float]]]:
    """The rows of one part, in the order of the file."""
    with (gzip.open if path.endswith(".gz") else open)(path, "rt", encoding="utf-8") as file:
        for cells in csv.DictReader(file):
            if (day_of_month(cells["dteday"]) <= LAST_TRAINING_DAY) == train:
                row: dict[str, Union[int, float]] = {name: float(cells[name]) for name in NUMBERS}
                yield {**row, **{name: int(cells[name]) for name in (*IDS, *LABELS)}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data_dir", required=True, help="folder of hour.csv")
    parser.add_argument("--out_dir", required=True, help="where the TFRecords go")
    arguments = parser.parse_args()
    path = os.path.join(arguments.data_dir, "hour.csv")
    path = path if os.path.exists(path) else path + ".gz"
    for part in ("train", "test"):
        out = os.path.join(arguments.out_dir, f"{part}.tfrecord")
        print(f"{out}: {ek.write_examples(out, rows(path, train=part == 'train'))} rows")


if __name__ == "__main__":
    main()
