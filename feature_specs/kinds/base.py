"""The base class of column kinds: the methods that the rest of the kit calls on a column.

A kind is a frozen model of its entry in the YAML. It overrides the methods whose defaults do not
suit it. Other modules therefore do not depend on the list of kinds, except for the tables that
`feature_specs.kinds` names. A column sees the spec around it as `Entries`. A kind never imports
`FeatureSpec`, a check or TensorFlow.
"""

from __future__ import annotations

import abc
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal, Optional, Protocol

from feature_specs.entry import Declared, Scalar
from feature_specs.errors import Path, Problem
from feature_specs.feature import Feature

# How a column becomes numbers for a dense layer. `estimator_kit.model.gathers` uses these names.
#   numbers             the numbers that the transform returned
#   counts              the count of each id: one-hot for one id
#   flag                the id itself, 0 or 1, as one number
#   embedding           the vectors of the ids, from a table
Dense = Literal["numbers", "counts", "flag", "embedding"]

LISTS_OF_LISTS = "is a list of lists, which only ragged columns read"


class Entries(Protocol):
    """The part of a spec that a column may read. A `FeatureSpec` is one."""

    @property
    def features(self) -> Mapping[str, Feature]: ...

    @property
    def columns(self) -> Mapping[str, Column]: ...

    @property
    def sequence_examples(self) -> bool: ...

    @property
    def directory(self) -> pathlib.Path: ...

    @property
    def source(self) -> str: ...


class Reference(Protocol):
    """What a column needs to make its `tf.feature_column`. See `reference.columns`.

    Attributes:
      spec: the spec of the column.
      tf: the module `tensorflow`, because kinds do not import it.
    """

    @property
    def spec(self) -> Entries: ...

    @property
    def tf(self) -> Any: ...

    def column(self, name: str) -> Any:
        """The feature column of another column."""

    def normalizer_fn(self, steps: Any) -> Any:
        """One function of a tensor that applies the normalizers of a column."""

    def integer_buckets(self, values: Any, limits: Any) -> Any:
        """How many limits each number of an int64 tensor reaches."""

    def table(self, name: str) -> dict[str, Any]:
        """The arguments of a `tf.feature_column.embedding_column` that describe its table."""


class Column(Declared):
    """The base class of columns.

    Attributes:
      kind: the key that names the kind in the YAML.
      categorical: whether its values are ids in [0, `id_count`), or -1 for a missing value.
      dense: how a dense layer reads the column, or None if it cannot.
      ragged: whether it stays a ragged list, which only a user's own model reads.
      looks_up: whether each value of the feature `source` has its own id or key. For a feature of
        one value, these kinds treat the empty string and -1 as missing.
      keyed: whether the transform returns keys of values, of which a model makes the ids.
      has_variables: whether a model may have a variable with its name.
      named_rows: whether `row_names` returns the values of its ids.
      normalizer_statistics: whether its `normalizer` may take numbers from a statistics file.
      by_row: fields whose effect on rows `row_names` or the columns below show.
    """

    kind: ClassVar[str]
    categorical: ClassVar[bool] = False
    dense: ClassVar[Optional[Dense]] = None
    ragged: ClassVar[bool] = False
    looks_up: ClassVar[bool] = False
    keyed: ClassVar[bool] = False
    has_variables: ClassVar[bool] = True
    named_rows: ClassVar[bool] = False
    normalizer_statistics: ClassVar[bool] = False
    by_row: ClassVar[frozenset[str]] = frozenset()

    # --- Checks of a spec that may contain any mistake -------------------------------------------

    def parents(self, spec: Entries) -> tuple[str, ...]:
        """The columns that its entry names as sources. By default none."""
        return ()

    @abc.abstractmethod
    def problems(self, spec: Entries, name: str) -> Iterator[Problem]:
        """Checks the names that the entry refers to. `name` is the name of this column.

        It does not report a column that is made from itself. `check_cycles` does.
        """

    def nested_problems(self, spec: Entries, name: str) -> Iterator[Problem]:
        """Checks that no source is a list of lists. By default it finds no problem."""
        yield from ()

    def cross_problem(self, spec: Entries, key: str) -> Optional[str]:
        """Why this column, named `key`, cannot be a key of a cross. None if it can."""
        if not self.categorical:
            return (
                f"column {key!r} is {self.kind}, expected a feature or a categorical column. "
                "To cross a number, cross a bucketized column."
            )
        if self.is_sequence(spec):
            return (
                f"column {key!r} is a sequence, which cannot be crossed. Cross a column without "
                "sequence: true."
            )
        return None

    def with_files(self, spec: Entries, name: str) -> Column:
        """The column completed from its files. By default unchanged. May raise ProblemError."""
        return self

    # --- What it is made from --------------------------------------------------------------------

    def below(self, spec: Entries) -> tuple[str, ...]:
        """The columns that it is made from. By default its `parents`."""
        return self.parents(spec)

    @abc.abstractmethod
    def features(self, spec: Entries) -> Iterator[str]:
        """The features that it reads, directly or through other columns."""

    @property
    def ids_source(self) -> Optional[str]:
        """The column whose ids it uses unchanged. By default None."""
        return None

    def category(self, spec: Entries) -> Optional[str]:
        """The categorical column that the transform returns instead of this column, or None."""
        return None if self.categorical else self.ids_source

    @property
    def weighted_by(self) -> Optional[str]:
        """The feature with a weight for each of its ids. By default None."""
        return None

    def names_values_of(self, spec: Entries) -> tuple[str, ...]:
        """The features whose values it reads as names instead of quantities. By default none."""
        return ()

    def missing_value(self, feature: Feature) -> Optional[Scalar]:
        """The value of its feature of one value that it treats as missing, or None."""
        return ("" if feature.dtype == "string" else -1) if self.looks_up else None

    @property
    def files(self) -> tuple[str, ...]:
        """The files that define its ids, relative to the spec's folder. By default none."""
        return ()

    # --- Shapes and sizes ------------------------------------------------------------------------

    def is_sequence(self, spec: Entries) -> bool:
        """Whether it has one value per step instead of one per record. By default False."""
        return False

    def is_numbers(self, spec: Entries) -> bool:
        """Whether it gives the same number of float32 numbers for each record."""
        return self.dense == "numbers" and not self.is_sequence(spec)

    def id_count(self, spec: Entries) -> int:
        """The number of ids of a categorical column."""
        raise TypeError(f"a {self.kind} column has no ids")

    def ids_meaning(self, spec: Entries) -> dict[str, Any]:
        """What decides which id a value gets, without the names of its features.

        Two columns of a spec can share a table only if this is equal: then each value has the same
        id in both. It has the key `kind` first.
        """
        raise TypeError(f"a {self.kind} column has no ids")

    @property
    def id_bounds(self) -> Optional[tuple[int, int]]:
        """The smallest and the largest valid value, or None if all values are valid."""
        return None

    def width(self, spec: Entries) -> int:
        """The number of numbers that a dense layer gets from it. By default one per id."""
        category = self.category(spec)
        return (self if category is None else spec.columns[category]).id_count(spec)

    # --- Models and checkpoints ------------------------------------------------------------------

    @abc.abstractmethod
    def canned_name(self, spec: Entries, name: str) -> str:
        """The `.name` of its `tf.feature_column`. Its own name if it has no `tf.feature_column`."""

    @abc.abstractmethod
    def feature_column(self, reference: Reference, name: str) -> Any:
        """Its `tf.feature_column`, without a table that it shares.

        Raises:
          ValueError: TensorFlow has no such feature column.
        """

    def not_linear(self) -> Optional[str]:
        """Why a linear model cannot read it, and what to do. None, the default, if it can."""
        return None

    @property
    def shared_table(self) -> Optional[str]:
        """The name of the table that it shares with other columns. By default None."""
        return None

    @property
    def borrowed(self) -> frozenset[str]:
        """Its fields that have the values of another entry. By default none."""
        return frozenset()

    def row_names(self, spec: Entries) -> Sequence[Any]:
        """The values of its ids in order, without `unnamed_ids`. Only if `named_rows` is set."""
        raise TypeError(f"the rows of a {self.kind} column have no names")

    def words_text(self, spec: Entries) -> Optional[str]:
        """The words that it names, as a count and a digest. None, the default, if it names none."""
        return None

    @property
    def unnamed_ids(self) -> int:
        """The number of ids after the ids of `row_names`. By default 0."""
        return 0

    @property
    def normalizers(self) -> tuple[Any, ...]:
        """The normalizers of the numbers of its feature, if it has any."""
        return tuple(getattr(self, "normalizer", ()))

    def own_meaning(self) -> dict[str, Any]:
        """Its own fields that define the meaning of a row of its table."""
        fields = self.fields_of_values() - self.by_row
        return {"kind": self.kind, **self.model_dump(mode="json", include=fields)}

    def fields_of_values(self) -> set[str]:
        """Its fields that change the values or ids of a record."""
        fields = type(self).model_fields
        return {name for name in fields if "values" in self.changes_of(name).aspects}

    def meaning(self, spec: Entries) -> Any:
        """The meaning of its values, for a comparison with a column of another spec."""
        return [self.own_meaning(), [spec.columns[name].meaning(spec) for name in self.below(spec)]]


class Sourced(Column):
    """The base class of columns with one source: a feature, by default, or a column."""

    source: str

    def problems(self, spec: Entries, name: str) -> Iterator[Problem]:
        if name not in self.parents(spec):
            yield from self.source_problems(spec, name)

    @abc.abstractmethod
    def source_problems(self, spec: Entries, name: str) -> Iterator[Problem]:
        """Like `problems`, for a column that is not made from itself."""

    def features(self, spec: Entries) -> Iterator[str]:
        yield self.source

    def canned_name(self, spec: Entries, name: str) -> str:
        return self.source


def list_form(spec: Entries) -> str:
    """The keys with which a feature of the spec becomes a list, for messages."""
    return f"{'feature_list: true or ' if spec.sequence_examples else ''}shape: variable"


def is_nested(spec: Entries, feature: str) -> bool:
    """Whether a feature of this name exists and is a list of lists."""
    return feature in spec.features and spec.features[feature].nested


def feature_under(spec: Entries, name: str) -> str:
    """The feature whose values the column maps to ids, or the name itself."""
    column = spec.columns.get(name)
    if isinstance(column, Sourced) and column.categorical and column.looks_up:
        return column.source
    return name


def path_to(column: Column, name: str) -> Path:
    """The path of the key that names the kind of a column."""
    return ("columns", name, column.kind)
