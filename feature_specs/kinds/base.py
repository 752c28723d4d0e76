"""The base of column kinds: what the rest of the kit asks a column, with the usual answers.

A kind is a frozen model of its entry in the YAML, and overrides the answers that are otherwise for
it. So no other module has to know which kinds there are, but for the closed tables that
`feature_specs.kinds` lists. What a column needs to know of the spec around it is given as
`Entries`. A kind never imports `FeatureSpec`, a check or TensorFlow.
"""

from __future__ import annotations

import abc
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal, Optional, Protocol, Union

from feature_specs.entry import Entry
from feature_specs.errors import Path, Problem
from feature_specs.feature import Feature

# How a column becomes numbers for a dense layer; the names are those of
# `estimator_kit.model.gathers`.
#   numbers             as the transform gave them
#   counts              how often each id occurs: one-hot for one id
#   embedding           the vectors of the ids in a table of fixed size
#   dynamic_embedding   the vectors of the values in a table that grows
Dense = Literal["numbers", "counts", "embedding", "dynamic_embedding"]

LISTS_OF_LISTS = "is a list of lists, which ragged columns alone read"


class Entries(Protocol):
    """What a column may see of the spec that it is in. A `FeatureSpec` is one."""

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
    """What a column needs to make its `tf.feature_column`; see `reference.columns`.

    Attributes:
      spec: the spec that the column is in.
      tf: the module `tensorflow`, which kinds do not import.
    """

    @property
    def spec(self) -> Entries: ...

    @property
    def tf(self) -> Any: ...

    def column(self, name: str) -> Any:
        """The feature column of another column."""

    def normalizer_fn(self, steps: Any) -> Any:
        """The normalizers of a column as one function of a tensor."""

    def table(self, name: str) -> dict[str, Any]:
        """The arguments of an embedding column that say what its table is."""


class Column(Entry):
    """Base of columns.

    Attributes:
      kind: the key by which the YAML names it.
      categorical: whether its values are ids, [0, `id_count`), and -1 for none.
      dense: how it becomes numbers of a dense layer; None if it does not.
      ragged: whether it is a list as it is, which only models of a user's own read.
      looks_up: whether each value of the feature `source` has an id or a key of its own. To these
        kinds the empty string and -1 are no value, where a feature has one value.
      has_variables: whether a model may have a variable of its name.
      named_rows: whether `row_names` says what its ids stand for.
      normalizer_statistics: whether its `normalizer` may take numbers from a statistics file.
      no_meaning: fields that do not change what a row of its table stands for.
      compared_apart: fields whose meaning is compared by other means than their value.
    """

    kind: ClassVar[str]
    categorical: ClassVar[bool] = False
    dense: ClassVar[Optional[Dense]] = None
    ragged: ClassVar[bool] = False
    looks_up: ClassVar[bool] = False
    has_variables: ClassVar[bool] = True
    named_rows: ClassVar[bool] = False
    normalizer_statistics: ClassVar[bool] = False
    no_meaning: ClassVar[frozenset[str]] = frozenset()
    compared_apart: ClassVar[frozenset[str]] = frozenset()

    # --- Checks, of a spec that may be wrong in any way ------------------------------------------

    def parents(self, spec: Entries) -> tuple[str, ...]:
        """The columns that it names as what it is made from; by default none."""
        return ()

    @abc.abstractmethod
    def problems(self, spec: Entries, name: str) -> Iterator[Problem]:
        """What is wrong with the names that it refers to; `name` is its own.

        A column that is made from itself is reported elsewhere, once.
        """

    def nested_problems(self, spec: Entries, name: str) -> Iterator[Problem]:
        """What it reads that is a list of lists; by default it reads none. Ragged columns may."""
        yield from ()

    def cross_problem(self, spec: Entries, key: str) -> Optional[str]:
        """Why it, which is called `key`, cannot be a key of a cross; None if it can."""
        if not self.categorical:
            return (
                f"column {key!r} is {self.kind}, expected a feature or a categorical column; "
                "for a number cross a bucketized column"
            )
        if self.is_sequence(spec):
            return f"column {key!r} is a sequence, which has no cross; cross a column without it"
        return None

    def with_files(self, spec: Entries, name: str) -> Union[Column, Problem]:
        """The column with what its files say, or what is wrong with them; by default as it is."""
        return self

    # --- What it is made from --------------------------------------------------------------------

    def below(self, spec: Entries) -> tuple[str, ...]:
        """The columns that it is made from; by default all that it names."""
        return self.parents(spec)

    @abc.abstractmethod
    def features(self, spec: Entries) -> Iterator[str]:
        """The features that it reads, directly or through other columns."""

    @property
    def ids_source(self) -> Optional[str]:
        """The column whose ids it takes as they are; by default None."""
        return None

    def category(self, spec: Entries) -> Optional[str]:
        """The categorical column below, which the transform gives in its place; or None."""
        return None if self.categorical else self.ids_source

    @property
    def weighted_by(self) -> Optional[str]:
        """The feature that holds a weight for each of its ids; by default None."""
        return None

    def names_values_of(self, spec: Entries) -> tuple[str, ...]:
        """The features whose values are names to it, not quantities; by default none."""
        return ()

    @property
    def files(self) -> tuple[str, ...]:
        """Files that decide what its ids mean, relative to the spec's folder; by default none."""
        return ()

    # --- Shapes and sizes ------------------------------------------------------------------------

    def is_sequence(self, spec: Entries) -> bool:
        """Whether it has one value a step, not one a record; by default not."""
        return False

    def is_numbers(self, spec: Entries) -> bool:
        """Whether it is float32 numbers, as many in each record."""
        return self.dense == "numbers" and not self.is_sequence(spec)

    def id_count(self, spec: Entries) -> int:
        """The number of ids of a categorical column."""
        raise TypeError(f"a {self.kind} column has no ids of its own")

    @property
    def id_bounds(self) -> Optional[tuple[int, int]]:
        """The smallest and the largest value that is no error; None where any value will do."""
        return None

    def width(self, spec: Entries) -> int:
        """How many numbers it gives a dense layer, by default one for each id."""
        category = self.category(spec)
        return (self if category is None else spec.columns[category]).id_count(spec)

    # --- Models and checkpoints ------------------------------------------------------------------

    @abc.abstractmethod
    def canned_name(self, spec: Entries, name: str) -> str:
        """The `.name` of its `tf.feature_column`, or its own where there is none."""

    @abc.abstractmethod
    def feature_column(self, reference: Reference, name: str) -> Any:
        """The `tf.feature_column` that stands for it, without a table that it shares.

        Raises:
          ValueError: there is none.
        """

    def not_linear(self) -> Optional[str]:
        """Why a linear model does not read it, and what to do; None (the default) if it does."""
        return None

    @property
    def shared_table(self) -> Optional[str]:
        """The name of the table that it shares with other columns; by default None."""
        return None

    def row_names(self, spec: Entries) -> Sequence[Any]:
        """What its ids stand for, in their order, without `unnamed_ids`; of `named_rows` alone."""
        raise TypeError(f"the rows of a {self.kind} column have no names")

    @property
    def unnamed_ids(self) -> int:
        """How many ids come after those of `row_names`; by default none."""
        return 0

    def own_meaning(self) -> dict[str, Any]:
        """What it says itself that decides what a row of its table stands for."""
        skip = {*self.no_meaning, *self.compared_apart}
        return {"kind": self.kind, **self.model_dump(mode="json", exclude=skip)}

    def meaning(self, spec: Entries) -> Any:
        """What its values stand for, to compare with those of a column of another spec."""
        return [self.own_meaning(), [spec.columns[name].meaning(spec) for name in self.below(spec)]]


class Sourced(Column):
    """Base of columns that are made from one thing: a feature, by default, or a column.

    Attributes:
      source: the feature, or the column, that it is made from.
    """

    source: str

    def problems(self, spec: Entries, name: str) -> Iterator[Problem]:
        if name not in self.parents(spec):
            yield from self.source_problems(spec, name)

    @abc.abstractmethod
    def source_problems(self, spec: Entries, name: str) -> Iterator[Problem]:
        """As `problems`, of a column that is not made from itself."""

    def features(self, spec: Entries) -> Iterator[str]:
        yield self.source

    def canned_name(self, spec: Entries, name: str) -> str:
        return self.source


def list_form(spec: Entries) -> str:
    """How the features of a spec say that they are lists, for messages."""
    return f"{'feature_list: true or ' if spec.sequence_examples else ''}shape: variable"


def is_nested(spec: Entries, feature: str) -> bool:
    """Whether a name is that of a feature that is a list of lists."""
    return feature in spec.features and spec.features[feature].nested


def feature_under(spec: Entries, name: str) -> str:
    """The feature whose values a column has ids for, or the name itself."""
    column = spec.columns.get(name)
    if isinstance(column, Sourced) and column.categorical and column.looks_up:
        return column.source
    return name


def path_to(column: Column, name: str) -> Path:
    """The place of the key of a column's kind."""
    return ("columns", name, column.kind)
