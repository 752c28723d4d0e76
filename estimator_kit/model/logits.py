"""Splits the logits that a model returns into one tensor per objective.

For an objective `next_item`, a model may return `StepScores`. Training and prediction use them
unchanged. For evaluation, `split_logits` replaces them by the scores of the last step.
"""

from __future__ import annotations

import collections
from collections.abc import Mapping, Sequence
from typing import Any, Union

import tensorflow as tf

from estimator_kit.errors import ConfigError
from estimator_kit.model import user_code
from estimator_kit.model.heads.base import Head
from estimator_kit.model.heads.next_item import NextItemHead
from estimator_kit.model.heads.steps import StepScores
from estimator_kit.model.places import input_places
from feature_specs.errors import nearest

Logits = Union[tf.Tensor, StepScores, Mapping[str, Union[tf.Tensor, StepScores]]]


def tensors_of(logits: Mapping[str, Any]) -> list[tf.Tensor]:
    """A tensor [rows, ...] of each objective: its logits, or the states of its StepScores."""
    return [v.hidden if isinstance(v, StepScores) else v for v in logits.values()]


def split_logits(
    model: str, logits: Logits, heads: Mapping[str, Head], *, factors: bool
) -> dict[str, Any]:
    """{objective: float32 [rows, its width]}, in the order of `heads`.

    Args:
      model: the name of the model, for messages.
      logits: float32 [rows, sum of widths], or one tensor per objective.
      heads: the heads of the objectives, by name.
      factors: whether StepScores stay as they are.

    Raises:
      ConfigError: the logits have a wrong shape, dtype or objective.
    """
    widths = {name: head.logits_dimension for name, head in heads.items()}
    items = {n: o.items for n, o in heads.items() if isinstance(o, NextItemHead)}
    if isinstance(logits, StepScores) and len(heads) == 1:
        logits = dict.fromkeys(heads, logits)
    named = logits if isinstance(logits, Mapping) else {", ".join(widths): logits}
    for name, value in named.items():
        if isinstance(value, StepScores) and name in items:
            continue
        if not isinstance(value, tf.Tensor) or value.dtype != tf.float32:
            raise ConfigError(
                f"{model}.logits returned {value!r} for {name}, expected a float32 tensor"
            )
    for name, value in named.items():
        user_code.check_graph(f"the tensor for {name}", tensors_of({name: value}))
    if isinstance(logits, Mapping):
        extra = [name for name in logits if name not in widths]
        if extra:
            raise ConfigError(
                f"{model}.logits returned logits for {', '.join(extra)}, but the spec has no such "
                f"objective{nearest(extra[0], widths) or '.'} Use one of: {', '.join(widths)}."
            )
        missing = [name for name in widths if name not in logits]
        if missing:
            raise ConfigError(
                f"{model}.logits returned no logits for {', '.join(missing)}, got logits for "
                f"{', '.join(logits) or 'nothing'}. Return logits for all objectives of the spec: "
                f"{', '.join(widths)}."
            )
        parts = {name: logits[name] for name in widths}
    else:
        assert isinstance(logits, tf.Tensor)  # Others were refused above.
        if logits.shape.rank != 2 or logits.shape[1] != sum(widths.values()):
            raise ConfigError(
                f"{model}.logits returned the shape {logits.shape}, expected "
                f"[rows, {sum(widths.values())}] for {', '.join(widths)}"
            )
        input_places.mark_logits(logits, widths)
        parts = dict(zip(widths, tf.split(logits, list(widths.values()), axis=1)))
    for name, part in parts.items():
        if isinstance(part, StepScores):
            parts[name] = part if factors else part.last(items[name])
        elif part.shape.rank != 2 or part.shape[1] != widths[name]:
            raise ConfigError(
                f"{model}.logits returned the shape {part.shape} for {name!r}, expected "
                f"[rows, {widths[name]}]"
            )
    if isinstance(logits, Mapping):
        times = collections.Counter(id(part) for part in parts.values())
        for name, part in parts.items():
            if isinstance(part, tf.Tensor) and times[id(part)] == 1:  # Or they share weights.
                input_places.mark_logits(part, {name: widths[name]})
    return parts


def check_rows(place: str, logits: Mapping[str, Any], label: Any) -> dict[str, Any]:
    """The logits, with a check in the graph that they have as many rows as a label of the batch.

    Raises:
      WrongRows: the graph shows that they have not.
    """
    ragged = isinstance(label, tf.RaggedTensor)
    rows = label.nrows(tf.int32) if ragged else tf.shape(label)[0]
    static_rows = label.shape.as_list()[0]
    tensors, texts = tensors_of(logits), []
    for name, tensor in zip(logits, tensors):
        text = f"{place}: expected one row of logits for {name!r} for each row of the batch"
        if not tensor.shape[:1].is_compatible_with([static_rows]):
            raise user_code.WrongRows(f"{text}, got {tensor!r} for a batch of {static_rows}.")
        texts.append(f"{user_code.CHECK}{text}, got")
    logits_rows = _rows(tensors)
    equal = tf.equal(logits_rows, rows)
    wrong = tf.argmin(tf.cast(equal, tf.int32))  # The first that differs.
    # tf.debugging.assert_equal adds twice as many ops.
    said = [tf.gather(texts, wrong), logits_rows[wrong], "rows for a batch of", rows]
    with tf.control_dependencies([tf.debugging.Assert(tf.reduce_all(equal), said)]):
        # tf.identity_n would join the gradients of objectives that share nothing.
        tensors = [tf.identity(tensor) for tensor in tensors]
    return {
        name: value._replace(hidden=tensor) if isinstance(value, StepScores) else tensor
        for (name, value), tensor in zip(logits.items(), tensors)
    }


def _rows(tensors: Sequence[tf.Tensor]) -> tf.Tensor:
    """The number of rows of each tensor [rows, ...]: int32 [tensors]."""
    shapes = [tf.shape(each) if each.shape.rank else tf.shape(each)[:1] for each in tensors]
    lengths = [int(shape.shape[0]) for shape in shapes]
    begins = [sum(lengths[:i]) for i in range(len(lengths))]
    return tf.gather(tf.concat(shapes, axis=0), begins)
