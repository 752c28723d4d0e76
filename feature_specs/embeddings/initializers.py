"""The TensorFlow initializers of `embedding_tables.Initializer`, for both readings of a spec.

`initializer` returns the initializer of an embedding table. The layers of models use `drawn`.
"""

from __future__ import annotations

import math
from typing import Any, Union

import tensorflow as tf

from feature_specs.kinds import DynamicEmbedding, Embedding
from feature_specs.kinds.embedding_tables import Normal, TruncatedNormal, Uniform, Zeros


def initializer(column: Union[DynamicEmbedding, Embedding]) -> Any:
    """A v1 initializer. The default is the default of `tf.feature_column.embedding_column`."""
    if column.initializer is None:
        return tf.compat.v1.truncated_normal_initializer(stddev=1 / math.sqrt(column.dimension))
    return drawn(column.initializer)


def drawn(given: Union[Zeros, Normal, Uniform, TruncatedNormal]) -> Any:
    """The v1 initializer of one entry."""
    v1 = tf.compat.v1
    if isinstance(given, Zeros):
        return v1.zeros_initializer()
    if isinstance(given, Normal):
        return v1.random_normal_initializer(stddev=given.normal.stddev)
    if isinstance(given, Uniform):
        return v1.random_uniform_initializer(given.uniform.min, given.uniform.max)
    return v1.truncated_normal_initializer(stddev=given.truncated_normal.stddev)
