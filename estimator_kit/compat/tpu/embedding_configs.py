"""`TableConfig` and `FeatureConfig` of `tensorflow.python.tpu.tpu_embedding`.

A program can describe its TPU embeddings with them instead of with feature columns:
`EmbeddingConfigSpec(table_to_config_dict=..., feature_to_config_dict=...)`. With `use_tpu=False`
TPUEstimator ignores the description. Both have the arguments, defaults, fields and limits of
TensorFlow 2.15, and only hold their values.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, Optional

from .embedding_parameters import OptimizationParameters


class _Table(NamedTuple):
    vocabulary_size: int
    dimension: int
    initializer: Callable[..., Any]
    combiner: Optional[str]
    hot_id_replication: bool
    learning_rate: Optional[float]
    learning_rate_fn: Any
    optimization_parameters: Optional[OptimizationParameters]


class TableConfig(_Table):
    """One embedding table of `vocabulary_size` rows of `dimension` numbers."""

    __slots__ = ()

    def __new__(
        cls,
        vocabulary_size: int,
        dimension: int,
        initializer: Optional[Callable[..., Any]] = None,
        combiner: Optional[str] = "mean",
        hot_id_replication: bool = False,
        learning_rate: Optional[float] = None,
        learning_rate_fn: Any = None,
        optimization_parameters: Optional[OptimizationParameters] = None,
    ) -> TableConfig:
        for field, size in (("vocabulary_size", vocabulary_size), ("dimension", dimension)):
            if not isinstance(size, int) or size < 1:
                raise ValueError(f"TableConfig: {field}: expected 1 or more, got {size!r}.")
        if initializer is None:
            from tensorflow.compat import v1

            initializer = v1.truncated_normal_initializer(0.0, 1 / math.sqrt(dimension))
        elif not callable(initializer):
            raise ValueError(
                f"TableConfig: initializer: expected a callable or None, got {initializer!r}."
            )
        if combiner not in ("mean", "sum", "sqrtn", None):
            raise ValueError(
                f"TableConfig: combiner: expected mean, sum, sqrtn or None, got {combiner!r}."
            )
        if learning_rate is not None and learning_rate_fn is not None:
            raise ValueError(
                "TableConfig: expected learning_rate or learning_rate_fn, got both. Remove one."
            )
        parameters = optimization_parameters
        if parameters is not None and not isinstance(parameters, OptimizationParameters):
            raise ValueError(
                "TableConfig: optimization_parameters: expected an object such as "
                f"AdagradParameters, got {parameters!r}."
            )
        return super().__new__(
            cls,
            vocabulary_size,
            dimension,
            initializer,
            combiner,
            hot_id_replication,
            learning_rate,
            learning_rate_fn,
            parameters,
        )


class _Feature(NamedTuple):
    table_id: str
    max_sequence_length: int
    weight_key: Optional[str]


class FeatureConfig(_Feature):
    """One feature: its table, the length of its sequence (0: none), and the key of its weights."""

    __slots__ = ()

    def __new__(
        cls, table_id: str, max_sequence_length: int = 0, weight_key: Optional[str] = None
    ) -> FeatureConfig:
        if not isinstance(max_sequence_length, int) or max_sequence_length < 0:
            raise ValueError(
                "FeatureConfig: max_sequence_length: expected 0 or more, got "
                f"{max_sequence_length!r}."
            )
        return super().__new__(cls, table_id, max_sequence_length, weight_key)
