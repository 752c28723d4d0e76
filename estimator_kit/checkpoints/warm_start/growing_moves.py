"""How rows move in a warm start if the old column of ids, the new one, or both are `growing`.

Rows follow their values:

    growing -> growing         the rows stay; rows can be added
    words -> growing           the first words get the first rows
    growing -> words           each word starts as its row, or as its bucket if it has no row
    hash of strings -> growing bucket b starts as the id b % size, if `buckets` is a multiple of
                               `size`: then its strings had this id

Words are the entries of a vocabulary, or the numbers of an identity column, over a feature with
the same dtype. This module compares two specs and the keys of the source. It reads no checkpoint.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Optional

import numpy as np

from feature_specs.kinds import Column, Growing, HashBucket
from feature_specs.kinds.categorical import Lookup
from feature_specs.kinds.growing import FREE
from feature_specs.spec import FeatureSpec


class NoMatchError(ValueError):
    """Rows cannot be matched. The text says why and what to do, or is empty."""


def _unknown(words: Sequence[Any], dtype: str, column: Growing) -> np.ndarray:
    raise NoMatchError


@dataclasses.dataclass(frozen=True)
class Keys:
    """The keys of rows; see `estimator_kit.embeddings.growing_ids`.

    Attributes:
      stored: the keys of the source's growing columns, by the name of the ids.
      of_words: the keys of values of a feature with a dtype, for a growing column.
    """

    stored: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)
    of_words: Callable[[Sequence[Any], str, Growing], np.ndarray] = _unknown


NO_KEYS = Keys()


def move(old: FeatureSpec, old_ids: str, new: FeatureSpec, new_ids: str, keys: Keys) -> np.ndarray:
    """The old place of each new place of a table, -1 for a new one.

    Raises:
      NoMatchError: rows cannot be matched.
    """
    source, target = old.columns[old_ids], new.columns[new_ids]
    if not isinstance(source, Lookup) or not isinstance(target, Lookup):
        raise NoMatchError
    dtype = old.features[source.source].dtype
    if isinstance(target, Growing) and isinstance(source, HashBucket):
        return _from_hash(source, dtype, target, new.features[target.source].dtype)
    if new.features[target.source].dtype != dtype:
        raise NoMatchError
    if isinstance(source, Growing) and isinstance(target, Growing):
        if source.buckets != target.buckets or source.rows > target.rows:
            names = ("buckets", "rows")
            before, now = ([getattr(c, name) for name in names] for c in (source, target))
            changes = [
                f"{name} was {was}, is {new_value}"
                for name, was, new_value in zip(names, before, now)
                if was != new_value
            ]
            raise NoMatchError(
                f"{' and '.join(changes)}. Use as many buckets as before, and not fewer rows."
            )
        return _with_new(source.id_count(old), target.id_count(new))
    if isinstance(target, Growing) and source.named_rows:
        row_keys = keys_of_words(old, source, target, keys)
        rows = np.where(row_keys == FREE, -1, np.arange(len(row_keys)))
        return np.concatenate([np.full(target.buckets, -1), rows])
    if isinstance(source, Growing) and target.named_rows:
        words = keys.of_words(target.row_names(new), dtype, source)
        stored = keys.stored[source.ids_name(old)]
        order = np.argsort(stored, kind="stable")
        place = order[np.searchsorted(stored[order], words).clip(max=len(stored) - 1)]
        rows = np.where(stored[place] == words, source.buckets + place, words % source.buckets)
        rows = np.where(words == FREE, -1, rows)
        return np.concatenate([rows, np.full(target.unnamed_ids, -1)])
    raise NoMatchError(
        f"was {source.kind}, is {target.kind}, and rows cannot follow their values. Leave it out "
        "of the warm start."
    )


def _with_new(old_count: int, count: int) -> np.ndarray:
    """A move in which all old places stay, and new ones follow."""
    return np.concatenate([np.arange(old_count), np.full(count - old_count, -1)])


def _from_hash(source: HashBucket, dtype: str, target: Growing, new_dtype: str) -> np.ndarray:
    if dtype != "string" or new_dtype != "string" or source.salt:
        what = "with a salt" if source.salt else "of integers"
        raise NoMatchError(
            f"was a hash_bucket {what}, which gives other ids than the buckets of a growing "
            "column. Leave it out of the warm start."
        )
    if target.buckets % source.size:
        raise NoMatchError(
            f"got {target.buckets} buckets, expected a multiple of the hash's size, {source.size}. "
            f"With a multiple, each bucket starts as the id that its values had: use {source.size}."
        )
    return np.concatenate([np.arange(target.buckets) % source.size, np.full(target.rows, -1)])


def keys_of_words(old: FeatureSpec, source: Lookup, target: Growing, keys: Keys) -> np.ndarray:
    """The key of each row if the words of a column become the first rows, int64 [rows]."""
    words = source.row_names(old)[: target.rows]
    row_keys = np.full(target.rows, FREE, np.int64)
    row_keys[: len(words)] = keys.of_words(words, old.features[source.source].dtype, target)
    return row_keys


@dataclasses.dataclass(frozen=True)
class State:
    """How a variable of a growing column starts.

    Attributes:
      ids: the name of the ids in the source, whose variable of the same kind it takes.
      rows: how its places move, or None if they stay.
      value: its value if the source has no such variable.
    """

    ids: str = ""
    rows: Optional[np.ndarray] = None
    value: Optional[np.ndarray] = None


def same(one: Optional[State], other: Optional[State]) -> bool:
    """Whether two variables start in the same way."""
    parts, others = ([*vars(each).values()] if each else [] for each in (one, other))
    return len(parts) == len(others) and all(map(np.array_equal, parts, others))


def state(
    old: FeatureSpec, source: Column, target: Column, keys: Keys, *, is_keys: bool
) -> Optional[State]:
    """How `growing/<name>/keys`, or its readings, start; None if as in a new training.

    Args:
      old: the source's spec.
      source, target: the old and the new column of ids, between which tables move.
      keys: the keys of the source.
      is_keys: whether it is the variable of keys; else it has a place more, for all others.
    """
    assert isinstance(target, Growing)
    if isinstance(source, Growing):
        if source.rows == target.rows:
            return State(source.ids_name(old))
        rows = _with_new(source.rows, target.rows)
        return State(source.ids_name(old), rows if is_keys else np.append(rows, source.rows))
    if is_keys and isinstance(source, Lookup) and source.named_rows:
        return State(value=keys_of_words(old, source, target, keys))
    return None
