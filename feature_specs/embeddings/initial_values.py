"""The start values of embedding tables: pretrained vectors, and the initializers of TensorFlow.

`read` returns the rows of a column's table that its file has. Only a new training reads the files:
checkpoints and exports contain their own tables. `initializer` returns the initializer of a table,
for both readings of a spec. The layers of models use `drawn`. This module never writes.
"""

from __future__ import annotations

import dataclasses
import math
import pathlib
from typing import Any, Callable, Optional, Union

import numpy as np
import tensorflow as tf

from feature_specs.embeddings import pretrained_files
from feature_specs.embeddings.vector_files import VectorFileError, npy_array, text_vectors
from feature_specs.errors import SpecError, did_you_mean
from feature_specs.kinds import Embedding
from feature_specs.kinds.embedding import Normal, TruncatedNormal, Uniform, Zeros
from feature_specs.kinds.vocabulary import VocabularyError
from feature_specs.spec import FeatureSpec


def initializer(column: Embedding) -> Any:
    """A v1 initializer. The default is the default of `tf.feature_column.embedding_column`."""
    if column.initializer is None:
        return tf.compat.v1.truncated_normal_initializer(stddev=1 / math.sqrt(column.dimension))
    return drawn(column.initializer)


def drawn(initializer: Union[Zeros, Normal, Uniform, TruncatedNormal]) -> Any:
    """The v1 initializer of one entry."""
    v1 = tf.compat.v1
    if isinstance(initializer, Zeros):
        return v1.zeros_initializer()
    if isinstance(initializer, Normal):
        return v1.random_normal_initializer(stddev=initializer.normal.stddev)
    if isinstance(initializer, Uniform):
        return v1.random_uniform_initializer(initializer.uniform.min, initializer.uniform.max)
    return v1.truncated_normal_initializer(stddev=initializer.truncated_normal.stddev)


@dataclasses.dataclass(frozen=True)
class Table:
    """The known part of an embedding table.

    Attributes:
      values: float32 [ids, dimension]. Rows without a vector are zeros.
      known: bool [ids], whether a row has a vector.
      unused: the number of vectors for words that the vocabulary does not contain.
    """

    values: np.ndarray
    known: np.ndarray
    unused: int = 0


def read(spec: FeatureSpec, name: str) -> Table:
    """Reads the pretrained table of an embedding column.

    Raises:
      SpecError: the file, tensor or folder does not exist, or its content does not fit.
    """
    try:
        return _read(spec, name)
    except (VectorFileError, VocabularyError) as error:
        problem = spec.problem(("columns", name, "pretrained"), str(error))
        raise SpecError(spec.source, [problem]) from error


def table_initializer(spec: FeatureSpec, name: str) -> Callable[..., tf.Tensor]:
    """An initializer for `tf.feature_column`, which cannot read a file itself.

    The table becomes a constant of the graph, so it must be well below 2 GiB. The kit's own reading
    does not have this limit.
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
            # Check the header first, because NumPy's errors do not mention the spec.
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
            result: np.ndarray = reader.get_tensor(tensor)
            return result
    except (ValueError, RuntimeError, tf.errors.OpError) as error:
        raise VectorFileError(
            f"{str(path)!r} cannot be read as a checkpoint. Copy its .index file and all its "
            ".data files again, or name another checkpoint."
        ) from error
    raise VectorFileError(
        f"{str(path)!r} has no tensor {tensor!r}{did_you_mean(tensor, sorted(shapes))}"
    )


def _of_matrix(spec: FeatureSpec, name: str, matrix: np.ndarray) -> Table:
    pretrained_files.check_shape(spec, name, matrix.dtype.name, matrix.shape)
    column, _ = pretrained_files.embedding_of(spec, name)
    size = spec.size_of(column.source)
    values = np.zeros((size, column.dimension), np.float32)
    with np.errstate(over="ignore"):  # Too large values become infinite and are reported below.
        values[: len(matrix)] = matrix
    wrong = np.flatnonzero(~np.isfinite(values).all(axis=1))
    if len(wrong):
        raise VectorFileError(
            "the vectors contain NaN, infinity or values that are too large for float32, first in "
            f"row {wrong[0]}. Replace them by finite values."
        )
    return Table(values, np.arange(size) < len(matrix))


def _of_text(path: pathlib.Path, words: list[str], size: int, dimension: int) -> Table:
    ids = {word: i for i, word in enumerate(words)}
    values, has_vector, unused = np.zeros((size, dimension), np.float32), np.zeros(size, bool), 0
    for vector in text_vectors(path, ids, dimension):
        if vector.place is None:
            unused += 1
        else:
            values[vector.place], has_vector[vector.place] = vector.numbers, True
    if not has_vector.any():
        raise pretrained_files.none_known(path, len(words))
    return Table(values, has_vector, unused)
