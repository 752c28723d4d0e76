"""Functions of rows for tests; the flag --input_fn names them."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3

from tests.conftest import make_rows

SIZES = {"train": (400, 0), "eval": (200, 9)}


def read(mode):
    """The rows of a mode."""
    count, seed = SIZES[mode]
    return make_rows(count, seed)


def of_a_cursor(mode):
    """The same rows, from the table of the mode in the file that an environment variable names."""
    with contextlib.closing(sqlite3.connect(os.environ["OWN_ROWS"])) as connection:
        connection.row_factory = sqlite3.Row
        for row in connection.execute(f"SELECT * FROM {mode} ORDER BY row"):
            yield {**row, "tags": json.loads(row["tags"])}


def write_tables(path):
    """Writes the tables of `of_a_cursor`."""
    connection = sqlite3.connect(path)
    for mode in SIZES:
        connection.execute(
            f"CREATE TABLE {mode} (row INT, price REAL, user TEXT, city TEXT, tags TEXT, click INT,"
            " buy INT)"
        )
        connection.executemany(
            f"INSERT INTO {mode} VALUES (:row, :price, :user, :city, :tags, :click, :buy)",
            [{**row, "tags": json.dumps(row["tags"])} for row in read(mode)],
        )
    connection.commit()
    connection.close()


def fails_at_300(mode):
    """Rows that end with an error."""
    for row in read(mode):
        if row["row"] == 300:
            raise ValueError("no more")  # fails
        yield row


def bad_at_300(mode):
    """Rows of which one has no label that its head can learn."""
    for row in read(mode):
        yield {**row, "click": 7} if row["row"] == 300 else row
