"""Decides which rows are for evaluation, by a fixed hash of their key.

The hash of a key is a number from 0 to 1: the first 8 bytes of the key's SHA-256, as a big-endian
integer, divided by 2^64. Text keys are hashed as UTF-8, integers as decimal text. A row is for
evaluation if the number is less than the fraction:

    int.from_bytes(hashlib.sha256(b"ann").digest()[:8], "big") / 2**64 < eval_fraction

The hash has no seed. So if a user's rows were for evaluation in yesterday's data, they are for
evaluation in today's data, too, and in the data of any other program that uses the same formula.
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
    """bool [rows]: which rows are for evaluation.

    Raises:
      DataError: a row has no key.
    """
    column = rows.batch.column(key)
    if column.null_count:
        row = int(np.flatnonzero(np.asarray(column.is_null()))[0])
        raise DataError(
            f"{rows.where(row)}: column {key!r} has no value, but --split_key needs one in every "
            "row to choose its side"
        )
    different = arrow("compute").dictionary_encode(column)
    keys = [
        value if isinstance(value, bytes) else str(value).encode()
        for value in different.dictionary.to_pylist()
    ]
    answers = np.array([is_eval(value, eval_fraction) for value in keys], bool)
    return answers[np.asarray(different.indices)]
