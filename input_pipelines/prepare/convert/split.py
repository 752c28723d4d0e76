"""Decides which rows are for evaluation and testing, and where a shuffle puts each row.

`--split=key`: the hash of a key is a number from 0 to 1: the first 8 bytes of the key's SHA-256, as
a big-endian integer, divided by 2^64. Text keys are hashed as UTF-8, integers as decimal text. A
row is for evaluation if the number is less than the fraction:

    int.from_bytes(hashlib.sha256(b"ann").digest()[:8], "big") / 2**64 < eval_fraction

A row is for testing if the number is at least 1 - test_fraction. So one share can change, and the
rows of the other side stay the same. The hash has no seed. So if a user's rows were for evaluation
in yesterday's data, they are for evaluation in today's data, too, and in the data of any other
program that uses the same formula.

`--split=rows`: a hash of the row's number over all files decides, with `mix`. The same
files give the same sides. Equal rows may be on both sides.

`--split=time`: rows at `test_from` or later are for testing, and earlier rows at `eval_from` or
later are for evaluation. `resolved` finds the values if only fractions are given.

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
from input_pipelines.prepare.convert.options import EVAL, SIDES, TEST, ConvertOptions
from input_pipelines.prepare.convert.value_checks import IS_FLOAT, WRITE_INTEGERS
from input_pipelines.prepare.tables import reader
from input_pipelines.prepare.tables.library import arrow
from input_pipelines.prepare.tables.reader import Rows, Table
from input_pipelines.prepare.tables.row_times import RowTimes, as_text, value_of

_EVAL, _TEST = SIDES.index(EVAL), SIDES.index(TEST)
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


def sides(rows: Rows, first: int, options: ConvertOptions) -> Optional[np.ndarray]:
    """int8 [rows]: the side of each row, as its place in `SIDES`; None if rows are not split.

    Args:
      rows: a batch.
      first: the number of its first row, from 0 over all files.
      options: how rows are split. With `split_time`, `resolved` has made them.

    Raises:
      DataError: a row has no key or time.
    """
    if options.split_key is not None:
        return of_keys(_present(rows, options.split_key), options)
    if options.split_rows:
        return _of_numbers(first, rows.batch.num_rows, options)
    if options.split_time is not None:
        return _of_time(rows, options.split_time, options)
    return None


def _present(rows: Rows, key: str) -> Any:
    """The column of a key, without nulls.

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
    return column


def number_of(key: bytes) -> float:
    """The number of a key, from 0 to 1."""
    return int.from_bytes(hashlib.sha256(key).digest()[:8], "big") / 2**64


def of_keys(keys: Any, options: ConvertOptions) -> np.ndarray:
    """int8 [keys]: the sides of the keys of a pyarrow array. No key is null."""
    different = arrow("compute").dictionary_encode(keys)
    values = [
        value if isinstance(value, bytes) else str(value).encode()
        for value in different.dictionary.to_pylist()
    ]
    numbers = np.array([number_of(value) for value in values], np.float64)
    result: np.ndarray = _by_shares(numbers, options)[np.asarray(different.indices)]
    return result


def _by_shares(numbers: np.ndarray, options: ConvertOptions) -> np.ndarray:
    """int8 [n]: the sides of random numbers from 0 to 1."""
    eval_and_test = numbers < options.eval_fraction, numbers >= 1.0 - options.test_fraction
    return np.select(eval_and_test, (_EVAL, _TEST), 0).astype(np.int8)


def _of_numbers(first: int, count: int, options: ConvertOptions) -> np.ndarray:
    """int8 [count]: the sides of the rows with these numbers.

    Mixed three times, because the shuffled order of rows uses one and two times.
    """
    numbers = mix(mix(mix(np.arange(first, first + count, dtype=np.uint64))))
    return _by_shares(numbers / 2.0**64, options)


# --- By time --------------------------------------------------------------------------------------


def resolved(table: Table, options: ConvertOptions) -> tuple[ConvertOptions, np.ndarray]:
    """The options with the first times of the sides, and the shares of the rows that they have.

    Also returns the sides of all rows, int8 [rows]. Reads the column of `split_time` in all files,
    and holds 8 bytes for each row.

    Raises:
      DataError: a row has no time, or a side would have no row.
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

    def written(time: int) -> str:
        return as_text(time, dtype, clock.form)

    def first_of(flag: str, text: Optional[str], share: float, among: np.ndarray) -> int:
        """The first time of a side: the given one, or where the latest share of the rows begins."""
        if text is not None:
            return value_of(text, dtype, clock.form, flag)
        of_these = share * (len(times) / len(among))
        place = min(max(round(len(among) * (1 - of_these)), 0), len(among) - 1)
        return int(np.partition(among, place)[place])

    def check(flag: str, side: np.ndarray, where: str) -> None:
        if side.any() and not side.all():
            return
        need = (
            "training, evaluation and testing all"
            if options.has_test
            else "training and evaluation both"
        )
        raise DataError(
            f"{flag}: {'all rows are' if side.any() else 'no row is'} at {where}, but {need} need "
            f"rows. Column {name!r} goes from {written(times.min())} to {written(times.max())}"
        )

    before, ends, test_from = times, "", options.test_from
    if options.has_test:
        start = first_of("--split_test", options.test_from, options.test_fraction, times)
        test_from = options.test_from or written(start)
        check("--split_test", times >= start, f"{test_from} or later")
        before, ends = times[times < start], f" and before {test_from}"
    start_of_eval = first_of("--split_eval", options.eval_from, options.eval_fraction, before)
    eval_from = options.eval_from or written(start_of_eval)
    check("--split_eval", before >= start_of_eval, f"{eval_from} or later{ends}")
    found = (times >= start_of_eval).astype(np.int8)
    if options.has_test:
        found[times >= start] = _TEST
    shares = np.bincount(found, minlength=len(SIDES)) / len(times)
    settled = dataclasses.replace(
        options,
        eval_from=eval_from,
        eval_fraction=float(shares[_EVAL]),
        test_from=test_from,
        test_fraction=float(shares[_TEST]),
    )
    return settled, found


def _dtype(table: Table, name: str) -> Optional[str]:
    dtype = next(column.dtype for column in table.columns if column.name == name)
    if dtype == "float32":
        raise DataError(
            f"--split: column {name!r} {IS_FLOAT}. Write times as integers or as "
            f"2026-01-31 10:00:00{WRITE_INTEGERS}"
        )
    return dtype


def _of_time(rows: Rows, name: str, options: ConvertOptions) -> np.ndarray:
    column = rows.batch.column(name)
    dtype = "int64" if arrow().types.is_integer(column.type) else "string"
    clock = RowTimes(name, "--split", dtype=dtype)
    times = clock.read(column, rows.where)
    start = value_of(str(options.eval_from), dtype, clock.form, "--split_eval")
    found = (times >= start).astype(np.int8)
    if options.test_from is not None:
        found[times >= value_of(options.test_from, dtype, clock.form, "--split_test")] = _TEST
    return found
