"""The kind `vocabulary`: words with ids. Imports no TensorFlow."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import Annotated, Any, Optional, Union

import pydantic
from pydantic import Field

from feature_specs.entry import Integers, PositiveInt, Words
from feature_specs.errors import Path, Problem
from feature_specs.kinds.base import Column, Entries, Reference
from feature_specs.kinds.lookup import Lookup
from feature_specs.vocabulary import VocabularyError, inside, not_inside, read_words


class Vocabulary(Lookup):
    """The position of a word in a list or in a file with one word a line.

    Words outside it fall into `oov_buckets` extra ids by hash, or take `default_id`, or (the
    default) have no id.

    `size` uses the first lines of the file only; it is filled in with the number of lines.
    `sequence: true`: see `Identity`.
    """

    kind = "vocabulary"
    categorical = True
    named_rows = True
    compared_apart = frozenset({"source", "words", "file", "size", "sequence", "default_id"})
    source: str = Field(alias="vocabulary")
    words: Optional[Union[Words, Integers]] = Field(default=None, alias="list")
    file: Optional[str] = None
    size: Optional[PositiveInt] = None
    oov_buckets: Annotated[int, Field(ge=0)] = 0
    default_id: Annotated[int, Field(ge=-1)] = -1
    sequence: bool = False

    @pydantic.model_validator(mode="after")
    def _check(self) -> Vocabulary:
        if (self.words is None) == (self.file is None):
            raise ValueError("give the words as `list` or as `file`, one of the two")
        if self.words is not None and self.size is not None:
            raise ValueError("`size` goes with `file`; a list has the size it has")
        if self.words is not None and len(set(self.words)) < len(self.words):
            raise ValueError("the list has duplicates")
        if self.oov_buckets and self.default_id != -1:
            raise ValueError("give oov_buckets or default_id, not both")
        if self.words is not None and self.default_id >= len(self.words):
            raise ValueError(
                f"default_id {self.default_id} must be below the number of words, {len(self.words)}"
            )
        return self

    def path(self, spec: Entries) -> pathlib.Path:
        """Where its file is; of a column that has one."""
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

    def with_files(self, spec: Entries, name: str) -> Union[Column, Problem]:
        """The column with the number of words that it reads from its file as its `size`."""
        if self.file is None:
            return self
        path: Path = ("columns", name, "file")
        found = inside(spec.directory, self.file)
        if found is None:
            return Problem(path, not_inside(spec.directory, self.file))
        feature = spec.features.get(self.source)
        try:
            words = read_words(found, integers=feature is not None and feature.dtype == "int64")
        except VocabularyError as error:
            return Problem(path, str(error))
        if self.size is not None and self.size > len(words):
            return Problem(
                ("columns", name, "size"),
                f"got {self.size}, but {self.file!r} has {len(words)} words; "
                "lower size or leave it out",
            )
        used = self.size or len(words)
        if self.default_id >= used:
            return Problem(
                ("columns", name, "default_id"),
                f"got {self.default_id}, expected an id below the number of words, {used}",
            )
        return self.model_copy(update={"size": used})

    def is_sequence(self, spec: Entries) -> bool:
        return self.sequence

    def id_count(self, spec: Entries) -> int:
        words = len(self.words) if self.words is not None else self.size or 0
        return words + self.oov_buckets

    def row_names(self, spec: Entries) -> list[str]:
        """Its words; integers as digits."""
        if self.words is not None:
            return [str(word) for word in self.words]
        return read_words(self.path(spec))[: self.size]

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
            # TensorFlow wants None, not -1, beside out-of-vocabulary buckets.
            default_value=None if self.oov_buckets else self.default_id,
            num_oov_buckets=self.oov_buckets,
        )
