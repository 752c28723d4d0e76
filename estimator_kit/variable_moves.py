"""How the variables of a warm start move from the source's spec to the new one, axis by axis.

Which row or logit becomes which is for `row_moves` to say; here it is said of which variable that
is so, and of the slots of optimizers, which move with their variable.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Optional

from estimator_kit import row_moves
from estimator_kit.checkpoints import ModelOutline
from estimator_kit.row_moves import Move, OutputMoves, column_of
from feature_specs.column_kinds import DynamicEmbedding, Embedding
from feature_specs.naming import canned_name
from feature_specs.schema import FeatureSpec


@dataclasses.dataclass(frozen=True)
class Taken:
    """One variable that is taken.

    Attributes:
      source: its name in the source.
      rows, logits: how its first and its last axis move.
    """

    source: str
    rows: Move = None
    logits: Move = None

    @property
    def is_whole(self) -> bool:
        return self.rows is None and self.logits is None


class VariableMoves:
    """How variables move between the source's spec, where it has kept one, and the new one."""

    def __init__(self, old: Optional[FeatureSpec], new: FeatureSpec, outline: ModelOutline):
        self._old = old
        self._new = new
        self._outline = outline
        self._outputs = OutputMoves(old, new) if old is not None else None
        self._moved_outputs: set[str] = set()
        self._rows: dict[tuple[str, str], Move] = {}

    def of(self, name: str, source: str, old_shape: tuple[int, ...]) -> Taken:
        """How a variable of the model moves from the one that the source calls `source`.

        Raises:
          MeaningError: its rows mean something else now.
        """
        if self._old is None or self._outputs is None:
            return Taken(source)
        base = base_of(name, self._outline) or name
        shape = self._outline.variables[name]
        if base != name and shape != self._outline.variables[base]:
            return Taken(source)  # A slot of one number.
        suffix = name[len(base) :]
        old_base = source[: len(source) - len(suffix)] if source.endswith(suffix) else source
        column, old_column = column_of(self._new, base), column_of(self._old, old_base)
        rows = None
        if column is not None and old_column is not None:
            key = (old_column, column)
            if key not in self._rows:
                self._rows[key] = row_moves.row_move(self._old, old_column, self._new, column)
            rows = self._rows[key]
            if rows is not None and len(rows) != shape[0]:
                rows = None  # Not a table of the column's ids.
        logits = self._outputs.of(base, old_shape, shape)
        if logits is not None:
            self._moved_outputs.add(base)
        return Taken(source, rows, logits)

    def warnings(self) -> Iterator[str]:
        """What changed and can be seen in no variable of its own."""
        if self._old is None or self._outputs is None:
            return
        if self._outputs.moves and not self._moved_outputs:
            yield (
                "objectives or classes changed, and no variable that is taken is known as an "
                "output layer (by the name logits); what it takes means the old ones"
            )
        seen = [f"/{name}/" for name in self._outline.weights]
        for name in self._new.used_columns():
            column = self._new.columns[name]
            part = f"/{canned_name(self._new, name)}/"
            is_table = isinstance(column, (DynamicEmbedding, Embedding))
            if is_table or any(part in variable for variable in seen):
                continue
            if name in self._old.columns:
                before, now = row_moves.meaning(self._old, name), row_moves.meaning(self._new, name)
                if before != now:
                    yield (
                        f"column {name} means something else than in the source, and goes into "
                        "dense layers as it is; what they take of it means the old one"
                    )


def fits(old: tuple[int, ...], new: tuple[int, ...], entry: Taken) -> bool:
    """Whether shapes are equal but for the axes that move."""
    if len(old) != len(new):
        return False
    moving = {0} if entry.rows is not None else set()
    if entry.logits is not None:
        moving.add(len(new) - 1)
    return all(i in moving or a == b for i, (a, b) in enumerate(zip(old, new)))


def base_of(name: str, outline: ModelOutline) -> Optional[str]:
    """The variable that a slot belongs to."""
    parts = name.split("/")
    for end in range(len(parts) - 1, 0, -1):
        base = "/".join(parts[:end])
        if base in outline.weights:
            return base
    return None
