"""Which rows are for evaluation: all of those whose key has a hash below a bound.

The hash of a key is a number from 0 to 1: the first 8 bytes of the SHA-256 of the key, as an
integer with the highest byte first, over 2 to the 64th. The key is its bytes, text as UTF-8, an
integer as it is written in decimal. A row is for evaluation when the number is below the fraction:

    int.from_bytes(hashlib.sha256(b"ann").digest()[:8], "big") / 2**64 < eval_fraction

There is no seed, so a user who was for evaluation in yesterday's data is so in today's, and in the
data of another program that does the same.
"""

from __future__ import annotations

import hashlib

import numpy as np

from input_pipelines.errors import DataError
from input_pipelines.prepare.tables.library import arrow
from input_pipelines.prepare.tables.reader import Rows


def is_eval(key: bytes, eval_fraction: float) -> bool:
    """Whether the rows of a key are for evaluation."""
    number = int.from_bytes(hashlib.sha256(key).digest()[:8], "big")
    return number / 2**64 < eval_fraction


def eval_mask(rows: Rows, key: str, eval_fraction: float) -> np.ndarray:
    """bool [rows]: which of them are for evaluation.

    Raises:
      DataError: a row has no key.
    """
    column = rows.batch.column(key)
    if column.null_count:
        row = int(np.flatnonzero(np.asarray(column.is_null()))[0])
        raise DataError(
            f"{rows.where(row)}: column {key!r} has no value, and --split_key needs one in every "
            "row, to know the side that it is on"
        )
    different = arrow("compute").dictionary_encode(column)
    keys = [
        value if isinstance(value, bytes) else str(value).encode()
        for value in different.dictionary.to_pylist()
    ]
    answers = np.array([is_eval(value, eval_fraction) for value in keys], bool)
    return answers[np.asarray(different.indices)]
