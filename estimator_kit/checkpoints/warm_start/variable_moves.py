"""How the variables of a warm start move from the source's spec to the new spec, axis by axis.

`row_moves` matches rows and logits, and `place_moves` matches inputs. This module applies these
moves to the axes of each variable. Optimizer slots move with their variable.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from typing import Optional

import numpy as np

from estimator_kit.checkpoints.reading import ModelOutline
from estimator_kit.checkpoints.warm_start import row_moves
from estimator_kit.checkpoints.warm_start.place_moves import Record, changed_groups, place_move
from estimator_kit.checkpoints.warm_start.row_moves import (
    ColumnsOfTables,
    MeaningError,
    Move,
    OutputMoves,
)
from estimator_kit.model.group_checks import VECTORS
from feature_specs.reference.naming import canned_name
from feature_specs.spec import FeatureSpec


@dataclasses.dataclass(frozen=True)
class AxisMove:
    """How an axis moves. `what` says what its places are: `rows` of a table, `inputs`, `logits`."""

    axis: int
    what: str
    places: np.ndarray


@dataclasses.dataclass(frozen=True)
class Taken:
    """A variable that the warm start takes.

    Attributes:
      source: its name in the source.
      moves: the moves of its axes. An axis without a move stays the same.
    """

    source: str
    moves: tuple[AxisMove, ...] = ()

    @property
    def is_whole(self) -> bool:
        return not self.moves


class VariableMoves:
    """How variables move from the source's spec, if it has stored one, to the new spec."""

    def __init__(
        self,
        old: Optional[FeatureSpec],
        new: FeatureSpec,
        outline: ModelOutline,
        old_places: Optional[Record] = None,
    ):
        self._old = old
        self._new = new
        self._outline = outline
        self._old_places = old_places
        self._outputs = OutputMoves(old, new) if old is not None else None
        self._columns = ColumnsOfTables(new)
        self._old_columns = ColumnsOfTables(old) if old is not None else None
        self._moved_outputs: set[str] = set()
        self._rows: dict[tuple[str, str], Move] = {}

    def is_of_new_column(self, name: str) -> bool:
        """Whether a variable is the table, or a slot of the table, of a new column."""
        column = self._columns.of(base_of(name, self._outline) or name)
        return (
            self._old is not None
            and column is not None
            and row_moves.is_new_column(self._old, self._new, column)
        )

    def of(self, name: str, source: str, old_shape: tuple[int, ...]) -> Taken:
        """How a variable moves from the variable `source` of the source.

        Raises:
          MeaningError: its rows now mean something else.
        """
        if self._old is None or self._outputs is None or self._old_columns is None:
            return Taken(source)
        base = base_of(name, self._outline) or name
        shape = self._outline.variables[name]
        if base != name and shape != self._outline.variables[base]:
            return Taken(source)  # A slot that has one number for the whole variable.
        suffix = name[len(base) :]
        old_base = source[: len(source) - len(suffix)] if source.endswith(suffix) else source
        column, old_column = self._columns.of(base), self._old_columns.of(old_base)
        moves = {axis: AxisMove(axis, "inputs", m) for axis, m in self._inputs(base, old_base)}
        if column is not None and old_column is not None:
            key = (old_column, column)
            if key not in self._rows:
                self._rows[key] = row_moves.row_move(self._old, old_column, self._new, column)
            rows = self._rows[key]
            # With another length the variable does not have one row for each id.
            if rows is not None and len(rows) == shape[0]:
                moves[0] = AxisMove(0, "rows", rows)
        logits = self._outputs.of(base, old_shape, shape)
        if logits is not None:
            self._moved_outputs.add(base)
            moves[len(shape) - 1] = AxisMove(len(shape) - 1, "logits", logits)
        return Taken(source, tuple(moves[axis] for axis in sorted(moves)))

    def _inputs(self, name: str, source: str) -> Iterator[tuple[int, np.ndarray]]:
        """The moves of axes whose places belong to columns."""
        assert self._old is not None
        axes = self._outline.places.get(name)
        if self._old_places is None:
            if axes is not None and (changed := changed_groups(self._old.groups, self._new.groups)):
                raise MeaningError(
                    "the source has no record of which column its rows belong to, and "
                    f"{'; '.join(changed)}"
                )
            return
        old_axes = self._old_places.get(source)
        if axes is None and old_axes is None:
            return
        for axis, (old, new) in enumerate(itertools.zip_longest(old_axes or (), axes or ())):
            if old is None and new is None:
                continue
            if old is None or new is None:
                columns = ", ".join(dict.fromkeys(n for n, _ in old or new or () if n))
                where = "model" if old is None else "source"
                raise MeaningError(
                    f"only in the {where} does its axis {axis} belong to columns: {columns}"
                )
            move = place_move(old, new, self._old, self._new)
            if move is not None:
                yield axis, move

    def warnings(self) -> Iterator[str]:
        """Warnings about changes that no variable shows."""
        if self._old is None or self._outputs is None:
            return
        if self._outputs.moves and not self._moved_outputs:
            yield (
                "objectives or classes changed, but no taken variable is an output layer (with "
                "the name logits). The taken variables still have the old meaning."
            )
        seen = [f"/{name}/" for name in self._outline.weights]
        for name in self._new.used_columns():
            column = self._new.columns[name]
            part = f"/{canned_name(self._new, name)}/"
            is_table = column.dense in VECTORS
            if is_table or any(part in variable for variable in seen):
                continue
            if name in self._old.columns:
                before, now = row_moves.meaning(self._old, name), row_moves.meaning(self._new, name)
                if before != now:
                    yield (
                        f"the column {name} means something else than in the source, and it feeds "
                        "dense layers directly. Their weights still have the old meaning."
                    )


def fits(old: tuple[int, ...], new: tuple[int, ...], entry: Taken) -> bool:
    """Whether shapes are equal in all axes that do not move."""
    if len(old) != len(new):
        return False
    moving = {move.axis for move in entry.moves}
    return all(i in moving or a == b for i, (a, b) in enumerate(zip(old, new)))


def base_of(name: str, outline: ModelOutline) -> Optional[str]:
    """The variable that a slot belongs to."""
    parts = name.split("/")
    for end in range(len(parts) - 1, 0, -1):
        base = "/".join(parts[:end])
        if base in outline.weights:
            return base
    return None
