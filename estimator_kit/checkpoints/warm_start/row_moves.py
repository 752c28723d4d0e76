"""Matches rows of tables, and logits, of a new model with rows and logits of an older model.

If a vocabulary gains, loses or reorders words, its words get other ids. In the same way, the
vocabulary of a label changes the logits of its multi_class objective. A move gives, for each place
of the new model, its place in the old model. This module compares two specs. It reads vocabulary
files, but no checkpoint.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Optional

import numpy as np

from estimator_kit.model.input_layer import LINEAR_SCOPE
from feature_specs.kinds import Column
from feature_specs.reference.naming import canned_name
from feature_specs.spec import FeatureSpec

_OUTPUT_LAYER = re.compile(rf"(.*/)?(logits/(kernel|bias)|{LINEAR_SCOPE}/.*)")

# A move, int64 [new places]: the old place of each new place, or -1 if it has none. None if nothing
# moves.
Move = Optional[np.ndarray]


class MeaningError(ValueError):
    """Rows of the old and the new table cannot be matched."""


class ColumnsOfTables:
    """Finds the column that a variable is the table of, in time that does not grow with the spec.

    Args:
      spec: the spec of the model with the variables.
    """

    def __init__(self, spec: FeatureSpec):
        # Columns in groups come first, because a column that no group reads has no table.
        names = dict.fromkeys((*spec.used_columns(), *spec.columns))
        self._order = {name: place for place, name in enumerate(names)}
        self._shared: dict[str, str] = {}
        self._scopes: dict[str, str] = {}
        for name in names:
            column = spec.columns[name]
            if column.shared_table is not None:
                self._shared.setdefault(column.shared_table, name)
            elif column.has_variables:
                self._scopes.setdefault(canned_name(spec, name), name)

    def of(self, variable: str) -> Optional[str]:
        """The column, or None. The name of its scope is a part of the variable's path."""
        parts = variable.split("/")
        scopes = ("/".join(parts[i:j]) for j in range(len(parts)) for i in range(j))
        found = [self._scopes[scope] for scope in scopes if scope in self._scopes]
        if variable in self._shared:
            found.append(self._shared[variable])
        return min(found, key=self._order.__getitem__, default=None)


def ids_of(spec: FeatureSpec, name: str) -> str:
    """The column that makes the ids of an embedding, an indicator or a weighted column."""
    source: Optional[str] = name
    while source is not None:
        name, source = source, spec.columns[source].ids_source
    return name


def row_move(old: FeatureSpec, old_name: str, new: FeatureSpec, new_name: str) -> Move:
    """How the rows of a column's table move.

    The words of a vocabulary and the ids of an identity column keep their rows. Buckets for words
    outside the vocabulary keep their rows only if the number of buckets is the same, because it
    decides which word goes into which bucket. For example, with the old words a, b, c and the new
    words c, d, a, the move is [2, -1, 0].

    Raises:
      MeaningError: the two columns are made differently, and have no words to match rows by.
    """
    before, now = old.columns[old_name], new.columns[new_name]
    if before.own_meaning() != now.own_meaning() and not _by_word(before, now):
        raise MeaningError(_sentence(old, old_name, new, new_name))
    old_ids, new_ids = ids_of(old, old_name), ids_of(new, new_name)
    source, target = old.columns[old_ids], new.columns[new_ids]
    if not _by_word(source, target):
        if meaning(old, old_ids) != meaning(new, new_ids):
            raise MeaningError(_sentence(old, old_ids, new, new_ids))
        return None
    old_words, new_words = source.row_names(old), target.row_names(new)
    buckets, old_buckets = target.unnamed_ids, source.unnamed_ids
    rows = _places(old_words, new_words)
    first = len(old_words)
    outside = range(first, first + buckets) if buckets == old_buckets else [-1] * buckets
    return _or_none(np.array([*rows, *outside], np.int64), first + old_buckets)


def is_new_column(old: FeatureSpec, new: FeatureSpec, name: str) -> bool:
    """Whether a column was added to every group that has it."""
    groups = [group for group, names in new.groups.items() if name in names]
    return bool(groups) and all(name not in old.groups.get(g, (name,)) for g in groups)


def meaning(spec: FeatureSpec, name: str) -> Any:
    """What the values of a column stand for, to compare it with another spec."""
    return spec.columns[name].meaning(spec)


def logit_moves(old: FeatureSpec, new: FeatureSpec) -> dict[str, np.ndarray]:
    """How the logits of each objective of the new spec move, counted within the objective.

    Classes of a multi_class objective are matched by their words, or by their ids if the label has
    no vocabulary. Items of a next_item objective are matched as the rows of their column. The
    logits of an objective start at their initial values if the old spec does not have it, or has it
    with another head. So do the logits of other heads if the label's words or the number of logits
    changed.
    """
    moves = {}
    for name, objective in new.objectives.items():
        size = _logits_in_row(new, name)
        before = old.objectives.get(name)
        fresh = np.full(size, -1, np.int64)
        if before is None or before.head != objective.head:
            moves[name] = fresh
            continue
        if objective.items_column is not None:
            moves[name] = _item_move(old, new, name)
            continue
        old_words = old.labels[old.label_of(name)].vocabulary
        new_words = new.labels[new.label_of(name)].vocabulary
        if objective.head == "multi_class":
            known = old_words is not None and new_words is not None
            moves[name] = (
                np.array(_places(old_words or (), new_words or ()), np.int64)[:size]
                if known
                else np.where(np.arange(size) < before.logits_in_row, np.arange(size), -1)
            )
        else:
            same = old_words == new_words and before.logits_in_row == size
            moves[name] = np.arange(size) if same else fresh
    return moves


def _logits_in_row(spec: FeatureSpec, name: str) -> int:
    items = spec.objectives[name].items_column
    return spec.objectives[name].logits_in_row if items is None else spec.named_ids(items)


def _item_move(old: FeatureSpec, new: FeatureSpec, name: str) -> np.ndarray:
    """How the scores of items move, as the rows of their column."""
    before, now = (spec.objectives[name].items_column for spec in (old, new))
    assert before is not None and now is not None
    size, old_size = new.named_ids(now), old.named_ids(before)
    try:
        rows = row_move(old, before, new, now)
    except MeaningError:
        return np.full(size, -1, np.int64)
    rows = np.arange(size) if rows is None else rows[:size]
    return np.where(rows < old_size, rows, -1)


class OutputMoves:
    """The moves of variables whose last axis holds logits.

    Output layers are recognized by their names: a layer `logits`, and linear models. An output
    layer of all objectives has their logits side by side. An output layer of one objective has the
    objective's name in its own name, unless the spec has only one objective.
    """

    def __init__(self, old: FeatureSpec, new: FeatureSpec):
        self._by_objective = logit_moves(old, new)
        self._old_sizes = {n: _logits_in_row(old, n) for n in old.objectives}
        starts = dict(zip(self._old_sizes, np.cumsum([0, *self._old_sizes.values()])))
        self._all = np.concatenate(
            [
                np.where(move < 0, -1, move + starts.get(n, 0))
                for n, move in self._by_objective.items()
            ]
        )
        self._old_size = sum(self._old_sizes.values())

    @property
    def moves(self) -> bool:
        """Whether any logit moved, is new, or was dropped."""
        return _or_none(self._all, self._old_size) is not None

    def of(self, variable: str, old_shape: Sequence[int], shape: Sequence[int]) -> Move:
        """The move of a variable's last axis."""
        if not shape or not old_shape or not _OUTPUT_LAYER.fullmatch(variable):
            return None
        sizes = (old_shape[-1], shape[-1])
        for name, move in self._by_objective.items():
            if name in variable.split("/") and sizes == (self._old_sizes.get(name), len(move)):
                return _or_none(move, self._old_sizes[name])
        if sizes == (self._old_size, len(self._all)):
            return _or_none(self._all, self._old_size)
        return None


def moved(current: np.ndarray, found: np.ndarray, moves: Mapping[int, np.ndarray]) -> np.ndarray:
    """The value of a variable: the old values at moved places, and current values at new places.

    Args:
      current: the current value of the variable.
      found: the value in the source.
      moves: the moves by axis.
    """
    value = np.array(current)
    target: list[Any] = [np.arange(n) for n in value.shape]
    source: list[Any] = [np.arange(n) for n in found.shape]
    for axis, move in moves.items():
        target[axis] = np.flatnonzero(move >= 0)
        source[axis] = move[target[axis]]
    value[np.ix_(*target)] = found[np.ix_(*source)]
    return value


def counts(move: np.ndarray, old_size: int) -> dict[str, int]:
    """The numbers of kept, new and dropped places."""
    kept = int((move >= 0).sum())
    return {"kept": kept, "new": len(move) - kept, "dropped": old_size - kept}


def _by_word(old: Column, new: Column) -> bool:
    return old.kind == new.kind and old.named_rows


def _places(old: Sequence[Any], new: Sequence[Any]) -> list[int]:
    places = {word: i for i, word in enumerate(old)}
    return [places.get(word, -1) for word in new]


def _or_none(move: np.ndarray, old_size: int) -> Move:
    if len(move) == old_size and (move == np.arange(old_size)).all():
        return None
    return move


def _sentence(old: FeatureSpec, old_name: str, new: FeatureSpec, new_name: str) -> str:
    """Names the first difference between two columns, or between the columns they are made from."""
    column, old_column = new.columns[new_name], old.columns[old_name]
    by_word = {"size"} if _by_word(old_column, column) else set()
    before, now = (
        each.model_dump(
            mode="json",
            by_alias=True,
            exclude_defaults=True,
            include=each.fields_of_values() - by_word,
        )
        for each in (old_column, column)
    )
    if before == now or column.ids_source is not None:
        for key in column.below(new):
            both = key in old.columns and key != new_name
            if both and meaning(old, key) != meaning(new, key):
                return _sentence(old, key, new, key)
    return f"columns.{new_name}: was {before}, is {now}"
