"""Reads and checks vocabulary files: UTF-8, one word per line. The first line has id 0.

TensorFlow's table initializers split a file only at line feeds and take every other byte as part of
a word. Windows line ends, a blank last line or a repeated word therefore lead to wrong ids or to
errors inside a session. This module finds them before, and `fits_a_line` tells writers which words
a file can store. It never writes a file and does not import TensorFlow.
"""

from __future__ import annotations

import pathlib
import re
from typing import Optional

# The number of wrong lines that a message shows.
_EXAMPLES = 3


class VocabularyError(ValueError):
    """A vocabulary file that cannot be used. The message says what to change."""


def inside(directory: pathlib.Path, file: str) -> Optional[pathlib.Path]:
    """The path of `file` below `directory`, or None if it is not below `directory`."""
    if "\0" in file:
        return None
    base = directory.resolve()
    path = (base / file).resolve()
    return path if not pathlib.PurePath(file).is_absolute() and base in path.parents else None


def not_inside(directory: pathlib.Path, file: object) -> str:
    """The message for a path that `inside` rejects."""
    return f"got {file!r}, expected a path below the folder of the spec, {str(directory)!r}"


def fits_a_line(word: str) -> bool:
    """Whether a vocabulary file can store a word, so that `read_words` and TensorFlow read it back.

    TensorFlow removes a carriage return at the end of a line, and keeps all other characters. A
    byte order mark is refused in every word, because the word may be the first one of the file.
    """
    return bool(word) and "\n" not in word and word[-1] != "\r" and word[0] != "\ufeff"


def read_words(path: pathlib.Path, *, integers: bool = False) -> list[str]:
    """Reads the words of a vocabulary file, in the order of their ids.

    Args:
      path: the file.
      integers: whether the words must be integers, as for an int64 feature.

    Raises:
      VocabularyError: the file does not exist, is empty or is not UTF-8. Or a line is empty, is
        listed twice, ends in a carriage return or, with `integers`, is not an integer.
    """
    try:
        text = path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        raise VocabularyError(
            f"the file {str(path)!r} does not exist. Correct the path, or write the file with one "
            "word per line."
        ) from None
    except OSError as error:
        raise VocabularyError(f"{str(path)!r} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise VocabularyError(f"{str(path)!r} cannot be read as UTF-8: {error}") from error
    if text.startswith("\ufeff"):
        raise VocabularyError(
            f"{str(path)!r} has a byte order mark, which would become part of the first word. "
            "Write the file as UTF-8 without a byte order mark."
        )
    if not text:
        raise VocabularyError(f"{str(path)!r} is empty. Write one word per line.")
    words = (text[:-1] if text.endswith("\n") else text).split("\n")
    if any(word.endswith("\r") for word in words):
        raise VocabularyError(
            f"{str(path)!r} has Windows line ends, which would become part of each word. "
            "Write the file with line feeds only."
        )
    empty = [i + 1 for i, word in enumerate(words) if not word]
    if empty:
        raise VocabularyError(f"{str(path)!r} has an empty line, line {empty[0]}. Remove it.")
    if len(set(words)) < len(words):
        first: dict[str, int] = {}
        repeated = [
            f"{word!r} on lines {first[word]} and {i}"
            for i, word in enumerate(words, start=1)
            if first.setdefault(word, i) != i
        ]
        raise VocabularyError(
            f"{str(path)!r} has {len(repeated)} duplicate{'s' if len(repeated) > 1 else ''}: "
            f"{', '.join(repeated[:_EXAMPLES])}. Keep each word once."
        )
    if integers:
        wrong = [f"line {i}: {word!r}" for i, word in enumerate(words, 1) if not _is_int(word)]
        if wrong:
            raise VocabularyError(
                f"{str(path)!r} is for an int64 feature and has words that are not integers: "
                f"{', '.join(wrong[:_EXAMPLES])}"
            )
    return words


def _is_int(word: str) -> bool:
    """Whether a word is an int64 as Python writes it, so that two words never mean one integer."""
    return re.fullmatch(r"0|-?[1-9][0-9]{0,18}", word) is not None and -(2**63) <= int(word) < 2**63
