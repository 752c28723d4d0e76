"""Reads the lines of svmlight files, and turns blocks of them into columns of text.

    for lines in svmlight_lines.read("a.svm"):              # without comments and empty lines
        block = svmlight_lines.parsed(lines, "a.svm")
        block.labels, block.values, block.numbers

Errors name the line of the file. Types are not decided here.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Optional

import numpy as np

from input_pipelines.errors import DataError
from input_pipelines.prepare.tables import library
from input_pipelines.prepare.tables.csv_stream import LONGEST_LINE
from input_pipelines.prepare.tables.library import arrow, reading

LABEL, QUERY = "label", "qid"
_MISSING = ("NULL", "null", "Null")

# An analysis accepts as many features.
_LARGEST_NUMBER = 9_990

_BLOCK = 2**20

# The most rows, and the most values, that become columns together.
_ROWS, _VALUES = 8192, 2**22

_FORM = "label 1:value 2:value ..., or label qid:10 1:value ..."


def number_of(name: str) -> Optional[int]:
    """The number of the column f12; None for another name."""
    match = re.fullmatch(r"f(0|[1-9][0-9]*)", name)
    return int(match.group(1)) if match else None


# --- Lines ----------------------------------------------------------------------------------------


class Lines(NamedTuple):
    """Lines with values, without comments, and their numbers in the file, from 1."""

    texts: list[str]
    numbers: list[int]


def read(path: str) -> Iterator[Lines]:
    """The lines of a file, block by block. Comments and empty lines are left out."""
    number, rest = 0, b""
    with reading(path), contextlib.closing(library.open_text(path)) as source:
        while True:
            block = source.read(_BLOCK)
            *lines, rest = (rest + block).split(b"\n")
            if len(rest) > LONGEST_LINE:
                raise DataError(
                    f"{path}: line {number + len(lines) + 1} is longer than "
                    f"{LONGEST_LINE // 2**20} MiB. Is it an svmlight file?"
                )
            if not block and rest:
                lines.append(rest)
            texts, numbers = [], []
            for line in lines:
                number += 1
                text = line.partition(b"#")[0].strip()
                if text:
                    texts.append(_ascii(text, path, number))
                    numbers.append(number)
            if texts:
                yield Lines(texts, numbers)
            if not block:
                return


def _ascii(text: bytes, path: str, number: int) -> str:
    try:
        return text.decode("ascii")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}: line {number}: got {text[:100]!r}, expected {_FORM}, in ASCII"
        ) from error


def split(lines: Lines, columns: int) -> Iterator[Lines]:
    """Blocks that are small enough to become columns."""
    rows = max(1, min(_ROWS, _VALUES // max(columns, 1)))
    for i in range(0, len(lines.texts), rows):
        yield Lines(lines.texts[i : i + rows], lines.numbers[i : i + rows])


def where(path: str, row: int) -> str:
    """The name of a row; rows count from 1. The file is read again up to the row."""
    with contextlib.suppress(DataError):
        for lines in read(path):
            if row <= len(lines.texts):
                return f"{path}: line {lines.numbers[row - 1]}"
            row -= len(lines.texts)
    return f"{path}: row {row}"


# --- Values ---------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Block:
    """Some lines, as arrays.

    Attributes:
      labels: text [rows].
      queries: text [rows]; None without a qid.
      values: text [values]: the values of all columns, of one line after the other.
      numbers: int64 [values]: the columns of the values.
      rows: int64 [values]: the lines of the values.
      places: the numbers of the lines in the file.
      path: the file.
    """

    labels: Any
    queries: Optional[Any]
    values: Any
    numbers: np.ndarray
    rows: np.ndarray
    places: list[int]
    path: str


def parsed(lines: Lines, path: str) -> Block:
    """The labels, queries and values of some lines.

    Raises:
      DataError: a line has another form.
    """
    pa, compute = arrow(), arrow("compute")
    tokens = compute.utf8_split_whitespace(pa.array(lines.texts, pa.string()))
    starts = np.asarray(tokens.offsets)[:-1].astype(np.int64)
    rows = np.repeat(
        np.arange(len(lines.texts)),
        np.diff(np.asarray(tokens.offsets)).astype(np.int64),
    )
    flat = tokens.flatten()
    labels = compute.replace_substring_regex(flat.take(pa.array(starts)), r"^\+", "")
    is_query = np.asarray(compute.starts_with(flat, "qid:"))
    is_value = ~is_query
    is_value[starts] = False
    queries = None
    if is_query.any():
        counts = np.bincount(rows[is_query], minlength=len(lines.texts))
        if (counts != 1).any():
            row = int(np.flatnonzero(counts != 1)[0])
            if counts[row] > 1:
                raise DataError(f"{path}: line {lines.numbers[row]}: it has two qids. Remove one")
            raise some_queries(path, lines.numbers[row], False)
        queries = compute.utf8_slice_codeunits(flat.filter(pa.array(is_query)), 4)
    pairs, rows = flat.filter(pa.array(is_value)), rows[is_value]
    fits = np.asarray(compute.match_substring_regex(pairs, r"^[0-9]{1,9}:[^:]+$"), bool)
    if not fits.all():
        bad = int(np.flatnonzero(~fits)[0])
        raise DataError(
            f"{path}: line {lines.numbers[int(rows[bad])]}: got {pairs[bad].as_py()[:100]!r}, "
            f"expected {_FORM}{not_svmlight(path)}"
        )
    halves = compute.split_pattern(pairs, ":", max_splits=1).flatten()
    even = pa.array(np.arange(0, len(halves), 2))
    numbers = np.asarray(halves.take(even).cast(pa.int64()))
    if len(numbers) and numbers.max() > _LARGEST_NUMBER:
        large = int(np.flatnonzero(numbers > _LARGEST_NUMBER)[0])
        raise DataError(
            f"{path}: line {lines.numbers[int(rows[large])]}: got the number "
            f"{int(numbers[large]):,} of a value, expected at most {_LARGEST_NUMBER:,}: each "
            "number becomes a column. Write words and their weights as lists, in JSON lines"
        )
    values = halves.take(pa.array(np.arange(1, len(halves), 2)))
    values = compute.replace_substring_regex(values, r"^\+", "")
    missing = compute.is_in(values, value_set=pa.array(_MISSING, pa.string()))
    values = compute.if_else(missing, None, values)
    return Block(labels, queries, values, numbers, rows, lines.numbers, path)


def not_svmlight(path: str) -> str:
    if not path.lower().removesuffix(".gz").endswith(".txt"):
        return ""
    return ". Files with .txt are read as svmlight. If it is CSV, rename it to .csv or .tsv"


def some_queries(path: str, line: int, has: bool) -> DataError:
    text = "has a qid, unlike the lines before it" if has else "has no qid, unlike other lines"
    return DataError(f"{path}: line {line}: it {text}. All lines must have one, or none")


def numbered(block: Block) -> dict[str, tuple[Any, np.ndarray]]:
    """By column, its values in the file, and the row of each."""
    pa = arrow()
    found = {}
    order = np.argsort(block.numbers, kind="stable")
    numbers, firsts = np.unique(block.numbers[order], return_index=True)
    for number, places in zip(numbers.tolist(), np.split(order, firsts[1:])):
        rows = block.rows[places]
        twice = np.flatnonzero(np.diff(rows) == 0)
        if len(twice):
            raise DataError(
                f"{block.path}: line {block.places[int(rows[twice[0]])]}: it has the number "
                f"{number} twice. Remove one of the two values"
            )
        found[f"f{number}"] = (block.values.take(pa.array(places)), rows)
    return found


def dense(block: Block, names: Sequence[str]) -> Any:
    """A record batch of text: a value that a line does not have is 0. Leaves out other names."""
    pa, count = arrow(), len(block.labels)
    zeros = pa.array(["0"] * count, pa.string())
    arrays: dict[str, Any] = {}
    found = numbered(block)
    for name in names:
        if name == LABEL:
            arrays[name] = block.labels
        elif name == QUERY and block.queries is not None:
            arrays[name] = block.queries
        elif name in found:
            values, rows = found[name]
            if len(rows) < count:
                places = np.full(count, len(values), np.int64)
                places[rows] = np.arange(len(rows))
                values = pa.concat_arrays([values, zeros.slice(0, 1)]).take(pa.array(places))
            arrays[name] = values
        elif number_of(name) is not None:
            arrays[name] = zeros
    return pa.RecordBatch.from_pydict(arrays)
