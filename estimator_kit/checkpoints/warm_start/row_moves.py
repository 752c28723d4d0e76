"""Matches rows of tables, and logits, of a new model with rows and logits of an older model.

If a vocabulary gains, loses or reorders words, its words get other ids. In the same way, the
vocabulary of a label changes the logits of its objective. A move gives, for each place
of the new model, its place in the old model. This module compares two specs. It reads vocabulary
files, but no checkpoint: of growing columns, it gets the keys of rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Optional

import numpy as np

from estimator_kit.checkpoints.warm_start import growing_moves
from estimator_kit.checkpoints.warm_start.growing_moves import NO_KEYS, Keys
from feature_specs.files import documents
from feature_specs.kinds import Column
from feature_specs.spec import FeatureSpec

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
                self._scopes.setdefault(spec.canned_name(name), name)

    def of(self, variable: str) -> Optional[str]:
        """The column, or None. The path of the variable ends with the name of its scope.

        A layer in a scope of this name, such as the DNN `item` of a model, does not count.
        """
        parts = variable.split("/")[:-1]
        scopes = ("/".join(parts[i:]) for i in range(len(parts)))
        columns = [self._scopes[scope] for scope in scopes if scope in self._scopes]
        if variable in self._shared:
            columns.append(self._shared[variable])
        return min(columns, key=self._order.__getitem__, default=None)


def row_move(
    old: FeatureSpec, old_name: str, new: FeatureSpec, new_name: str, keys: Keys = NO_KEYS
) -> Move:
    """How the rows of a column's table move.

    The words of a vocabulary and the ids of an identity column keep their rows. Buckets for words
    outside the vocabulary keep their rows only if the number of buckets is the same, because it
    decides which word goes into which bucket. For example, with the old words a, b, c and the new
    words c, d, a, the move is [2, -1, 0]. Rows of a growing column follow their keys: to and from
    words, and from a hash that gives the ids of its buckets; see `growing_moves`.

    Args:
      old, old_name: the source's spec, and its column.
      new, new_name: the new spec, and its column.
      keys: the keys of the source's growing columns.

    Raises:
      MeaningError: the two columns are made differently, and have no words to match rows by.
    """
    before, now = old.columns[old_name], new.columns[new_name]
    old_ids, new_ids = old.ids_of(old_name), new.ids_of(new_name)
    source, target = old.columns[old_ids], new.columns[new_ids]
    is_growing = source.keyed or target.keyed
    same_use = (before is source and now is target) if is_growing else _by_word(before, now)
    if before.own_meaning() != now.own_meaning() and not same_use:
        raise MeaningError(_sentence(old, old_name, new, new_name))
    if is_growing:
        try:
            move = growing_moves.move(old, old_ids, new, new_ids, keys)
        except growing_moves.NoMatchError as error:
            sentence = _sentence(old, old_ids, new, new_ids)
            raise MeaningError(f"columns.{new_ids}: {error}" if str(error) else sentence) from error
        return _or_none(move, source.id_count(old))
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


def logit_move(old: FeatureSpec, new: FeatureSpec, name: str, keys: Keys = NO_KEYS) -> np.ndarray:
    """How the logits of an objective move, counted within the objective.

    A head names its logits: the logits of classes by the label's words, or by their ids if it has
    no vocabulary. Items of a next_item objective move as the rows of their column. If the old spec
    does not have the objective, or has it with another head, all logits start at initial values.

    Raises:
      MeaningError: no logit means what it did.
    """
    objective, size = new.objectives[name], logits_in_row(new, name)
    if is_new_objective(old, new, name):
        return np.full(size, -1, np.int64)
    before, items = old.objectives[name], objective.items_column
    if items is not None:
        assert before.items_column is not None
        rows = row_move(old, before.items_column, new, items, keys)
        move = np.arange(size) if rows is None else rows[:size]
        move = np.where(move < logits_in_row(old, name), move, -1)
        names = [[before.items_column], [items]]
    else:
        names = [
            [*spec.objectives[name].logit_names(spec.labels[spec.label_of(name)].vocabulary)]
            for spec in (old, new)
        ]
        move = np.array(_places(*names), np.int64)
    if (move < 0).all():
        was, now = (", ".join(map(str, some[:9])) for some in names)
        raise MeaningError(f"objectives.{name}: its logits were: {was}; and are: {now}")
    return move


def changed_objectives(old: FeatureSpec, new: FeatureSpec) -> set[str]:
    """The objectives of both specs that have other logits, or logits in another order."""
    changed = set()
    for name in new.objectives:
        if not is_new_objective(old, new, name):
            try:
                move = _or_none(logit_move(old, new, name), logits_in_row(old, name))
            except MeaningError:
                changed.add(name)
            else:
                changed.update([name] if move is not None else [])
    return changed


def is_new_objective(old: FeatureSpec, new: FeatureSpec, name: str) -> bool:
    """Whether the old spec does not have the objective, or has it with another head."""
    return name not in old.objectives or old.objectives[name].head != new.objectives[name].head


def logits_in_row(spec: FeatureSpec, name: str) -> int:
    items = spec.objectives[name].items_column
    return spec.objectives[name].logits_in_row if items is None else spec.named_ids(items)


def moved(current: np.ndarray, old: np.ndarray, moves: Mapping[int, np.ndarray]) -> np.ndarray:
    """The value of a variable: the old values at moved places, and current values at new places.

    Args:
      current: the current value of the variable.
      old: the value in the source.
      moves: the moves by axis.
    """
    value = np.array(current)
    target: list[Any] = [np.arange(n) for n in value.shape]
    source: list[Any] = [np.arange(n) for n in old.shape]
    for axis, move in moves.items():
        target[axis] = np.flatnonzero(move >= 0)
        source[axis] = move[target[axis]]
    value[np.ix_(*target)] = old[np.ix_(*source)]
    return value


class Counts(documents.Part):
    """The numbers of kept, new and dropped places."""

    kept: int
    new: int
    dropped: int


def counts(move: np.ndarray, old_size: int) -> Counts:
    kept = int((move >= 0).sum())
    return Counts(kept=kept, new=len(move) - kept, dropped=old_size - kept)


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
