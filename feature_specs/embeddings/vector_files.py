"""Files of vectors, read by the standard library: text, and the headers of `.npy` files.

So a validation of a spec finds what is wrong with them before TensorFlow or NumPy are imported.
Knows no spec; never writes.
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
_LINE = "a line is a word, a space or a tab, and its numbers with spaces or tabs between them"


class VectorFileError(ValueError):
    """A file of vectors that cannot be used; the message says what to write instead."""


@dataclasses.dataclass(frozen=True)
class Vector:
    """A line of a text file.

    Attributes:
      place: the id of its word, or None when the word has none.
      numbers: the vector; empty without an id.
      end: how many bytes of the file end with this line.
    """

    place: Optional[int]
    numbers: Sequence[float]
    end: int


def text_vectors(path: pathlib.Path, ids: Mapping[str, int], dimension: int) -> Iterator[Vector]:
    """The lines of a text file: a word, and the numbers of its vector.

    A word goes to the first tab of its line, or to the first space where there is no tab. A first
    line of two integers (word2vec's header) is no vector.

    Args:
      path: the file, in UTF-8.
      ids: the ids of the words.
      dimension: how many numbers each line must have.

    Raises:
      VectorFileError: a line is no vector of this dimension, its word is there twice, or its
        numbers are no float32. The numbers of words without an id are counted alone.
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
                        f"{where}: the header says {text.split()[1]} numbers a word, expected "
                        f"{dimension}, the column's dimension"
                    )
                continue
            word, _, rest = text.partition("\t" if "\t" in text else " ")
            numbers = rest.split()
            if len(numbers) != dimension:
                raise VectorFileError(
                    f"{where}: {len(numbers)} numbers after the word {value_text(word)}, expected "
                    f"{dimension}, the column's dimension; {_LINE}"
                )
            place = ids.get(word)
            if place is None:
                yield Vector(None, (), end)
                continue
            if place in seen:
                raise VectorFileError(f"{where}: the word {word!r} is there twice; keep one line")
            seen.add(place)
            yield Vector(place, _floats(numbers, word, where), end)


def _decoded(raw: bytes, where: str, *, first: bool) -> str:
    try:
        text = raw.decode("utf-8").rstrip("\r\n").rstrip(" \t")
    except UnicodeDecodeError as error:
        raise VectorFileError(
            f"{where} is no UTF-8; write the vectors as UTF-8 text, or with numpy.save to a file "
            "whose name ends in .npy"
        ) from error
    if first and text.startswith("\ufeff"):
        raise VectorFileError(
            f"{where} starts with a byte order mark, which would become part of the first word; "
            "write it as UTF-8 without one"
        )
    if not text:
        raise VectorFileError(f"{where} is empty; remove it")
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
            f"{where}: got {wrong} for the word {word!r}, expected a finite number, as a float32"
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

    Reads the header alone, and holds it against the size of the file.

    Raises:
      VectorFileError: it is no array of plain numbers that `numpy.save` wrote, or is cut off.
      OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        start = file.read(len(_MAGIC) + 2)
        version = start[len(_MAGIC) :]
        if not start.startswith(_MAGIC) or len(version) < 2:
            raise VectorFileError(
                f"{str(path)!r} is no array of NumPy; write it with numpy.save, or give a text "
                "file a name that does not end in .npy"
            )
        form = "<H" if version[0] == 1 else "<I"
        try:
            (length,) = struct.unpack(form, file.read(struct.calcsize(form)))
            header = ast.literal_eval(file.read(min(length, _LONGEST_HEADER)).decode("utf-8"))
            kind, shape = header["descr"], header["shape"]
        except (ValueError, SyntaxError, KeyError, TypeError, struct.error) as error:
            raise VectorFileError(
                f"{str(path)!r} has a header that cannot be read; write it again with numpy.save"
            ) from error
        begin = file.tell()
    found = re.fullmatch(r"[<>|=]([fiucb])([0-9]+)", kind) if isinstance(kind, str) else None
    if found is None:
        what = "Python objects" if kind == "|O" else f"the type {kind!r}"
        raise VectorFileError(
            f"{str(path)!r} holds {what}, expected floats; write it again with "
            "numpy.save(file, vectors.astype(numpy.float32))"
        )
    size = path.stat().st_size
    expected = begin + math.prod(shape) * int(found[2])
    if size < expected:
        raise VectorFileError(
            f"{str(path)!r} is cut off: it has {size:,} bytes, and its header says {expected:,}; "
            "copy it again"
        )
    dtype = "bool" if found[1] == "b" else f"{_KINDS[found[1]]}{8 * int(found[2])}"
    return dtype, tuple(shape)
