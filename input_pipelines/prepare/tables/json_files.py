"""Reads JSON lines with pyarrow, in blocks of lines. Each line is an object; keys may be missing.

pyarrow infers types from each block; `formats.json_lines` finds the types of whole columns. Text
that looks like a date stays text. If a key has integers and fractions in a block, pyarrow reads all
of them as float64. Integers of more than 64 bits are errors there, and `batches_with_digits` reads
large integers again as text. Fractions keep the digits of a float64, also in that text, so that no
number depends on the other numbers of its block. `json_texts` reads values that are kept as they
are.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Optional

import numpy as np

from input_pipelines.errors import DataError
from input_pipelines.prepare.tables import json_texts, library
from input_pipelines.prepare.tables.columns import is_list, is_text
from input_pipelines.prepare.tables.csv_files import utf8
from input_pipelines.prepare.tables.csv_stream import LONGEST_LINE
from input_pipelines.prepare.tables.library import arrow, one_line, reading

_BLOCK = 4 * 2**20
_ROW = re.compile(r"^JSON parse error: (.*?)\.? in row (\d+)$")

_CHANGED = re.compile(r"^Column\((.*)\) changed from (\w+) to (\w+)$")

# A line that starts with null instead of an object.
_NULL = re.compile(rb"(?:\A(?:\xef\xbb\xbf)?|\n)\s*null\b")

# Integers from here on need more than 64 bits.
_BIG = 2.0**63

# Integers from here on may have more digits than a float64.
_LARGE = 2.0**53
_LARGE_INTEGER = re.compile(rb"[0-9]{16}")


def _digits_of_float64(text: str) -> str:
    number = float(text)
    return repr(number) if math.isfinite(number) else text


# Numbers as their text. Accepts line breaks in text, like pyarrow.
_AS_TEXT = json.JSONDecoder(parse_int=str, parse_float=_digits_of_float64, strict=False)

_BLANK = b" \t\r\n\xef\xbb\xbf"


def batches(path: str) -> Iterator[Any]:
    """The rows of a file as record batches. Each batch has the columns and types in its block.

    Raises:
      DataError: the file cannot be read; names the row.
    """
    for batch, _ in _batches(path):
        yield batch


def batches_with_digits(
    path: str, texts: Optional[Sequence[str]] = None
) -> Iterator[tuple[Any, Any]]:
    """The same batches, and with each batch the same rows with all the digits of integers.

    In the second batch, a column of floats is text if it has integers that a float64 may round.
    With `texts`, the first batch has just these columns, as the JSON text of the file: see
    `json_texts`.
    """
    before = 0
    for batch, block in _batches(path):
        exact = _with_digits(batch, block, path, before)
        if texts is not None:
            batch = json_texts.batch(block, texts, path, before, batch.num_rows)
        yield batch, exact
        before += exact.num_rows


def _batches(path: str) -> Iterator[tuple[Any, bytes]]:
    """The batches of a file, each with its block."""
    before = 0
    for block in _blocks(path):
        table = _table(block, {}, path, before)
        _check_keys(table, path, before)
        dates = {field.name: _as_text(field.type) for field in table.schema if _is_date(field.type)}
        if dates:
            table = _table(block, dates, path, before)
        _check(table, block, path, before)
        if not table.num_columns and block.strip(_BLANK):
            raise DataError(
                f"{path}: row {before + 1}: this object and the objects that follow it have no keys"
            )
        if table.num_rows:
            yield table.combine_chunks().to_batches()[0], block
        before += table.num_rows


def _blocks(path: str) -> Iterator[bytes]:
    """Blocks of complete lines, some megabytes each."""
    with reading(path):
        source = library.open_text(path)
    with contextlib.closing(source):
        rest = b""
        while True:
            with reading(path):
                content = bytes(source.read(_BLOCK))
            if not content:
                break
            end = content.rfind(b"\n") + 1
            if end:
                yield rest + content[:end]
                rest = content[end:]
                continue
            rest += content
            if len(rest) > LONGEST_LINE:
                raise DataError(
                    f"{path}: a line is longer than {LONGEST_LINE // 2**20} MB; JSON lines have "
                    "one object on each line, not one list of objects"
                )
        if rest:
            yield rest


def _table(block: bytes, types: dict[str, Any], path: str, before: int) -> Any:
    pa, reader = arrow(), arrow("json")
    if not block.strip(_BLANK):
        return pa.table({})
    null = _NULL.search(block)
    if null is not None:  # If it is the first line, pyarrow ends the process.
        row = before + json_texts.lines_in(block[: null.start()]) + 1
        raise DataError(
            f"{path}: row {row}: is null; each line must have one object. Remove the line, or "
            "write {} for a row without values"
        )
    deep = json_texts.first_too_deep(block)
    if deep is not None:
        raise DataError(
            f"{path}: row {before + deep + 1}: is nested more than {json_texts.DEEPEST} levels "
            "deep; a value must be a number, a text, or a list of them"
        )
    try:
        return reader.read_json(
            pa.BufferReader(block),  # Other threads read it, so it must not be a Python file.
            reader.ReadOptions(use_threads=False, block_size=len(block) + 1),
            reader.ParseOptions(explicit_schema=pa.schema(list(types.items())) if types else None),
        )
    except pa.ArrowInvalid as error:
        message = one_line(error)
        match = _ROW.match(message)
        if match is None:
            raise DataError(f"{path}: after row {before}: {message}") from error
        row = before + int(match[2]) + 1
        raise DataError(
            f"{path}: row {row}: {_said(match[1])}; each line must have one object, and the values "
            "of a key must have one type"
        ) from error


def _said(message: str) -> str:
    """pyarrow's message about a line, with the key as in the file: pyarrow writes it as `/a/[]`."""
    match = _CHANGED.match(message)
    if match is None:
        return message
    key = match[1].strip("/").removesuffix("/[]")
    what = f"the values of {key!r} change" if key else "the line changes"
    return f"{what} from {match[2]} to {match[3]}"


def _is_date(dtype: Any) -> bool:
    dtype = dtype.value_type if is_list(dtype) else dtype
    return bool(arrow().types.is_temporal(dtype))


def _as_text(dtype: Any) -> Any:
    pa = arrow()
    return pa.list_(pa.string()) if is_list(dtype) else pa.string()


def _check_keys(table: Any, path: str, before: int) -> None:
    try:
        _ = table.schema.names
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}: a key in row {before + 1} or below is not UTF-8: {error}. Write the file "
            "again in UTF-8."
        ) from error


def _check(table: Any, block: bytes, path: str, before: int) -> None:
    """Checks that text is UTF-8 and that integers fit into 64 bits."""
    pa = arrow()
    for name, column in zip(table.schema.names, table.columns):
        array = column.combine_chunks()
        flat = array.flatten() if is_list(array.type) else array
        if is_text(flat.type):
            utf8(flat, f"column {name!r}", _where(array, path, before))
        elif pa.types.is_floating(flat.type):
            numbers = np.abs(np.asarray(flat.drop_null()))
            if len(numbers) and float(numbers.max()) >= _BIG:
                _check_integers(name, block, path, before)


def _with_digits(batch: Any, block: bytes, path: str, before: int) -> Any:
    pa = arrow()
    rows: list[dict[str, Any]] = []
    for i, (name, array) in enumerate(zip(batch.schema.names, batch.columns)):
        flat = array.flatten() if is_list(array.type) else array
        if not pa.types.is_floating(flat.type) or not _any_large(flat):
            continue
        if not rows:
            if _LARGE_INTEGER.search(block) is None:
                return batch
            rows = _rows_as_text(block)
            json_texts.check_count(len(rows), path, before, batch.num_rows)
        dtype = pa.list_(pa.string()) if is_list(array.type) else pa.string()
        batch = batch.set_column(i, name, pa.array([row.get(name) for row in rows], dtype))
    return batch


def _any_large(numbers: Any) -> bool:
    return bool((np.abs(np.asarray(numbers.drop_null())) >= _LARGE).any())


def _rows_as_text(block: bytes) -> list[dict[str, Any]]:
    """The objects of a block; numbers are text."""
    text = block.decode("utf-8-sig", errors="replace").strip()
    rows, at = [], 0
    while at < len(text):
        row, at = _AS_TEXT.raw_decode(text, at)
        rows.append(row)
        at += len(text[at : at + 1024]) - len(text[at : at + 1024].lstrip())
    return rows


def _where(array: Any, path: str, before: int) -> Callable[[int], str]:
    """A function that names the row of a value of an array or of its lists."""

    def where(i: int) -> str:
        if is_list(array.type):
            i = arrow("compute").list_parent_indices(array)[i].as_py()
        return f"{path}: row {before + i + 1}"

    return where


def _check_integers(name: str, block: bytes, path: str, before: int) -> None:
    rows = (line for line in block.splitlines() if line.strip())
    for i, line in enumerate(rows):
        try:
            value = json.loads(line)[name]
        except (ValueError, KeyError):
            continue
        for number in value if isinstance(value, list) else [value]:
            if isinstance(number, int) and not (-(2**63) <= number < 2**63):
                raise DataError(
                    f"{path}: row {before + i + 1}: column {name!r}: got {number}, which is too "
                    "large for int64. Store the column as text"
                )
