"""How the variables of a warm start move from the source's spec to the new spec, axis by axis.

`row_moves` matches rows of tables, and `place_moves` matches inputs and outputs. This module
applies these moves to the axes of each variable. Optimizer slots move with their variable.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from typing import Optional

import numpy as np

from estimator_kit.checkpoints.model_outline import ModelOutline
from estimator_kit.checkpoints.warm_start import growing_moves, row_moves
from estimator_kit.checkpoints.warm_start.growing_moves import NO_KEYS, Keys
from estimator_kit.checkpoints.warm_start.place_moves import (
    PlacesRecord,
    changed_groups,
    has_objectives,
    place_move,
)
from estimator_kit.checkpoints.warm_start.row_moves import (
    ColumnsOfTables,
    MeaningError,
    Move,
)
from estimator_kit.embeddings import growing_ids
from estimator_kit.model.group_checks import VECTORS
from estimator_kit.model.places.places import (
    LOGITS,
    UNKNOWN,
    UNTRACED,
    Places,
    has_logits,
    objectives_of,
    without_objectives,
)
from feature_specs.kinds import Growing
from feature_specs.spec import FeatureSpec


@dataclasses.dataclass(frozen=True)
class AxisMove:
    """How an axis moves: `rows` of a table, `inputs` of a kernel, `units` or `logits`."""

    axis: int
    what: str
    places: np.ndarray


@dataclasses.dataclass(frozen=True)
class Taken:
    """A variable that the warm start takes.

    Attributes:
      source: its name in the source.
      moves: the moves of its axes. An axis without a move stays the same.
      value: its value if the source has none: the keys of rows that had words.
    """

    source: str
    moves: tuple[AxisMove, ...] = ()
    value: Optional[np.ndarray] = None

    @property
    def is_whole(self) -> bool:
        return not self.moves and self.value is None


class VariableMoves:
    """How variables move from the source's spec, if it has stored one, to the new spec."""

    def __init__(
        self,
        old: Optional[FeatureSpec],
        new: FeatureSpec,
        outline: ModelOutline,
        old_places: Optional[PlacesRecord] = None,
        keys: Keys = NO_KEYS,
    ):
        self._old = old
        self._new = new
        self._outline = outline
        self._old_places = old_places
        self._keys = keys
        self._columns = ColumnsOfTables(new)
        self._old_columns = ColumnsOfTables(old) if old is not None else None
        self._changed = set() if old is None else row_moves.changed_objectives(old, new)
        self._knows_outputs = old_places is not None and has_objectives(old_places)
        self._rows: dict[tuple[str, str], Move] = {}

    def is_new(self, name: str) -> bool:
        """Whether a variable, or the variable of a slot, is of a new column or objective."""
        base = base_of(name, self._outline) or name
        if self._old is None:
            return False
        column, objectives = self._columns.of(base), self._old.objectives
        return (
            column is not None and row_moves.is_new_column(self._old, self._new, column)
        ) or any(
            axis is not None and all(objectives_of(name) - objectives.keys() for name, _ in axis)
            for axis in self._outline.places.get(base, ())
        )

    def of(self, name: str, source: str, old_shape: tuple[int, ...]) -> Taken:
        """How a variable moves from the variable `source` of the source.

        Raises:
          MeaningError: its rows now mean something else.
        """
        if self._old is None or self._old_columns is None:
            return Taken(source)
        base = base_of(name, self._outline) or name
        shape = self._outline.variables[name]
        if base != name and shape != self._outline.variables[base]:
            return Taken(source)  # A slot that has one number for the whole variable.
        suffix = name[len(base) :]
        old_base = source[: len(source) - len(suffix)] if source.endswith(suffix) else source
        column, old_column = self._columns.of(base), self._old_columns.of(old_base)
        moves: dict[int, AxisMove] = {}
        axes_of_rows: set[int] = set()
        axes = self._outline.places.get(base, ())
        if column is not None and old_column is not None:
            if axes and (has_logits(axes[0]) or {n for n, _ in axes[0] or ()} == {column}):
                axes_of_rows.add(0)  # The rows of a table, which may also score items.
            key = (old_column, column)
            if key not in self._rows:
                self._rows[key] = row_moves.row_move(
                    self._old, old_column, self._new, column, self._keys
                )
            rows = self._rows[key]
            # With another length the variable does not have one row for each id.
            if rows is not None and len(rows) == shape[0]:
                moves[0] = AxisMove(0, "rows", rows)
        for move in self._places(base, old_base, old_shape, without={*moves, *axes_of_rows}):
            moves[move.axis] = move
        return Taken(source, tuple(moves[axis] for axis in sorted(moves)))

    def of_state(self, name: str, *, matches: bool) -> Optional[Taken]:
        """How a variable of a growing column moves, after the tables over the column.

        Args:
          name: its name.
          matches: whether the pattern of the warm start matches its name.

        Returns:
          None if it starts as in a new training: no row of a table moves with it.

        Raises:
          MeaningError: its tables come from columns with other ids.
        """
        part = name.rpartition("/")[2]
        if self._old is None:
            return Taken(name) if matches else None
        ids = name[: -len(part) - 1]
        pairs = {
            (self._old.ids_of(old), self._new.ids_of(new))
            for old, new in self._rows
            if growing_ids.state_of(self._new, new) == ids
        }
        if not pairs and matches:  # Such as ids that a model reads without a table of the kit.
            pairs = {
                (column, column)
                for column in self._new.of_kind(Growing)
                if growing_ids.state_of(self._new, column) == ids
                and column in self._old.columns
                and self._keeps_rows(column)
            }
        if not pairs:
            return None
        states = [
            growing_moves.state(
                self._old, self._old.columns[old], self._new.columns[new], self._keys,
                is_keys=part == growing_ids.KEYS,
            )
            for old, new in sorted(pairs)
        ]  # fmt: skip
        if any(not growing_moves.same(states[0], other) for other in states):
            sources = ", ".join(sorted({old for old, _ in pairs}))
            raise MeaningError(f"its tables come from columns with other ids: {sources}")
        state = states[0]
        if state is None or state.value is not None:
            return None if state is None else Taken(name, value=state.value)
        moves = () if state.rows is None else (AxisMove(0, "rows", state.rows),)
        return Taken(f"{growing_ids.SCOPE}/{state.ids}/{part}", moves)

    def _keeps_rows(self, column: str) -> bool:
        """Whether a growing column has the rows of the same column of the source."""
        assert self._old is not None
        try:
            growing_moves.move(self._old, column, self._new, column, self._keys)
        except growing_moves.NoMatchError:
            return False
        return True

    def _places(
        self, name: str, source: str, old_shape: tuple[int, ...], without: set[int]
    ) -> Iterator[AxisMove]:
        """The moves of axes whose places have an owner, except the axes in `without`."""
        assert self._old is not None
        axes, old_axes = self._outline.places.get(name), None
        if self._old_places is not None:
            old_axes = self._old_places.get(source)
        elif axes is not None and any(without_objectives(axis) for axis in axes):
            if changed := changed_groups(self._old.groups, self._new.groups):
                raise MeaningError(
                    "the source has no record of which column its rows belong to, and "
                    f"{'; '.join(changed)}"
                )
        for axis, (old, new) in enumerate(itertools.zip_longest(old_axes or (), axes or ())):
            if axis in without:
                continue
            if new is not None and not self._knows_outputs:
                old, new = self._older(old, new, old_shape[axis])
            if self._old_places is None and not has_logits(new):
                continue
            if old is None and new is None:
                continue
            if old is None or new is None:
                owners = ", ".join(dict.fromkeys(n for n, _ in old or new or () if n))
                where = "model" if old is None else "source"
                raise MeaningError(f"only in the {where} does its axis {axis} belong to: {owners}")
            move = place_move(old, new, self._old, self._new, self._keys)
            if move is not None:
                units = any(objectives_of(n) for n, _ in new)
                what = "logits" if has_logits(new) else "units" if units else "inputs"
                yield AxisMove(axis, what, move)

    def _older(
        self, old: Optional[Places], new: Places, size: int
    ) -> tuple[Optional[Places], Optional[Places]]:
        """The places of an axis in a source of an earlier version, which did not know objectives.

        A layer of all objectives had their logits side by side.

        Args:
          old, new: the places in the source and in the model.
          size: the length of the axis in the source.
        """
        assert self._old is not None
        owners = {name for name, _ in new if objectives_of(name)}
        before, now = self._old.objectives, self._new.objectives
        same = [*before] == [*now] and not self._changed
        if same or (len(owners) < 2 and not has_logits(new)):
            return old, without_objectives(new)
        every = tuple((LOGITS + n, row_moves.logits_in_row(self._old, n)) for n in before)
        own = tuple(part for part in every if part[0] in owners)
        for parts in (every, own) if owners == {LOGITS + n for n in now} else (own,):
            if has_logits(new) and sum(width for _, width in parts) == size:
                return parts, new
        raise MeaningError(
            "the source has no record of which objectives it belongs to, and the objectives changed"
        )

    def problems(self) -> Iterator[str]:
        """What changed in the meaning of logits without a variable that can follow."""
        if self._old is None:
            return
        places = self._outline.places
        owned = {one for name in self._owners() if LOGITS in name for one in objectives_of(name)}
        moved = [*self._old.objectives] != [*self._new.objectives]
        lost = {
            one
            for parts in places.get(UNTRACED, ())
            for name, _ in parts or ()
            for one in objectives_of(name)
            if one in self._changed or (moved and len(parts or ()) > 1)
        }
        for name in self._new.objectives:
            if name in lost or (name in self._changed and name not in owned):
                yield (
                    f"objectives.{name}: its logits mean something else, and the kit cannot trace "
                    "which weights make them"
                )

    def _owners(self) -> set[str]:
        """The names of all places of the model's variables."""
        places = (axes for name, axes in self._outline.places.items() if name != UNTRACED)
        return {name for axes in places for axis in axes for name, _ in axis or ()}

    def warnings(self) -> Iterator[str]:
        """Warnings about changes that no variable shows."""
        if self._old is None:
            return
        seen = [f"/{name}/" for name in self._outline.weights]
        owners = self._owners()
        traced = bool(owners) and not any(name.startswith(UNKNOWN) for name in owners)
        for name in self._new.used_columns():
            column = self._new.columns[name]
            part = f"/{self._new.canned_name(name)}/"
            is_table = column.dense in VECTORS
            if is_table or any(part in variable for variable in seen):
                continue
            if traced and name not in owners:  # A group that the model does not read.
                continue
            if name in self._old.columns:
                before, now = row_moves.meaning(self._old, name), row_moves.meaning(self._new, name)
                if before != now and not self._follows(name):
                    yield (
                        f"the column {name} means something else than in the source, and it feeds "
                        "dense layers directly. Their weights still have the old meaning."
                    )

    def _follows(self, name: str) -> bool:
        """Whether the rows of kernels move with the words of a column."""
        assert self._old is not None
        if self._old_places is None or name not in self._owners():
            return False
        try:
            row_moves.row_move(self._old, name, self._new, name, self._keys)
        except MeaningError:
            return False
        return True


def fits(old: tuple[int, ...], new: tuple[int, ...], entry: Taken) -> bool:
    """Whether shapes are equal in all axes that do not move."""
    if len(old) != len(new):
        return False
    moving = {move.axis for move in entry.moves}
    return all(i in moving or a == b for i, (a, b) in enumerate(zip(old, new)))


def base_of(name: str, outline: ModelOutline) -> Optional[str]:
    """The variable that a slot belongs to; None for a variable itself.

    A variable may have the name of another one's scope, such as the table `items`.
    """
    if name in outline.weights:
        return None
    parts = name.split("/")
    for end in range(len(parts) - 1, 0, -1):
        base = "/".join(parts[:end])
        if base in outline.weights:
            return base
    return None
