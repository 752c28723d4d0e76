"""Reads and checks vocabulary files: one word a line, UTF-8, line i is id i.

TensorFlow's table initializers split at the line feed alone and take every other byte as part of
the word, so what looks like a harmless text-file habit (Windows line ends, a blank last line,
a repeated word) becomes a wrong id or an error deep inside a session. It is found here, before.
Never writes a file; imports no TensorFlow.
"""

from __future__ import annotations

import pathlib
import re
from typing import Optional

# What a message shows of the lines that are wrong.
_EXAMPLES = 3


class VocabularyError(ValueError):
    """A vocabulary file that cannot be used; the message says what to write instead."""


def inside(directory: pathlib.Path, file: str) -> Optional[pathlib.Path]:
    """The path of `file` below `directory`, or None when it would lead outside it."""
    if "\0" in file:
        return None
    base = directory.resolve()
    path = (base / file).resolve()
    return path if not pathlib.PurePath(file).is_absolute() and base in path.parents else None


def not_inside(directory: pathlib.Path, file: object) -> str:
    """What a user is told of a path that `inside` refuses."""
    return f"got {file!r}, expected a path below the folder of the spec, {str(directory)!r}"


def read_words(path: pathlib.Path, *, integers: bool = False) -> list[str]:
    """The words of a vocabulary file in the order of their ids.

    Args:
      path: the file.
      integers: whether the words must be integers, as for an int64 feature.

    Raises:
      VocabularyError: the file is missing, empty or not UTF-8; a line is empty, repeated, ends in
        a carriage return or, with `integers`, is no integer.
    """
    try:
        text = path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        raise VocabularyError(
            f"there is no file {str(path)!r}; correct the path, or write the file, one word a line"
        ) from None
    except OSError as error:
        raise VocabularyError(f"{str(path)!r} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise VocabularyError(f"{str(path)!r} cannot be read as UTF-8: {error}") from error
    if text.startswith("\ufeff"):
        raise VocabularyError(
            f"{str(path)!r} has a byte order mark, which would become part of the first word; "
            "write it as UTF-8 without one"
        )
    if not text:
        raise VocabularyError(f"{str(path)!r} is empty; it needs one word a line")
    words = (text[:-1] if text.endswith("\n") else text).split("\n")
    if any(word.endswith("\r") for word in words):
        raise VocabularyError(
            f"{str(path)!r} has Windows line ends, which would become part of each word; "
            "write it with line feeds alone"
        )
    empty = [i + 1 for i, word in enumerate(words) if not word]
    if empty:
        raise VocabularyError(f"{str(path)!r} has an empty line, line {empty[0]}; remove it")
    if len(set(words)) < len(words):
        first: dict[str, int] = {}
        repeated = [
            f"{word!r} on lines {first[word]} and {i}"
            for i, word in enumerate(words, start=1)
            if first.setdefault(word, i) != i
        ]
        raise VocabularyError(
            f"{str(path)!r} has {len(repeated)} duplicate{'s' if len(repeated) > 1 else ''}: "
            f"{', '.join(repeated[:_EXAMPLES])}"
        )
    if integers:
        wrong = [f"line {i}: {word!r}" for i, word in enumerate(words, 1) if not _is_int(word)]
        if wrong:
            raise VocabularyError(
                f"{str(path)!r} is for an int64 feature and has words that are no integer: "
                f"{', '.join(wrong[:_EXAMPLES])}"
            )
    return words


def _is_int(word: str) -> bool:
    """Whether a word is an int64 as Python writes it, so that no two words are one integer."""
    return re.fullmatch(r"0|-?[1-9][0-9]{0,18}", word) is not None and -(2**63) <= int(word) < 2**63
