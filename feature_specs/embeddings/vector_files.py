"""Reads files of vectors with the standard library: text files and the headers of `.npy` files.

The validation of a spec can therefore check them before it imports TensorFlow or NumPy. This module
knows nothing about specs and never writes.
"""

from __future__ import annotations

import ast
import dataclasses
import math
import pathlib
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Optional

from feature_specs.errors import value_text

_LARGEST_FLOAT32 = (2 - 2**-23) * 2.0**127
_MAGIC = b"\x93NUMPY"
# Arrays of plain floats have headers of about 100 bytes.
_LONGEST_HEADER = 10_000
_KINDS = {"f": "float", "i": "int", "u": "uint", "c": "complex", "b": "bool"}
_LINE = "A line is a word, a space or a tab, and numbers separated by spaces or tabs."


class VectorFileError(ValueError):
    """A file of vectors that cannot be used. The message says what to change."""


@dataclasses.dataclass(frozen=True)
class Vector:
    """A line of a text file.

    Attributes:
      place: the id of its word, or None if the word has no id.
      numbers: the vector. Empty if the word has no id.
      end: the number of bytes of the file up to the end of this line.
    """

    place: Optional[int]
    numbers: Sequence[float]
    end: int


def text_vectors(path: pathlib.Path, ids: Mapping[str, int], dimension: int) -> Iterator[Vector]:
    """Yields the lines of a text file: a word and the numbers of its vector.

    A word ends at the first tab of its line, or at the first space if the line has no tab. A first
    line of two integers, which word2vec writes as a header, is skipped.

    Args:
      path: the UTF-8 file.
      ids: the ids of the words.
      dimension: the number of numbers that each line must have.

    Raises:
      VectorFileError: a line is not a vector of this dimension, a word is listed twice, or a number
        is not a float32. For a word without an id, only the number of numbers is checked.
      OSError: the file cannot be read.
    """
    seen: set[int] = set()
    end = 0
    with path.open("rb") as lines:
        for number, raw in enumerate(lines, 1):
            where, end = f"{str(path)!r}, line {number}", end + len(raw)
            text = _decoded(raw, where, first=number == 1)
            if number == 1 and re.fullmatch(r"[0-9]+[ \t]+[0-9]+", text):
                if int(text.split()[1]) != dimension:
                    raise VectorFileError(
                        f"{where}: the header says {text.split()[1]} numbers per word, expected "
                        f"{dimension}, the column's dimension"
                    )
                continue
            word, _, rest = text.partition("\t" if "\t" in text else " ")
            numbers = rest.split()
            if len(numbers) != dimension:
                raise VectorFileError(
                    f"{where}: {len(numbers)} numbers after the word {value_text(word)}, expected "
                    f"{dimension}, the column's dimension. {_LINE}"
                )
            place = ids.get(word)
            if place is None:
                yield Vector(None, (), end)
                continue
            if place in seen:
                raise VectorFileError(f"{where}: the word {word!r} is listed twice. Keep one line.")
            seen.add(place)
            yield Vector(place, _floats(numbers, word, where), end)


def _decoded(raw: bytes, where: str, *, first: bool) -> str:
    try:
        text = raw.decode("utf-8").rstrip("\r\n").rstrip(" \t")
    except UnicodeDecodeError as error:
        raise VectorFileError(
            f"{where} is not UTF-8. Write the vectors as UTF-8 text, or with numpy.save to a file "
            "whose name ends in .npy."
        ) from error
    if first and text.startswith("\ufeff"):
        raise VectorFileError(
            f"{where} starts with a byte order mark, which would become part of the first word. "
            "Write the file as UTF-8 without a byte order mark."
        )
    if not text:
        raise VectorFileError(f"{where} is empty. Remove it.")
    return text


def _floats(numbers: list[str], word: str, where: str) -> list[float]:
    try:
        values = [float(number) for number in numbers]
    except ValueError:
        wrong = next(number for number in numbers if not _is_float(number))
        raise VectorFileError(
            f"{where}: got {value_text(wrong)} for the word {word!r}, expected a number"
        ) from None
    # NaN has no order, but makes the sum NaN.
    low, high = min(values), max(values)
    if not (math.isfinite(sum(values)) and max(-low, high) <= _LARGEST_FLOAT32):
        wrong = next(n for n in numbers if not abs(float(n)) <= _LARGEST_FLOAT32)
        raise VectorFileError(
            f"{where}: got {wrong} for the word {word!r}, expected a finite float32"
        )
    return values


def _is_float(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def npy_array(path: pathlib.Path) -> tuple[str, tuple[int, ...]]:
    """The type, such as `float32`, and the shape of the array in an `.npy` file.

    Reads only the header, and compares it with the size of the file.

    Raises:
      VectorFileError: the file is not an array of plain numbers in the format of `numpy.save`, or
        it is truncated.
      OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        start = file.read(len(_MAGIC) + 2)
        version = start[len(_MAGIC) :]
        if not start.startswith(_MAGIC) or len(version) < 2:
            raise VectorFileError(
                f"{str(path)!r} is not a NumPy array. Write it with numpy.save, or give a text "
                "file a name that does not end in .npy."
            )
        form = "<H" if version[0] == 1 else "<I"
        try:
            (length,) = struct.unpack(form, file.read(struct.calcsize(form)))
            header = ast.literal_eval(file.read(min(length, _LONGEST_HEADER)).decode("utf-8"))
            kind, shape = header["descr"], header["shape"]
        except (ValueError, SyntaxError, KeyError, TypeError, struct.error) as error:
            raise VectorFileError(
                f"{str(path)!r} has a header that cannot be read. Write it again with numpy.save."
            ) from error
        begin = file.tell()
    found = re.fullmatch(r"[<>|=]([fiucb])([0-9]+)", kind) if isinstance(kind, str) else None
    if found is None:
        what = "Python objects" if kind == "|O" else f"the type {kind!r}"
        raise VectorFileError(
            f"{str(path)!r} contains {what}, expected floats. Write it again with "
            "numpy.save(file, vectors.astype(numpy.float32))."
        )
    size = path.stat().st_size
    expected = begin + math.prod(shape) * int(found[2])
    if size < expected:
        raise VectorFileError(
            f"{str(path)!r} is truncated: it has {size:,} bytes, but its header says {expected:,}. "
            "Copy it again."
        )
    dtype = "bool" if found[1] == "b" else f"{_KINDS[found[1]]}{8 * int(found[2])}"
    return dtype, tuple(shape)
