"""How the axes of a kernel move when the columns that feed it, or its objectives, change.

`input_places` says which column or objective owns each place of an axis, in the source and in the
new model. An owner that exists in both keeps its weights, even if its places have moved. The places
of a new owner start at their initial values. So you can add, drop or reorder columns, objectives
and classes, and the remaining ones keep their weights. This module reads no checkpoint.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Optional

import numpy as np

from estimator_kit.checkpoints.warm_start.growing_moves import NO_KEYS, Keys
from estimator_kit.checkpoints.warm_start.row_moves import (
    MeaningError,
    Move,
    changed_objectives,
    is_new_objective,
    logit_move,
    row_move,
)
from estimator_kit.model.group_checks import VECTORS
from estimator_kit.model.places.places import (
    LOGITS,
    NO_COLUMN,
    UNITS,
    UNKNOWN,
    AxisPlaces,
    Places,
    objectives_of,
    without_objectives,
)
from feature_specs.spec import FeatureSpec

# `{variable: the places of each axis}`, as a model directory stores it.
PlacesRecord = Mapping[str, AxisPlaces]


def place_move(
    old: Places, new: Places, before: FeatureSpec, now: FeatureSpec, keys: Keys = NO_KEYS
) -> Move:
    """For each place of the new axis, its place in the old axis.

    Owners are matched by name, and several parts of one owner in their order. Within an owner,
    places are matched by position. If the column has one place for each id, as an indicator has,
    they are matched by word. Logits are matched as in `logit_move`.

    Args:
      old, new: the places of the two axes.
      before, now: the specs of the two axes.
      keys: the keys of the source's growing columns.

    Raises:
      MeaningError: the axes differ, and the model reads them through an op that the kit cannot
        trace. Or they have no owner in common. Or units of an objective, which others use, were
        added or dropped.
    """
    if old != new:
        for part, _ in (*old, *new):
            if UNKNOWN in part:
                raise MeaningError(
                    f"the columns it reads changed, and it reads them through {part[1:]}, which "
                    "the kit cannot trace"
                )
    units = [sorted((n, w) for n, w in axis if UNITS in n) for axis in (old, new)]
    if units[0] != units[1]:
        raise MeaningError(
            f"it has units of the objectives {_objectives(units[1])}, but in the source of "
            f"{_objectives(units[0])}"
        )
    starts: dict[str, list[tuple[int, int]]] = defaultdict(list)
    start = 0
    for name, width in old:
        starts[name].append((start, width))
        start += width
    moves = []
    for name, width in new:
        where = starts[name].pop(0) if starts[name] else None
        moves.append(_within(name, where, width, before, now, keys))
    move = np.concatenate(moves)
    names = {name for name, _ in new} - {NO_COLUMN}
    objectives = {objective for name in names for objective in objectives_of(name)}
    all_new = objectives and all(
        is_new_objective(before, now, objective) for objective in objectives
    )
    if (move < 0).all() and not all_new:
        raise MeaningError(
            f"it reads {_listed(names)}, but in the source it reads "
            f"{_listed({name for name, _ in old} - {NO_COLUMN})}"
        )
    return None if len(move) == start and (move == np.arange(start)).all() else move


def _within(
    name: str,
    where: Optional[tuple[int, int]],
    width: int,
    before: FeatureSpec,
    now: FeatureSpec,
    keys: Keys,
) -> np.ndarray:
    """The old place of each place of one part; -1 for a place that the source does not have."""
    fresh = np.full(width, -1, np.int64)
    if where is None:
        return fresh
    for part in name.split("&"):
        if part.startswith(LOGITS):
            logits = logit_move(before, now, part[len(LOGITS) :], keys)
            if len(logits) == width:
                return np.where(logits < 0, -1, logits + where[0])
            if part[len(LOGITS) :] in changed_objectives(before, now):
                raise MeaningError(f"it makes some of the {part}, which changed")
    start, old_width = where
    same = np.arange(start, start + width) if width == old_width else fresh
    if name not in before.columns or name not in now.columns or now.columns[name].dense in VECTORS:
        return same  # The numbers of a vector have no words, however many words the column has.
    try:
        move = row_move(before, name, now, name, keys)
    except MeaningError:
        return same  # `VariableMoves.warnings` warns about it.
    if move is None or len(move) != width or move.max(initial=-1) >= old_width:
        return same
    return np.where(move < 0, -1, move + start)


def differences(old: PlacesRecord, new: PlacesRecord) -> list[str]:
    """One sentence for each change of places that shapes do not show."""
    sentences: dict[str, str] = {}
    old_has_objectives = has_objectives(old)
    for variable in sorted({*old} & {*new}):
        for axis, (was, now) in enumerate(zip(old[variable], new[variable])):
            now = now if old_has_objectives else without_objectives(now)
            if was == now or _size(was) != _size(now):  # Shapes show another size.
                continue
            columns = [_listed(n for n, _ in places or () if n) for places in (was, now)]
            place = "its rows" if axis == 0 else f"its axis {axis}"
            sentences.setdefault(
                f"{columns}", f"{variable}: {place} belonged to {columns[0]}; now to {columns[1]}"
            )
    return list(sentences.values())


def has_objectives(record: PlacesRecord) -> bool:
    """Whether a record says what belongs to objectives. Earlier versions of the kit did not."""
    return any(
        objectives_of(name)
        for axes in record.values()
        for places in axes
        for name, _ in places or ()
    )


def _objectives(parts: Sequence[tuple[str, int]]) -> str:
    return (
        ", ".join(sorted({objective for n, _ in parts for objective in objectives_of(n)})) or "none"
    )


def changed_groups(old: Mapping[str, Sequence[str]], new: Mapping[str, Sequence[str]]) -> list[str]:
    """One sentence for each group whose columns, or their order, changed."""
    return [
        f"groups.{name}: was {', '.join(old[name])}, is {', '.join(columns)}"
        for name, columns in new.items()
        if name in old and list(old[name]) != list(columns)
    ]


def _size(places: Optional[Places]) -> Optional[int]:
    return None if places is None else sum(width for _, width in places)


def _listed(names: Any) -> str:
    return ", ".join(dict.fromkeys(sorted(names) if isinstance(names, set) else names)) or "nothing"
