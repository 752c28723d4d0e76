"""The losses of rows that a model computes itself, in the place of the losses of its heads.

`ModelFn.example_losses` returns them. Training and evaluation reduce them with the `reduction` of
the objective, as they do with the losses of a head. With the losses 1 and 3, the weights 1 and 0.5
and the reduction `mean`, the loss is (1 + 1.5) / 1.5 = 1.667. It never looks at logits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Union

import tensorflow as tf

from estimator_kit.errors import ConfigError
from estimator_kit.model import user_code
from estimator_kit.model.heads import Head, streaming
from estimator_kit.model.heads.streaming import Metric, ratio, streaming_sum
from feature_specs.errors import nearest

# By objective, the losses, or the losses and their weights.
ExampleLosses = Mapping[str, Union[tf.Tensor, tuple[tf.Tensor, tf.Tensor]]]

# (losses, weights), float32 [n] each.
Weighted = tuple[tf.Tensor, tf.Tensor]


def checked(
    place: str,
    returned: Any,
    heads: Mapping[str, Head],
    labels: Mapping[str, tf.Tensor],
    weights: Mapping[str, tf.Tensor],
) -> dict[str, Weighted]:
    """The losses with their weights, both flat, by objective.

    Args:
      place: the file, line, class and method, for messages.
      returned: what `ModelFn.example_losses` returned.
      heads: the heads of the objectives, by name.
      labels: the labels by name. Only a label with several values can have losses [rows, n].
      weights: the weights of the rows by objective, which count if the model returns none.

    Raises:
      ConfigError: an objective does not exist, or a value has a wrong shape or dtype.
      WrongRows: the graph shows that there are more or fewer losses than weights.
      tf.errors.InvalidArgumentError (in the graph): there are more or fewer losses than weights, or
        a weight is below 0.
    """
    if not isinstance(returned, Mapping):
        raise ConfigError(
            f"{place}: expected {{objective: losses}}, got {returned!r}. Return a dict."
        )
    found = {}
    for name, value in returned.items():
        if name not in heads:
            raise ConfigError(
                f"{place}: the spec has no objective {name!r}{nearest(name, heads) or '.'} "
                f"Use one of: {', '.join(heads)}."
            )
        losses, own = value if isinstance(value, tuple) and len(value) == 2 else (value, None)
        for each in (losses,) if own is None else (losses, own):
            if not isinstance(each, tf.Tensor) or each.dtype != tf.float32 or each.shape.rank == 0:
                raise ConfigError(
                    f"{place}: expected a loss for each row of {name!r}, float32 [rows], got "
                    f"{each!r}. Do not reduce the losses, since the kit weights each row."
                )
            user_code.check_graph(f"{place}: the tensor for {name!r}", [each])
        if losses.shape.rank == 2 and losses.shape[1] != 1 and own is None:
            if labels[heads[name].label_name].shape.rank == 1:
                raise ConfigError(
                    f"{place}: expected a loss for each row of {name!r}, float32 [rows], got "
                    f"{losses!r}. A label [rows] and logits [rows, 1] make losses [rows, rows]: "
                    "take logits[:, 0]."
                )
        if own is not None:
            own = user_code.checked_weights(f"{place}: the weights of {name!r}", own)
        found[name] = _flat(place, name, losses, weights[name] if own is None else own)
    return found


def _flat(place: str, name: str, losses: tf.Tensor, weights: tf.Tensor) -> Weighted:
    if losses.shape.rank == 2 and weights.shape.rank == 1:  # A weight for all steps of a row.
        weights = weights[:, tf.newaxis] * tf.ones_like(losses)
    text = f"{place}: the losses of {name!r} do not have the shape of their weights"
    if not losses.shape.is_compatible_with(weights.shape):
        raise user_code.WrongRows(
            f"{text}, got {losses!r} and {weights!r}. Return one loss for each row."
        )
    shapes = tf.shape(losses), tf.shape(weights)
    with tf.control_dependencies([user_code.equal_shapes(f"{text}, got", *shapes)]):
        return tf.reshape(losses, [-1]), tf.reshape(weights, [-1])


def loss(head: Head, rows: Weighted) -> tf.Tensor:
    """The loss of a batch; 0 if all its weights are 0."""
    parts = streaming.sums(*rows)
    return streaming.reduced(parts, head.config.reduction, divide=tf.math.divide_no_nan)


def metric(head: Head, rows: Weighted) -> Metric:
    """The loss over all rows of an evaluation; NaN if all weights are 0."""
    losses, weights = (tf.cast(value, tf.float64) for value in rows)
    with tf.compat.v1.variable_scope(f"metrics/{head.name}"):
        totals, update = streaming_sum(streaming.sums(losses, weights), "example_losses")
    return streaming.reduced(totals, head.config.reduction, divide=ratio), update
