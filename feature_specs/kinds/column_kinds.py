"""The column kinds of a spec and the normalizers of numeric columns, one frozen model each.

The names are those of `tf.feature_column`: a `hash_bucket` column of a spec is
`categorical_column_with_hash_bucket`, and so on; `columns` holds that correspondence. Each model
checks its own fields; whether its sources exist is checked in `validation`. Imports no TensorFlow.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Optional, Union

import pydantic
from pydantic import Field

from feature_specs.entry import (
    NAME_PATTERN,
    Entry,
    FiniteFloat,
    Integers,
    PositiveFloat,
    PositiveInt,
    Range,
    Words,
    as_tuple,
    only_key,
    spelled_out,
)
from feature_specs.kinds.embedding_tables import Initializer, Pretrained


class _Column(Entry):
    """Base of columns. `source` is the feature or column that it is made from."""

    kind: ClassVar[str]
    categorical: ClassVar[bool] = False


class Log1p(Entry):
    """log(1 + x), for counts and prices; x must be above -1."""

    log1p: Literal[True]


class ZScore(Entry):
    """(x - mean) / stddev."""

    class Values(Entry):
        mean: FiniteFloat
        stddev: PositiveFloat

    zscore: Values


class MinMax(Entry):
    """(x - min) / (max - min), 0 to 1 inside the range and not clipped outside it."""

    minmax: Range


class Clip(Entry):
    """x limited to [min, max]."""

    clip: Range


Normalizer = Annotated[
    Union[
        Annotated[Log1p, pydantic.Tag("log1p")],
        Annotated[ZScore, pydantic.Tag("zscore")],
        Annotated[MinMax, pydantic.Tag("minmax")],
        Annotated[Clip, pydantic.Tag("clip")],
    ],
    pydantic.Discriminator(
        only_key,
        custom_error_type="normalizer",
        custom_error_message="log1p, {zscore: {mean, stddev}}, {minmax: {min, max}}, "
        "{clip: {min, max}}, or a list of them",
    ),
]


def _steps(value: Any) -> Any:
    """Spells `log1p`, one mapping, or a list of both, as a tuple of mappings."""
    steps = value if isinstance(value, (list, tuple)) else [value]
    return tuple(spelled_out(step, "log1p") for step in steps)


class Numeric(_Column):
    """A number as it is, after its normalizers in order."""

    kind = "numeric"
    source: str = Field(alias="numeric")
    normalizer: Annotated[tuple[Normalizer, ...], pydantic.BeforeValidator(_steps)] = ()


def _increasing(values: tuple[float, ...]) -> tuple[float, ...]:
    for i, (a, b) in enumerate(zip(values, values[1:])):
        if a >= b:
            raise ValueError(
                f"boundaries must increase strictly, and [{i}] is {a}, [{i + 1}] is {b}; "
                f"{'remove one of the two' if a == b else 'sort them'}"
            )
    return values


class SequenceNumeric(_Column):
    """One number a step of a list of steps, after its normalizers in order."""

    kind = "sequence_numeric"
    source: str = Field(alias="sequence_numeric")
    normalizer: Annotated[tuple[Normalizer, ...], pydantic.BeforeValidator(_steps)] = ()


class Ragged(_Column):
    """A list, or a list of lists, as it is, for a model of a user's own.

    Of numbers, over a feature, after its normalizers in order; or of ids, over an identity,
    vocabulary or hash_bucket column.
    """

    kind = "ragged"
    source: str = Field(alias="ragged")
    normalizer: Annotated[tuple[Normalizer, ...], pydantic.BeforeValidator(_steps)] = ()


class Bucketized(_Column):
    """The index of the interval a number falls into: n boundaries make n + 1 buckets.

    Bucket i holds boundaries[i-1] <= x < boundaries[i].
    """

    kind = "bucketized"
    categorical = True
    source: str = Field(alias="bucketized")
    boundaries: Annotated[
        tuple[FiniteFloat, ...],
        pydantic.BeforeValidator(as_tuple),
        Field(min_length=1),
        pydantic.AfterValidator(_increasing),
    ]


class Identity(_Column):
    """An integer that already is an id in [0, size).

    Outside it, `default_id` when given, an error otherwise. `sequence: true` makes each value of a
    list a step of its own, for models that read steps in their order.
    """

    kind = "identity"
    categorical = True
    source: str = Field(alias="identity")
    size: PositiveInt
    default_id: Optional[Annotated[int, Field(ge=0)]] = None
    sequence: bool = False

    @pydantic.model_validator(mode="after")
    def _check(self) -> Identity:
        if self.default_id is not None and self.default_id >= self.size:
            raise ValueError(f"default_id {self.default_id} must be below size {self.size}")
        return self


class Vocabulary(_Column):
    """The position of a word in a list or in a file with one word a line.

    Words outside it fall into `oov_buckets` extra ids by hash, or take `default_id`, or (the
    default) have no id.

    `size` uses the first lines of the file only; it is filled in with the number of lines.
    `sequence: true`: see `Identity`.
    """

    kind = "vocabulary"
    categorical = True
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
                f"default_id {self.default_id} must be below the number of words, "
                f"{len(self.words)}"
            )
        return self


class HashBucket(_Column):
    """A string or integer hashed into [0, size); different values may share an id.

    `sequence: true`: see `Identity`.
    """

    kind = "hash_bucket"
    categorical = True
    source: str = Field(alias="hash_bucket")
    size: Annotated[int, Field(ge=2, le=2**62)]
    sequence: bool = False


class Crossed(_Column):
    """The combination of several values, hashed into [0, size).

    Keys are features (string or int64) or categorical columns other than hash_bucket.
    """

    kind = "crossed"
    categorical = True
    sources: Annotated[Words, Field(min_length=2)] = Field(alias="crossed")
    size: Annotated[int, Field(ge=2, le=2**62)]
    hash_key: Optional[int] = None

    @pydantic.model_validator(mode="after")
    def _check(self) -> Crossed:
        for i, key in enumerate(self.sources):
            if key in self.sources[:i]:
                raise ValueError(f"key {key!r} is there twice")
        return self


class Indicator(_Column):
    """How often each id occurs: one-hot for one value, counts for a list."""

    kind = "indicator"
    source: str = Field(alias="indicator")


class Weighted(_Column):
    """Ids of a list, each with a weight of its own, such as how often a word occurs.

    The column under it and the `weight` feature (float32) are lists of the same length, record by
    record. An embedding of it combines by weight, an indicator adds weights up, a linear model
    multiplies; ids with a weight of 0 or less count only where weights are summed.
    """

    kind = "weighted"
    categorical = True
    source: str = Field(alias="weighted")
    weight: str


class Embedding(_Column):
    """A learned vector an id; a list of ids is combined by `combiner`.

    A record without ids has the zero vector.

    Attributes:
      dimension: length of the vectors.
      combiner: `mean`, `sum` or `sqrtn` (sum / sqrt(number of ids)).
      initializer: what the table starts from, by default a truncated normal with the stddev
        1/sqrt(dimension), as in `tf.feature_column.embedding_column`.
      max_norm: vectors longer than this are scaled down to it when they are looked up.
      trainable: false freezes the table.
      shared: embeddings of one group that give the same name share one table; it gets that name.
      pretrained: where the table comes from when training starts from nothing.
    """

    kind = "embedding"
    source: str = Field(alias="embedding")
    dimension: PositiveInt
    combiner: Literal["mean", "sum", "sqrtn"] = "mean"
    initializer: Optional[Initializer] = None
    max_norm: Optional[PositiveFloat] = None
    trainable: bool = True
    shared: Optional[Annotated[str, Field(pattern=NAME_PATTERN)]] = None
    pretrained: Optional[Pretrained] = None

    @pydantic.model_validator(mode="after")
    def _check(self) -> Embedding:
        if not self.trainable and self.pretrained is None and self.initializer is None:
            raise ValueError(
                "trainable: false freezes random vectors; give pretrained vectors, or an "
                "initializer if that is meant"
            )
        return self


class DynamicEmbedding(_Column):
    """A learned vector for each value that was seen often enough, in a table that grows.

    Over a feature of strings or int64, without buckets: a string's key is its 63-bit fingerprint,
    an integer is its own, and -1 is none. A value without a row (never seen, seen too seldom,
    evicted) counts as none in training and serving alike; a record without any has the zero vector.
    Of the package tensorflow-recommenders-addons, which needs TensorFlow 2.15.

    Attributes:
      dimension, combiner, initializer: as of `Embedding`.
      min_count: how often training must have read a value before it has a row; the reading that
        reaches the number is the first to train it.
      max_rows: rows that an eviction leaves, in each shard its part of them; and as many counts of
        values that have no row yet. None evicts nothing.
      evict: who goes first, the values that were read longest ago or those that were read least.
      evict_every: steps from one eviction to the next; in between there may be more rows.
      shards: parts of the table, by the key modulo this number; parameter servers keep one or
        several each. Any number of servers reads the checkpoint, 0 included.
    """

    kind = "dynamic_embedding"
    source: str = Field(alias="dynamic_embedding")
    dimension: PositiveInt
    combiner: Literal["mean", "sum", "sqrtn"] = "mean"
    initializer: Optional[Initializer] = None
    min_count: Annotated[int, Field(ge=1, le=2**31)] = 1
    max_rows: Optional[PositiveInt] = None
    evict: Literal["oldest", "rarest"] = "oldest"
    evict_every: PositiveInt = 1000
    shards: Annotated[int, Field(ge=1, le=1024)] = 1

    @pydantic.model_validator(mode="after")
    def _check(self) -> DynamicEmbedding:
        if self.max_rows is None:
            for field in ("evict", "evict_every"):
                if field in self.model_fields_set:
                    raise ValueError(f"`{field}` goes with max_rows, without which nothing goes")
        elif self.max_rows < self.shards:
            raise ValueError(
                f"max_rows {self.max_rows} must not be below shards {self.shards}; each has a row"
            )
        return self


Column = Union[
    Numeric, SequenceNumeric, Ragged, Bucketized, Identity, Vocabulary, HashBucket, Crossed,
    Weighted, Indicator, Embedding, DynamicEmbedding,
]  # fmt: skip
COLUMN_KINDS: dict[str, type[_Column]] = {
    column.kind: column
    for column in (
        Numeric, SequenceNumeric, Ragged, Bucketized, Identity, Vocabulary, HashBucket, Crossed,
        Weighted, Indicator, Embedding, DynamicEmbedding,
    )
}  # fmt: skip
