"""What a feature spec holds: features, columns, groups, labels and objectives, all frozen.

The models check one entry each (types, ranges, fields that exclude each other); what spans
entries (names that refer to each other) is checked in `validation`. Users get a `FeatureSpec`
from `parser.load` or `parser.parse`, never by hand. This module imports no TensorFlow.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import pathlib
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, Optional, Union

import pydantic
from pydantic import Field

from feature_specs.encoded_bytes import ZEROS, Decode
from feature_specs.entry import Dtype, Entry, Scalar, Words
from feature_specs.errors import Path, Problem, located
from feature_specs.heads.objectives import Objective
from feature_specs.kinds.column_kinds import (
    Bucketized,
    Column,
    Crossed,
    Embedding,
    HashBucket,
    Identity,
    Indicator,
    Numeric,
    Ragged,
    SequenceNumeric,
    Vocabulary,
    Weighted,
)
from feature_specs.sections.drift_thresholds import NO_DRIFT, Drift
from feature_specs.sections.filters import Filter
from feature_specs.sections.retraining import NO_RETRAINING, Retraining
from feature_specs.sections.tables import NO_TABLES, Tables
from feature_specs.vocabulary import read_words

# --- Features ------------------------------------------------------------------------------------


_LARGEST_FLOAT32 = (2 - 2**-23) * 2.0**127


def _shape(value: Any) -> Any:
    """`variable`, `[]`, `[n]` or `[n, m, ...]`."""
    if value == "variable":
        return value
    if isinstance(value, (list, tuple)):
        if all(isinstance(n, int) and not isinstance(n, bool) and n >= 1 for n in value):
            return tuple(value)
    raise ValueError(
        f"got {value!r}, expected [] for one value, [n] or [n, m] for so many, or variable"
    )


def _one_value(value: Any) -> Any:
    if value is None or isinstance(value, (int, float, str)):
        return value
    raise ValueError(f"got {value!r}, expected one number or string")


def _is_finite_float32(value: Scalar) -> bool:
    return abs(float(value)) <= _LARGEST_FLOAT32


class Feature(Entry):
    """One feature of a record, as a `tf.train.Example` or `tf.train.SequenceExample` stores it.

    Attributes:
      dtype: `float32`, `int64` or `string`.
      shape: `()` for one value (the default), `(n,)` or `(n, m)` for a fixed number of values,
        `"variable"` for a list whose length differs from record to record (an absent list is an
        empty one).
      default: the value of a record that has no such feature; without it the feature is required.
        For single-valued categoricals `""` and `-1` stand for "missing": no id, a zero embedding.
        With `decode` it is `zeros`: numbers or an image of zeros for an absent or empty value.
      required: `true` says what leaving out `default` means; nothing else may be said.
      feature_list: `true` for a feature of `feature_lists` in a `tf.train.SequenceExample`: a list
        of steps, each of which has one value. An absent list is an empty one, unless `required`
        says that it has to be there (it may still have no step). One such feature makes a spec
        one of SequenceExamples, whose `context` holds all other features and the labels. With
        `shape: variable` each step is a list, and the feature a list of lists.
      row_lengths: makes a list a list of lists: the name of an int64 list that says how many
        values each of them has, as in `tf.io.RaggedFeature.RowLengths`.
      decode: how one string of bytes, as the record stores it, becomes numbers or an image; see
        `encoded_bytes`. `dtype` and `shape` then are those of the string.
    """

    dtype: Dtype
    shape: Annotated[
        Union[Literal["variable"], tuple[int, ...]], pydantic.BeforeValidator(_shape)
    ] = ()
    default: Annotated[Optional[Scalar], pydantic.BeforeValidator(_one_value)] = None
    required: Optional[Literal[True]] = None
    feature_list: bool = False
    row_lengths: Optional[str] = None
    decode: Optional[Decode] = None

    @property
    def variable(self) -> bool:
        """Whether it is a list whose length differs: one of the record's, or a feature list."""
        return self.feature_list or self.shape == "variable"

    @property
    def single(self) -> bool:
        return self.shape == () and not self.feature_list

    @property
    def nested(self) -> bool:
        """Whether it is a list of lists, which ragged columns alone read."""
        return self.row_lengths is not None or (self.feature_list and self.shape == "variable")

    @property
    def length(self) -> int:
        """Number of values that a record stores of a fixed shape."""
        assert not self.variable and not isinstance(self.shape, str), "a list has no length"
        return math.prod(self.shape)

    @property
    def is_number(self) -> bool:
        """Whether columns read numbers: as they are stored, or out of bytes."""
        return self.dtype != "string" or self.decode is not None

    @property
    def number_shape(self) -> tuple[int, ...]:
        """The shape of the numbers of a record, for numeric columns; `()` is one."""
        if self.decode is not None:
            return self.decode.shape
        assert not self.variable and not isinstance(self.shape, str), "a list has no shape"
        return self.shape

    @property
    def width(self) -> int:
        """How many numbers a numeric column of it has."""
        return math.prod(self.number_shape)

    @property
    def is_required(self) -> bool:
        if self.feature_list:
            return self.required is True
        return self.default is None and not self.variable

    @property
    def form(self) -> str:
        """How a spec writes its shape, for messages."""
        if self.feature_list:
            return f"feature_list: true{' and shape: variable' if self.nested else ''}"
        return f"the shape {self.shape}{' and row_lengths' if self.nested else ''}"

    @pydantic.model_validator(mode="after")
    def _check(self) -> Feature:
        if self.feature_list:
            if self.shape not in ((), "variable"):
                raise ValueError(
                    "feature_list: true is a list of steps, of one value each without a shape and "
                    "of a list each with shape: variable; remove shape, or feature_list for a "
                    "list in the context"
                )
            if self.nested and self.required:
                raise ValueError(
                    "required: true does not go with feature_list: true and shape: variable "
                    "together (to TensorFlow an absent one is an empty one); remove required"
                )
            if self.default is not None:
                raise ValueError(
                    "a feature list has no default (an absent list is empty); remove default"
                )
        if self.required and not self.is_required:
            raise ValueError(
                "required: true goes with neither a default nor shape: variable (an absent list "
                "is empty); remove one of the two"
            )
        if self.row_lengths is not None and (self.feature_list or self.shape != "variable"):
            raise ValueError(
                "row_lengths cuts a list of shape: variable, which is no feature list, into lists"
            )
        if self.decode is not None:
            self._check_decode()
        elif self.default is not None:
            if self.variable:
                raise ValueError("a variable feature has no default (an absent list is empty)")
            expected = {"float32": (int, float), "int64": (int,), "string": (str,)}[self.dtype]
            if isinstance(self.default, bool) or not isinstance(self.default, expected):
                raise ValueError(f"the default {self.default!r} is no {self.dtype}")
            if self.dtype == "float32" and not _is_finite_float32(self.default):
                raise ValueError("the default must be finite, as a float32")
            if self.dtype == "int64" and not -(2**63) <= int(self.default) < 2**63:
                raise ValueError(f"the default {self.default!r} is too large for int64")
        return self

    def _check_decode(self) -> None:
        if self.dtype != "string" or not self.single:
            raise ValueError(
                f"decode reads one string of bytes, and this is {self.dtype} with {self.form}; "
                "say dtype: string and no shape (what the bytes hold is said under decode)"
            )
        if self.default not in (None, ZEROS):
            raise ValueError(
                f"the default of bytes that are decoded is {ZEROS} or none, got {self.default!r}"
            )


class Label(Entry):
    """One label of a record; a record without it is an error, never a default.

    Attributes:
      dtype: `int64`, `float32`, or `string` with a `vocabulary`.
      shape: `()` for one value (the default), `(n,)` for a vector or a value at each of n steps,
        `(n, m)` for a vector at each step, `"variable"` for a list of classes.
      vocabulary: the classes of a string label, in the order of their ids.
      missing: what a record without a value is: by default an error; `mask` gives it no weight in
        this label's loss and metrics; `no_class`, of lists alone, takes it as a row that has none
        of the classes (an absent list and an empty one are the same to TensorFlow).
      weight: a feature or label whose value weighs the example in this label's loss and metrics;
        0 masks it. `purchase: {dtype: int64, weight: click}` learns purchase from clicks alone.
      true_probability: for data with a known truth, the float feature that holds the probability
        of class 1; evaluation then reports the best AUC and log loss that any model could reach.
    """

    dtype: Dtype
    shape: Annotated[
        Union[Literal["variable"], tuple[int, ...]], pydantic.BeforeValidator(_shape)
    ] = ()
    vocabulary: Optional[Annotated[Words, Field(min_length=2)]] = None
    missing: Optional[Literal["mask", "no_class"]] = None
    weight: Optional[str] = None
    true_probability: Optional[str] = None

    @property
    def variable(self) -> bool:
        """Whether it is a list of classes."""
        return self.shape == "variable"

    @property
    def single(self) -> bool:
        return self.shape == ()

    @property
    def length(self) -> int:
        """Number of values of a label that is no list."""
        assert not isinstance(self.shape, str), "a list has no length"
        return math.prod(self.shape)

    @pydantic.model_validator(mode="after")
    def _check(self) -> Label:
        if (self.dtype == "string") != (self.vocabulary is not None):
            raise ValueError("a string label needs a vocabulary, and only a string label has one")
        if self.vocabulary is not None and len(set(self.vocabulary)) < len(self.vocabulary):
            raise ValueError("the vocabulary has duplicates")
        if self.variable and self.dtype == "float32":
            raise ValueError("a list of classes is int64 or string, not float32")
        if not self.variable and len(self.shape) > 2:
            raise ValueError(
                f"the shape is {list(self.shape)}, expected [], [n], or [steps, n] for a label"
            )
        if not self.variable and not self.single and self.dtype == "string":
            raise ValueError("a vector holds numbers; a list of words is shape: variable")
        if self.missing == "no_class" and not self.variable:
            raise ValueError(
                "missing: no_class is for lists (shape: variable); say mask to leave rows without "
                "a value out, or nothing to make them an error"
            )
        return self


# --- The spec ------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class FeatureSpec:
    """A whole, checked spec. Mappings keep the order of the document and are never changed.

    Attributes:
      features, columns, labels, objectives: entries by name.
      groups: names of columns for each part of a model, in the order of the document.
      ignored: features that the records hold and that are left out on purpose.
      drift: how far the records may move from those of before.
      filter: what a row must be to be trained on and scored; all of them.
      retraining: what a cycle of --mode=retrain checks, and when its model goes live.
      tables: how the CSV files are written that the records are made from.
      directory: the folder that vocabulary files are relative to.
      source: the file it was read from, for messages.
      lines: where in that file each part of the document is, for messages; no part of what makes
        two specs equal.
    """

    features: Mapping[str, Feature]
    columns: Mapping[str, Column]
    groups: Mapping[str, tuple[str, ...]]
    labels: Mapping[str, Label]
    objectives: Mapping[str, Objective]
    ignored: tuple[str, ...] = ()
    drift: Drift = NO_DRIFT
    filter: tuple[Filter, ...] = ()
    retraining: Retraining = NO_RETRAINING
    tables: Tables = NO_TABLES
    directory: pathlib.Path = pathlib.Path(".")
    source: str = "<dict>"
    lines: Mapping[Path, int] = dataclasses.field(default_factory=dict, compare=False, repr=False)

    @property
    def feature_lists(self) -> tuple[str, ...]:
        """The features that are in `feature_lists`; those of the `context` are all others."""
        return tuple(name for name, feature in self.features.items() if feature.feature_list)

    @property
    def sequence_examples(self) -> bool:
        """Whether records are `tf.train.SequenceExample`s, not `tf.train.Example`s."""
        return bool(self.feature_lists)

    @property
    def kept_together(self) -> Optional[str]:
        """The feature whose rows of one value must come in one batch, for the head `ranking`."""
        groups = (o.group for o in self.objectives.values() if o.ranks)
        return next(groups, None)

    def label_of(self, objective: str) -> str:
        """The name of the label that an objective learns."""
        return self.objectives[objective].label or objective

    def objective_of(self, label: str) -> str:
        """The name of the objective that learns a label; there is one."""
        return next(name for name in self.objectives if self.label_of(name) == label)

    def label_classes(self, label: str) -> Optional[int]:
        """Labels must be in [0, this); None when any finite number will do."""
        counts = [
            objective.classes
            for name, objective in self.objectives.items()
            if self.label_of(name) == label and objective.classes is not None
        ]
        return min(counts) if counts else None

    def category_of(self, name: str) -> tuple[str, Column]:
        """The categorical column under an embedding, indicator or ragged one, or itself."""
        column = self.columns[name]
        source = self.ragged_ids(column)
        if isinstance(column, (Embedding, Indicator)):
            source = column.source
        return (name, column) if source is None else (source, self.columns[source])

    def ragged_ids(self, column: Column) -> Optional[str]:
        """The categorical column that a ragged one is of; None of other columns.

        One of numbers names a feature; a categorical column's name hides that of a feature.
        """
        source = self.columns.get(column.source) if isinstance(column, Ragged) else None
        if source is None or not source.categorical:
            return None
        assert isinstance(column, Ragged)
        return column.source

    def is_sequence(self, name: str) -> bool:
        """Whether a column has one value a step, not one a record."""
        if isinstance(self.columns[name], Ragged):
            return False
        column = self.category_of(name)[1]
        return isinstance(column, SequenceNumeric) or getattr(column, "sequence", False)

    def numeric_source(self, column: Bucketized) -> Numeric:
        """What a bucketized column cuts: a numeric column, or the bare feature as one."""
        source = self.columns.get(column.source)
        return source if isinstance(source, Numeric) else Numeric(numeric=column.source)

    def features_of(self, name: str) -> Iterator[str]:
        """The features that a column reads, directly or through other columns."""
        column = self.columns[name]
        if isinstance(column, Crossed):
            for key in column.sources:
                yield from self.features_of(key) if key in self.columns else (key,)
        elif isinstance(column, (Embedding, Indicator)):
            yield from self.features_of(column.source)
        elif self.ragged_ids(column) is not None:
            yield from self.features_of(column.source)
        elif isinstance(column, Weighted):
            yield from self.features_of(column.source)
            yield column.weight
        elif isinstance(column, Bucketized):
            yield self.numeric_source(column).source
        else:
            yield column.source

    def made_from(self, name: str) -> tuple[str, ...]:
        """A column and all that are made from it, directly or through other columns."""
        found = [name]
        for candidate in found:
            for other, column in self.columns.items():
                sources = column.sources if isinstance(column, Crossed) else (column.source,)
                # A column of a feature's name is no source of columns over that feature.
                through = isinstance(column, (Crossed, Embedding, Indicator, Weighted, Bucketized))
                through = through or self.ragged_ids(column) is not None
                if through and candidate in sources and other not in found:
                    found.append(other)
        return tuple(found)

    def size_of(self, name: str) -> int:
        """Number of ids of a categorical column."""
        column = self.columns[name]
        if isinstance(column, Bucketized):
            values = self.features[self.numeric_source(column).source].width
            return values * (len(column.boundaries) + 1)
        if isinstance(column, Weighted):
            return self.size_of(column.source)
        if isinstance(column, Vocabulary):
            words = len(column.words) if column.words is not None else column.size or 0
            return words + column.oov_buckets
        assert isinstance(column, (Identity, HashBucket, Crossed)), column
        return column.size

    def used_columns(self) -> tuple[str, ...]:
        """The columns of all groups, each once, in the order of the document."""
        used = {name for group in self.groups.values() for name in group}
        return tuple(name for name in self.columns if name in used)

    def used_features(self) -> tuple[str, ...]:
        """The features that some group reads: what serving needs, in the document's order."""
        used = {f for name in self.used_columns() for f in self.features_of(name)}
        used.update(f.row_lengths for n, f in self.features.items() if n in used and f.row_lengths)
        return tuple(name for name in self.features if name in used)

    def filter_features(self) -> tuple[str, ...]:
        """The features that `filter` reads, each once."""
        return tuple(dict.fromkeys(entry.feature for entry in self.filter))

    def vocabulary_path(self, column: Vocabulary) -> pathlib.Path:
        assert column.file is not None
        return self.directory / column.file

    def words(self, column: Vocabulary) -> list[str]:
        """The words of a vocabulary column in the order of their ids; integers as digits."""
        if column.words is not None:
            return [str(word) for word in column.words]
        return read_words(self.vocabulary_path(column))[: column.size]

    def to_dict(self) -> dict[str, Any]:
        """The document that `parser.parse` reads back into an equal spec."""

        def dump(entries: Mapping[str, Any]) -> dict[str, Any]:
            return {
                name: entry.model_dump(mode="json", by_alias=True, exclude_defaults=True)
                for name, entry in entries.items()
            }

        document: dict[str, Any] = {
            "features": dump(self.features),
            "columns": dump(self.columns),
            "groups": {name: list(group) for name, group in self.groups.items()},
            "labels": dump(self.labels),
            "objectives": dump(self.objectives),
            "ignored": list(self.ignored),
        }
        if self.drift != NO_DRIFT:
            # `{}` for a measure sets no threshold, which is not the same as leaving it out.
            document["drift"] = self.drift.model_dump(mode="json", exclude_none=True)
        if self.filter:
            document["filter"] = [
                entry.model_dump(mode="json", by_alias=True, exclude_none=True)
                for entry in self.filter
            ]
        if self.retraining != NO_RETRAINING:
            document["retraining"] = self.retraining.model_dump(
                mode="json", exclude_defaults=True
            )
        if self.tables != NO_TABLES:
            document["tables"] = self.tables.model_dump(mode="json", exclude_none=True)
        return document

    def problem(self, path: Path, message: str) -> Problem:
        """What is wrong at a place of the document, with the line of it where there is one."""
        return located(path, message, self.lines)

    def fingerprint(self) -> str:
        """SHA-256 over the document and the bytes of its vocabulary files, in hex."""
        digest = hashlib.sha256(json.dumps(self.to_dict(), sort_keys=True).encode())
        for column in self.columns.values():
            if isinstance(column, Vocabulary) and column.file is not None:
                words = self.vocabulary_path(column).read_bytes()
                digest.update(hashlib.sha256(words).digest())
        return digest.hexdigest()
