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

from feature_specs.embeddings import pretrained_files
from feature_specs.embeddings.initializers import initializer
from feature_specs.embeddings.vector_files import VectorFileError, npy_array, text_vectors
from feature_specs.errors import SpecError, did_you_mean
from feature_specs.spec import FeatureSpec
from feature_specs.vocabulary import VocabularyError


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


def read(spec: FeatureSpec, name: str) -> Table:
    """The pretrained table of an embedding column.

    Raises:
      SpecError: there is no such file, tensor or folder, or what it holds does not fit.
    """
    try:
        return _read(spec, name)
    except (VectorFileError, VocabularyError) as error:
        problem = spec.problem(("columns", name, "pretrained"), str(error))
        raise SpecError(spec.source, [problem]) from error


def table_initializer(spec: FeatureSpec, name: str) -> Callable[..., tf.Tensor]:
    """An initializer for `tf.feature_column`, which has none for a file.

    The table becomes a constant of the graph, so it must be well below 2 GiB; the kit's own reading
    has no such limit.
    """

    def initialize(shape: Any, dtype: Any = tf.float32, partition_info: Any = None) -> tf.Tensor:
        column, _ = pretrained_files.embedding_of(spec, name)
        table = read(spec, name)
        rest = initializer(column)(shape, dtype=dtype, partition_info=partition_info)
        return tf.where(tf.constant(table.known)[:, tf.newaxis], tf.constant(table.values), rest)

    return initialize


def _read(spec: FeatureSpec, name: str) -> Table:
    column, entry = pretrained_files.embedding_of(spec, name)
    path, size = pretrained_files.path_of(spec, entry), spec.size_of(column.source)
    try:
        if entry.checkpoint is not None:
            return _of_matrix(spec, name, _tensor(path, entry.tensor))
        if pretrained_files.is_array(entry):
            # The header by itself first: NumPy's own errors know nothing of specs.
            pretrained_files.check_shape(spec, name, *npy_array(path))
            return _of_matrix(spec, name, np.load(path, allow_pickle=False))
        words = pretrained_files.words_of(spec, column)
        return _of_text(path, words, size, column.dimension)
    except OSError as error:
        raise pretrained_files.unreadable(path, error) from error


def _tensor(path: pathlib.Path, tensor: Optional[str]) -> np.ndarray:
    try:
        reader = tf.train.load_checkpoint(str(path))
        shapes = reader.get_variable_to_shape_map()
        if tensor in shapes:
            return reader.get_tensor(tensor)
    except (ValueError, RuntimeError, tf.errors.OpError) as error:
        raise VectorFileError(
            f"{str(path)!r} cannot be read as a checkpoint; copy its .index and all its .data "
            "files again, or name another"
        ) from error
    raise VectorFileError(
        f"{str(path)!r} has no tensor {tensor!r}{did_you_mean(tensor, sorted(shapes))}"
    )


def _of_matrix(spec: FeatureSpec, name: str, matrix: np.ndarray) -> Table:
    pretrained_files.check_shape(spec, name, matrix.dtype.name, matrix.shape)
    column, _ = pretrained_files.embedding_of(spec, name)
    size = spec.size_of(column.source)
    values = np.zeros((size, column.dimension), np.float32)
    with np.errstate(over="ignore"):  # What is no float32 becomes infinite, and is told of below.
        values[: len(matrix)] = matrix
    wrong = np.flatnonzero(~np.isfinite(values).all(axis=1))
    if len(wrong):
        raise VectorFileError(
            f"the vectors hold NaN, infinity or what is too large for float32, first in row "
            f"{wrong[0]}; make them finite"
        )
    return Table(values, np.arange(size) < len(matrix))


def _of_text(path: pathlib.Path, words: list[str], size: int, dimension: int) -> Table:
    ids = {word: i for i, word in enumerate(words)}
    values, known, unused = np.zeros((size, dimension), np.float32), np.zeros(size, bool), 0
    for vector in text_vectors(path, ids, dimension):
        if vector.place is None:
            unused += 1
        else:
            values[vector.place], known[vector.place] = vector.numbers, True
    if not known.any():
        raise pretrained_files.none_known(path, len(words))
    return Table(values, known, unused)
