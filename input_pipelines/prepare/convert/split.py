"""Decides which rows are for evaluation, and where a shuffle puts each row.

`--split=key`: the hash of a key is a number from 0 to 1: the first 8 bytes of the key's SHA-256, as
a big-endian integer, divided by 2^64. Text keys are hashed as UTF-8, integers as decimal text. A
row is for evaluation if the number is less than the fraction:

    int.from_bytes(hashlib.sha256(b"ann").digest()[:8], "big") / 2**64 < eval_fraction

The hash has no seed. So if a user's rows were for evaluation in yesterday's data, they are for
evaluation in today's data, too, and in the data of any other program that uses the same formula.

`--split=rows`: a hash of the row's number over all files decides, with `mix`. The same
files give the same sides. Equal rows may be on both sides.

`--split=time`: rows at `eval_from` or later are for evaluation. `resolved` finds the value if only
a fraction is given.

The seeded shuffle of all rows computes the shard and place of each row separately. Row number i of
the table (over all files in order) has the random number r = mix(i + mix(seed)), in 64-bit
integers. mix is the finalizer of SplitMix64 (Steele, Lea and Flood, 2014), which maps different
integers to different integers. The high half of r chooses the shard. Within the shard, rows are
sorted by mix(r). So every row can come to any place, only one shard must be in memory, and the
order is the same in every version of NumPy.
"""

from __future__ import annotations

import dataclasses
import hashlib
from typing import Any, Optional

import numpy as np

from input_pipelines.errors import DataError
from input_pipelines.prepare.convert.options import ConvertOptions
from input_pipelines.prepare.convert.value_checks import IS_FLOAT, WRITE_INTEGERS
from input_pipelines.prepare.tables import reader
from input_pipelines.prepare.tables.library import arrow
from input_pipelines.prepare.tables.reader import Rows, Table
from input_pipelines.prepare.tables.row_times import RowTimes, as_text, value_of

_GOLDEN = 0x9E3779B97F4A7C15


def mix(numbers: np.ndarray) -> np.ndarray:
    """uint64 [n]: scattered numbers. Different inputs give different outputs."""
    z = numbers + np.uint64(_GOLDEN)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def random_numbers(first: int, count: int, seed: int) -> np.ndarray:
    """uint64 [count]: the random numbers of `count` rows, from row `first` on."""
    base = mix(np.array([seed % 2**64], np.uint64))[0]
    return mix(np.arange(first, first + count, dtype=np.uint64) + base)


def shards_of(numbers: np.ndarray, shards: int) -> np.ndarray:
    """int64 [n]: the shards of rows, from 0 to `shards` - 1, given their random numbers."""
    return (((numbers >> np.uint64(32)) * np.uint64(shards)) >> np.uint64(32)).astype(np.int64)


def places(numbers: np.ndarray) -> np.ndarray:
    """uint64 [n]: the sort keys of rows within their shard."""
    return mix(numbers)


def eval_rows(rows: Rows, first: int, options: ConvertOptions) -> Optional[np.ndarray]:
    """bool [rows]: which rows are for evaluation; None if rows are not split.

    Args:
      rows: a batch.
      first: the number of its first row, from 0 over all files.
      options: how rows are split. With `split_time`, `resolved` has made them.

    Raises:
      DataError: a row has no key or time.
    """
    if options.split_key is not None:
        return eval_mask(rows, options.split_key, options.eval_fraction)
    if options.split_rows:
        return _of_numbers(first, rows.batch.num_rows, options.eval_fraction)
    if options.split_time is not None:
        return _of_time(rows, options.split_time, str(options.eval_from))
    return None


def is_eval(key: bytes, eval_fraction: float) -> bool:
    """Whether the rows of a key are for evaluation."""
    number = int.from_bytes(hashlib.sha256(key).digest()[:8], "big")
    return number / 2**64 < eval_fraction


def eval_mask(rows: Rows, key: str, eval_fraction: float) -> np.ndarray:
    """bool [rows]: which rows are for evaluation, by their key.

    Raises:
      DataError: a row has no key.
    """
    column = rows.batch.column(key)
    if column.null_count:
        row = int(np.flatnonzero(np.asarray(column.is_null()))[0])
        raise DataError(
            f"{rows.where(row)}: column {key!r} has no value, but --split needs one in every "
            "row to choose its side"
        )
    return sides_of(column, eval_fraction)


def sides_of(keys: Any, eval_fraction: float) -> np.ndarray:
    """bool [keys]: which keys of a pyarrow array are for evaluation. No key is null."""
    different = arrow("compute").dictionary_encode(keys)
    values = [
        value if isinstance(value, bytes) else str(value).encode()
        for value in different.dictionary.to_pylist()
    ]
    answers = np.array([is_eval(value, eval_fraction) for value in values], bool)
    result: np.ndarray = answers[np.asarray(different.indices)]
    return result


def _of_numbers(first: int, count: int, eval_fraction: float) -> np.ndarray:
    """bool [count]: which of the rows with these numbers are for evaluation.

    Mixed three times, because the shuffled order of rows uses one and two times.
    """
    numbers = mix(mix(mix(np.arange(first, first + count, dtype=np.uint64))))
    return numbers / 2.0**64 < eval_fraction


# --- By time --------------------------------------------------------------------------------------


def resolved(table: Table, options: ConvertOptions) -> tuple[ConvertOptions, np.ndarray]:
    """The options with both `eval_from` and `eval_fraction`, the share of the rows from there on.

    Also returns which rows these are, bool [rows]. Reads the column of `split_time` in all files,
    and holds 8 bytes for each row.

    Raises:
      DataError: a row has no time, or all rows would be on one side.
    """
    name = options.split_time
    assert name is not None, "only for options with split_time"
    dtype = _dtype(table, name)
    clock = RowTimes(name, "--split", dtype=dtype)
    only = tuple(column for column in table.columns if column.name == name)
    read = [
        clock.read(rows.batch.column(name), rows.where)
        for part in table.parts()
        for rows in reader.read(dataclasses.replace(part, columns=only))
    ]
    times = np.concatenate(read)
    text = options.eval_from
    if text is None:
        place = min(max(round(len(times) * (1 - options.eval_fraction)), 0), len(times) - 1)
        start = int(np.partition(times, place)[place])
        text = as_text(start, dtype, clock.form)
    else:
        start = value_of(text, dtype, clock.form, "--split_eval")
    is_eval = times >= start
    later = int(is_eval.sum())
    if later in (0, len(times)):
        low, high = (as_text(int(at), dtype, clock.form) for at in (times.min(), times.max()))
        raise DataError(
            f"--split_eval: {'no row is' if not later else 'all rows are'} at {text} or later, but "
            f"training and evaluation both need rows. Column {name!r} goes from {low} to {high}"
        )
    settled = dataclasses.replace(options, eval_from=text, eval_fraction=later / len(times))
    return settled, is_eval


def _dtype(table: Table, name: str) -> Optional[str]:
    dtype = next(column.dtype for column in table.columns if column.name == name)
    if dtype == "float32":
        raise DataError(
            f"--split: column {name!r} {IS_FLOAT}. Write times as integers or as "
            f"2026-01-31 10:00:00{WRITE_INTEGERS}"
        )
    return dtype


def _of_time(rows: Rows, name: str, eval_from: str) -> np.ndarray:
    column = rows.batch.column(name)
    dtype = "int64" if arrow().types.is_integer(column.type) else "string"
    clock = RowTimes(name, "--split", dtype=dtype)
    times = clock.read(column, rows.where)
    return times >= value_of(eval_from, dtype, clock.form, "--split_eval")
