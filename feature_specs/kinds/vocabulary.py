"""The kind `vocabulary`: words with ids; and the files of the words. No TensorFlow import.

A vocabulary file is UTF-8, with one word per line. The first line has id 0.

TensorFlow's table initializers split a file only at line feeds and take every other byte as part of
a word. Windows line ends, a blank last line or a repeated word therefore lead to wrong ids or to
errors inside a session. This module finds them before, and `fits_a_line` tells writers which words
a file can store. It never writes a file.
"""

from __future__ import annotations

import hashlib
import pathlib
import re
from collections.abc import Iterator
from typing import Annotated, Any, Optional, Union

import pydantic
from pydantic import Field

from feature_specs.entry import Integers, PositiveInt, Words, field
from feature_specs.errors import Path, Problem, ProblemError
from feature_specs.kinds.base import Column, Entries, Reference
from feature_specs.kinds.categorical import Lookup

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


class Vocabulary(Lookup):
    """The position of a word in a list, or in a file with one word per line.

    By default, a word outside the vocabulary has no id. Set `oov_buckets` or `default_id` to give
    it one.
    """

    changes = "values"

    kind = "vocabulary"
    categorical = True
    named_rows = True
    by_row = frozenset({"source", "words", "file", "size", "default_id"})
    source: str = Field(alias="vocabulary", description="The name of a string or int64 feature.")
    words: Optional[Union[Words, Integers]] = field(
        default=None,
        alias="list",
        changes="values",
        named=True,
        description="The words, or integers, in the order of their ids. Set either `list` or "
        "`file`.",
    )
    file: Optional[str] = field(
        None,
        changes="values",
        named=True,
        description="A UTF-8 file with one word per line, in the order of the ids. The path is "
        "relative to the folder of the spec, and below it.",
    )
    size: Optional[PositiveInt] = field(
        None,
        changes="values",
        named=True,
        description="Use only this many lines of the file. By default all lines are used.",
    )
    oov_buckets: Annotated[int, Field(ge=0, le=2**62)] = Field(
        0,
        description="The number of extra ids for words outside the vocabulary. A hash of the word "
        "selects the id.",
    )
    default_id: Annotated[int, Field(ge=-1)] = Field(
        -1, description="The id of all words outside the vocabulary. -1 means that they have no id."
    )
    sequence: bool = field(
        False,
        changes="weights",
        description="`true` keeps the values of a list as separate steps, for models that read "
        "steps in order.",
    )

    @pydantic.model_validator(mode="after")
    def _check(self) -> Vocabulary:
        if (self.words is None) == (self.file is None):
            raise ValueError("set either `list` or `file`")
        if self.words is not None and self.size is not None:
            raise ValueError(
                "`size` can only be set with `file`. Remove size, or shorten the list."
            )
        if self.words is not None and len(set(self.words)) < len(self.words):
            raise ValueError("the list contains a word twice. Remove one of them.")
        if self.oov_buckets and self.default_id != -1:
            raise ValueError("set oov_buckets or default_id, not both")
        if self.words is not None and self.default_id >= len(self.words):
            raise ValueError(
                f"default_id must be less than the number of words, {len(self.words)}, got "
                f"{self.default_id}"
            )
        return self

    def path(self, spec: Entries) -> pathlib.Path:
        """The path of its file. Only for a column with a file."""
        assert self.file is not None
        return spec.directory / self.file

    @property
    def files(self) -> tuple[str, ...]:
        return () if self.file is None else (self.file,)

    def source_problems(self, spec: Entries, name: str) -> Iterator[Problem]:
        yield from super().source_problems(spec, name)
        feature = spec.features.get(self.source)
        if feature is None or feature.decode is not None or self.words is None:
            return
        word_type = "int64" if isinstance(self.words[0], int) else "string"
        if feature.dtype != word_type and feature.dtype != "float32":
            yield Problem(
                ("columns", name, "list"),
                f"the words are {word_type} but feature {self.source!r} is {feature.dtype}",
            )

    def with_files(self, spec: Entries, name: str) -> Column:
        """The column, with the number of words that it reads from its file as its `size`."""
        if self.file is None:
            return self
        path: Path = ("columns", name, "file")
        file_path = inside(spec.directory, self.file)
        if file_path is None:
            raise ProblemError(path, not_inside(spec.directory, self.file))
        feature = spec.features.get(self.source)
        try:
            words = read_words(file_path, integers=feature is not None and feature.dtype == "int64")
        except VocabularyError as error:
            raise ProblemError(path, str(error)) from error
        if self.size is not None and self.size > len(words):
            raise ProblemError(
                ("columns", name, "size"),
                f"got {self.size}, but {self.file!r} has {len(words)} words. Lower size or remove "
                "it.",
            )
        used = self.size or len(words)
        if self.default_id >= used:
            raise ProblemError(
                ("columns", name, "default_id"),
                f"got {self.default_id}, expected an id less than the number of words, {used}",
            )
        return self.model_copy(update={"size": used})

    def is_sequence(self, spec: Entries) -> bool:
        return self.sequence

    def id_count(self, spec: Entries) -> int:
        words = len(self.words) if self.words is not None else self.size or 0
        return words + self.oov_buckets

    def ids_meaning(self, spec: Entries) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "words": self.row_names(spec),
            "oov_buckets": self.oov_buckets,
            "default_id": self.default_id,
        }

    def place_of(self, name: str, i: int) -> str:
        """Where its word with the id `i` is written, for messages. `name` is its name."""
        if self.file is None:
            return f"columns.{name}.list[{i}]"
        return f"line {i + 1} of {self.file!r} of column {name!r}"

    def row_names(self, spec: Entries) -> list[str]:
        """Its words. Integers are returned as strings of digits."""
        if self.words is not None:
            return [str(word) for word in self.words]
        return read_words(self.path(spec))[: self.size]

    def words_text(self, spec: Entries) -> str:
        if self.words is not None:
            lines = [str(word).encode() for word in self.words]
        else:  # Without decoding: a file can have millions of words.
            lines = self.path(spec).read_bytes().split(b"\n", self.size or 0)[: self.size]
        digest = hashlib.sha256(b"\n".join(lines))
        return f"{len(lines)} words, SHA-256 {digest.hexdigest()}"

    @property
    def unnamed_ids(self) -> int:
        return self.oov_buckets

    def meaning(self, spec: Entries) -> Any:
        return ["vocabulary", self.source, self.row_names(spec), self.own_meaning()]

    def feature_column(self, reference: Reference, name: str) -> Any:
        tf = reference.tf
        dtype = tf.as_dtype(reference.spec.features[self.source].dtype)
        of, steps = tf.feature_column, self.sequence
        if self.words is not None:
            from_list = (
                of.sequence_categorical_column_with_vocabulary_list
                if steps
                else of.categorical_column_with_vocabulary_list
            )
            return from_list(
                self.source,
                self.words,
                dtype=dtype,
                default_value=self.default_id,
                num_oov_buckets=self.oov_buckets,
            )
        from_file = (
            of.sequence_categorical_column_with_vocabulary_file
            if steps
            else of.categorical_column_with_vocabulary_file
        )
        return from_file(
            self.source,
            str(self.path(reference.spec)),
            vocabulary_size=self.size,
            dtype=dtype,
            # With out-of-vocabulary buckets, TensorFlow expects None instead of -1.
            default_value=None if self.oov_buckets else self.default_id,
            num_oov_buckets=self.oov_buckets,
        )
