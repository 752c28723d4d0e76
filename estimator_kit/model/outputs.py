"""The predictions that a model adds with `ModelFn.add_output`.

    with outputs.collected() as added:
        logits = model.logits(...)         # calls outputs.add("Mine", "score", tensor)
    outputs.check_rows(added, features, logits)

Each is a tensor with one value, of any shape, for each row of the batch. `add` refuses what can be
seen at the call. `check_rows` compares the number of rows, as far as the graph shows it. A graph of
a fixed number of rows shows it for almost every tensor, so `checkpoints.model_outline.outline`
makes one before a training. This module does not know which names the kit has; `modes.prediction`
does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple, Optional

import tensorflow as tf

from estimator_kit.errors import ConfigError
from estimator_kit.model import user_code
from estimator_kit.model.collecting import Collector

_REMEDIES = {
    tf.RaggedTensor: "Use its to_tensor().",
    tf.SparseTensor: "Use tf.sparse.to_dense.",
    tf.Variable: "A variable has no rows.",
}


class Output(NamedTuple):
    """An added output: `add_output` with its place in the user's code, its name, and its tensor."""

    place: str
    name: str
    value: tf.Tensor


_ADDED = Collector[Output]("outputs")
collected = _ADDED.collected


def add(model: str, name: str, value: Any) -> None:
    """Adds an output to the block of `collected`.

    Raises:
      ConfigError: the call is outside of a block, the name is taken or no text, or the value is not
        a tensor of rows.
    """
    place = user_code.place_of_call(f"{model}.add_output")
    outputs = _ADDED.current(place)
    user_code.check_new_name(place, "output", name, [output.name for output in outputs])
    if not isinstance(value, tf.Tensor):
        kinds = (remedy for kind, remedy in _REMEDIES.items() if isinstance(value, kind))
        remedy = next(kinds, "Use a tensor that depends on the features.")
        raise ConfigError(
            f"{place}: expected a tensor [rows, ...] for {name!r}, got {value!r}. {remedy}"
        )
    user_code.check_graph(f"{place}: the tensor for {name!r}", [value])
    if value.shape.rank == 0:
        raise ConfigError(
            f"{place}: expected a value for each row for {name!r}, got one value, {value!r}. Use "
            "tf.fill([rows], value), where rows is the number of rows of the features."
        )
    outputs.append(Output(place, name, value))


def check_rows(
    outputs: Iterable[Output], features: Mapping[str, Any], logits: Iterable[tf.Tensor]
) -> None:
    """Raises ConfigError if an output has another number of rows than the batch."""
    batch = {_rows(value) for value in (*features.values(), *logits)} - {None}
    for place, name, value in outputs:
        rows = _rows(value)
        if rows is not None and rows not in batch:
            expected = ", ".join(map(str, batch)) or "the rows of the batch"
            raise ConfigError(
                f"{place}: expected one value for each row for {name!r}, got {value!r} with {rows} "
                f"rows instead of {expected}. Do not flatten or sum over rows, and do not add a "
                "constant."
            )


def check_rows_of_logits(features: Mapping[str, Any], logits: Iterable[tf.Tensor]) -> None:
    """Raises ConfigError if the graph shows that logits have other rows than the batch."""
    batch = {_rows(value) for value in features.values()} - {None}
    for value in logits:
        rows = _rows(value)
        if batch and rows is not None and rows not in batch:
            raise ConfigError(
                f"expected one row of logits for each row, got {value!r} with {rows} rows for a "
                f"batch of {', '.join(map(str, batch))}. Do not flatten or sum over rows."
            )


def check_names(outputs: Iterable[Output], reserved: Collection[str]) -> None:
    """Refuses an output that would replace one of the kit's predictions or signatures.

    Args:
      outputs: the outputs of a model.
      reserved: the names of the kit.
    """
    for place, name, _ in outputs:
        if name in reserved:
            raise ConfigError(
                f"{place}: got the output {name!r}, which the kit makes already. Use another name."
            )


def _rows(value: Any) -> Optional[int]:
    shape = value.shape
    return shape.as_list()[0] if shape.rank else None
