"""The initializer of an embedding table, as TensorFlow has it; the same for both readings."""

from __future__ import annotations

import math
from typing import Any

import tensorflow as tf

from feature_specs.column_kinds import Embedding
from feature_specs.embedding_tables import Normal, TruncatedNormal, Uniform, Zeros


def initializer(column: Embedding) -> Any:
    """A v1 initializer; by default that of `tf.feature_column.embedding_column`."""
    v1, given = tf.compat.v1, column.initializer
    if isinstance(given, Zeros):
        return v1.zeros_initializer()
    if isinstance(given, Normal):
        return v1.random_normal_initializer(stddev=given.normal.stddev)
    if isinstance(given, Uniform):
        return v1.random_uniform_initializer(given.uniform.min, given.uniform.max)
    if isinstance(given, TruncatedNormal):
        return v1.truncated_normal_initializer(stddev=given.truncated_normal.stddev)
    return v1.truncated_normal_initializer(stddev=1 / math.sqrt(column.dimension))
