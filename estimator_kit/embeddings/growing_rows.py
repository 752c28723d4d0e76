"""The variables with a row for each id of a growing column, when a row changes its value.

    for rows in everything(tables):      # the tables, their optimizer's slots, their averages
        ops += rows.fill(freed)          # they start again
        if rows.follows:
            ops += rows.copy(buckets, new)

The slots and averages of a table are the variables below its name that have as many rows. Tables
may be in parts on several servers. This module does not know which value has which row.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import tensorflow as tf

from estimator_kit.errors import ConfigError

v1 = tf.compat.v1


class Rows:
    """A variable with a row for each id, or its parts.

    Attributes:
      follows: whether a new row starts as the row of its bucket; else it has its start value.
    """

    def __init__(
        self, parts: Sequence[Any], first: Sequence[int], *, follows: bool, start: Sequence[float]
    ):
        self._parts = parts
        self._first = first  # The first row of each part.
        self.follows = follows
        self._start = start

    def copy(self, rows: tf.Tensor, to: tf.Tensor) -> list[tf.Operation]:
        values = None
        for part, first in zip(self._parts, self._first):
            here, is_here = self._here(part, first, rows)
            own = tf.gather(part, tf.where(is_here, here, tf.zeros_like(here)))
            if values is None:
                values = own
            else:
                values = tf.where(
                    tf.reshape(is_here, [-1, *[1] * (part.shape.rank - 1)]), own, values
                )
        assert values is not None
        return [
            self._set(part, first, to, lambda mask, values=values: tf.boolean_mask(values, mask))
            for part, first in zip(self._parts, self._first)
        ]

    def fill(self, rows: tf.Tensor) -> list[tf.Operation]:
        """Gives rows their start value; 0 in tables, where a new value gets another one."""
        result = []
        for part, first, start in zip(self._parts, self._first, self._start):

            def values(mask: tf.Tensor, part: Any = part, start: float = start) -> tf.Tensor:
                number = tf.reduce_sum(tf.cast(mask, tf.int32))
                return tf.fill(tf.concat([[number], part.shape[1:]], 0), tf.cast(start, part.dtype))

            result.append(self._set(part, first, rows, values))
        return result

    def _here(self, part: Any, first: int, rows: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        here = rows - first
        return here, (here >= 0) & (here < part.shape[0])

    def _set(self, part: Any, first: int, rows: tf.Tensor, values: Any) -> tf.Operation:
        here, is_here = self._here(part, first, rows)
        return v1.scatter_update(part, tf.boolean_mask(here, is_here), values(is_here))


def _offset(part: Any) -> int:
    info = getattr(part, "_save_slice_info", None)
    return 0 if info is None else int(info.var_offset[0])


def everything(variables: Iterable[Any]) -> list[Rows]:
    """All variables with a row for each id: the tables, and what belongs to them."""
    everywhere: dict[str, list[Any]] = {}
    for variable in v1.global_variables():
        everywhere.setdefault(variable.op.name.rpartition("/")[0], []).append(variable)
    found = []
    for variable in variables:
        parts = list(variable) if hasattr(variable, "_variable_list") else [variable]
        first = [_offset(part) for part in parts]
        found.append(Rows(parts, first, follows=True, start=[0.0] * len(parts)))
        of_parts = [everywhere.get(part.op.name, []) for part in parts]
        for slots in zip(*(sorted(slots, key=lambda slot: slot.op.name) for slots in of_parts)):
            if slots[0].shape.rank and slots[0].shape[0] == parts[0].shape[0]:
                kind = slots[0].op.name.rpartition("/")[2]
                follows = kind.startswith(("Ftrl", "ExponentialMovingAverage"))
                start = [0.0 if follows else _start_of(slot) for slot in slots]
                found.append(Rows(slots, first, follows=follows, start=start))
    return found


def _start_of(slot: Any) -> float:
    """The number with which a slot of an optimizer starts, in all its places."""
    op = slot.initial_value.op
    while op.type == "Identity":
        op = op.inputs[0].op
    if op.type == "Fill":
        op = op.inputs[1].op
    if op.type == "Const":
        numbers = op.get_attr("value")
        values = [*numbers.float_val, *numbers.half_val, *numbers.double_val]
        if not numbers.tensor_content and len(values) <= 1:
            return float(values[0]) if values else 0.0
        array = tf.make_ndarray(numbers)
        if (array == array.flat[0]).all():
            return float(array.flat[0])
    if op.type in ("ZerosLike", "Zeros"):
        return 0.0
    raise ConfigError(
        f"the optimizer's slot {slot.op.name} does not start with one number, so the row of an "
        "evicted value cannot start again. Use another optimizer for tables of growing columns."
    )
