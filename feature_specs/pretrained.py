"""Pretrained vectors of embedding columns, read from their files.

`read` gives the table of a column as far as the file has it. Nothing is read before a training
starts from nothing: a checkpoint holds its own tables, and so does an export. Never writes.
"""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Any, Callable, Optional

import numpy as np
import tensorflow as tf

from feature_specs.column_kinds import Embedding, Vocabulary
from feature_specs.embedding_tables import Pretrained
from feature_specs.errors import Problem, SpecError
from feature_specs.initializers import initializer
from feature_specs.schema import FeatureSpec
from feature_specs.vocabulary import inside, not_inside, read_words

# Rows of words that a message names.
_EXAMPLES = 3


@dataclasses.dataclass(frozen=True)
class Table:
    """The part of an embedding table that is known.

    Attributes:
      values: float32 [ids, dimension]; zeros where nothing is known.
      known: bool [ids].
      unused: how many vectors of the file are for words that the vocabulary does not have.
    """

    values: np.ndarray
    known: np.ndarray
    unused: int = 0


def columns_with(spec: FeatureSpec) -> list[str]:
    """The embedding columns that start from pretrained vectors; of a shared table the first."""
    result: dict[str, str] = {}
    for name in spec.used_columns():
        column = spec.columns[name]
        if isinstance(column, Embedding) and column.pretrained is not None:
            result.setdefault(f"shared {column.shared}" if column.shared else name, name)
    return list(result.values())


def read(spec: FeatureSpec, name: str) -> Table:
    """The pretrained table of an embedding column.

    Raises:
      SpecError: there is no such file, tensor or folder, or what it holds does not fit.
    """
    column = spec.columns[name]
    assert isinstance(column, Embedding) and column.pretrained is not None
    size, path = spec.size_of(column.source), ("columns", name, "pretrained")

    def refuse(message: str) -> SpecError:
        return SpecError(spec.source, [Problem(path, message)])

    try:
        if column.pretrained.checkpoint is not None:
            return _of_matrix(_tensor(spec, column.pretrained), size, column.dimension, exact=True)
        file = _path(spec, column.pretrained.file)
        if file.suffix == ".npy":
            matrix = np.load(file, allow_pickle=False)
            return _of_matrix(matrix, size, column.dimension, exact=False)
        return _of_text(file, _words(spec, name, column), size, column.dimension)
    except (OSError, ValueError) as error:
        raise refuse(str(error)) from error


def table_initializer(spec: FeatureSpec, name: str) -> Callable[..., tf.Tensor]:
    """An initializer for `tf.feature_column`, which has none for a file.

    The table becomes a constant of the graph, so it must be well below 2 GiB; the kit's own reading
    has no such limit.
    """

    def initialize(shape: Any, dtype: Any = tf.float32, partition_info: Any = None) -> tf.Tensor:
        column = spec.columns[name]
        assert isinstance(column, Embedding)
        table = read(spec, name)
        rest = initializer(column)(shape, dtype=dtype, partition_info=partition_info)
        return tf.where(tf.constant(table.known)[:, tf.newaxis], tf.constant(table.values), rest)

    return initialize


def _path(spec: FeatureSpec, file: Optional[str]) -> pathlib.Path:
    assert file is not None
    path = inside(spec.directory, file)
    if path is None:
        raise ValueError(not_inside(spec.directory, file))
    return path


def _tensor(spec: FeatureSpec, pretrained: Pretrained) -> np.ndarray:
    prefix = str(_path(spec, pretrained.checkpoint))
    try:
        reader = tf.train.load_checkpoint(prefix)
    except (ValueError, tf.errors.OpError) as error:
        raise ValueError(f"{prefix!r} is no checkpoint: {error}") from error
    shapes = reader.get_variable_to_shape_map()
    if pretrained.tensor not in shapes:
        raise ValueError(
            f"{prefix!r} has no tensor {pretrained.tensor!r}; it has {', '.join(sorted(shapes))}"
        )
    return reader.get_tensor(pretrained.tensor)


def _of_matrix(matrix: np.ndarray, size: int, dimension: int, *, exact: bool) -> Table:
    fits = matrix.ndim == 2 and matrix.shape[1] == dimension and matrix.dtype.kind == "f"
    if not fits or matrix.shape[0] > size or (exact and matrix.shape[0] < size):
        wanted = f"[{size}, {dimension}]" if exact else f"[at most {size}, {dimension}]"
        raise ValueError(
            f"got {matrix.dtype} {list(matrix.shape)}, expected floats {wanted}: a row an id, and "
            "the column's dimension wide"
        )
    if not np.isfinite(matrix).all():
        raise ValueError("the vectors hold NaN or infinity")
    values = np.zeros((size, dimension), np.float32)
    values[: len(matrix)] = matrix
    return Table(values, np.arange(size) < len(matrix))


def _words(spec: FeatureSpec, name: str, column: Embedding) -> list[str]:
    category = spec.columns[column.source]
    if not isinstance(category, Vocabulary):
        raise ValueError(
            f"a text file names words, and column {column.source!r} is {category.kind}, which has "
            "none; use a vocabulary column, or an .npy file in the order of the ids"
        )
    if category.words is not None:
        return [str(word) for word in category.words]
    return read_words(spec.vocabulary_path(category))[: category.size]


def _of_text(file: pathlib.Path, words: list[str], size: int, dimension: int) -> Table:
    """Lines of a word and its numbers; a first line of two integers (word2vec's header) is none."""
    ids = {word: i for i, word in enumerate(words)}
    values, known, unused = np.zeros((size, dimension), np.float32), np.zeros(size, bool), 0
    with file.open(encoding="utf-8", newline="\n") as lines:
        for number, line in enumerate(lines, 1):
            word, *numbers = line.rstrip("\r\n").rstrip(" ").split(" ")
            if number == 1 and len(numbers) == 1 and word.isdigit() and numbers[0].isdigit():
                continue
            where = f"{str(file)!r}, line {number}"
            if len(numbers) != dimension:
                raise ValueError(
                    f"{where}: {len(numbers)} numbers after the word {word!r}, expected "
                    f"{dimension}, the column's dimension"
                )
            place = ids.get(word)
            if place is None:
                unused += 1
                continue
            if known[place]:
                raise ValueError(f"{where}: the word {word!r} is there twice")
            try:
                values[place] = [float(text) for text in numbers]
            except ValueError as error:
                raise ValueError(f"{where}: {error}") from error
            known[place] = True
    if not np.isfinite(values).all():
        wrong = [words[i] for i in np.flatnonzero(~np.isfinite(values).all(axis=1))[:_EXAMPLES]]
        raise ValueError(f"{str(file)!r} holds NaN or infinity, at {', '.join(wrong)}")
    if not known.any():
        raise ValueError(f"{str(file)!r} has none of the {len(words)} words of the vocabulary")
    return Table(values, known, unused)
