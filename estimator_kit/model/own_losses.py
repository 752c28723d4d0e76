"""The losses that a model adds (`ModelFn.add_loss`, and the graph's LOSSES) or computes itself.

    with collected() as of_rows:
        model.logits(...)                      # calls add("Mine", "reconstruction", losses)
    added = of_logits("Mine", of_rows)
    added.weighted(weights, padding)           # {"reconstruction": (losses, weights)}, flat

Losses of rows are reduced as the losses of the objectives are, in training over the rows of a
batch and in evaluation over all rows. `tf.compat.v1.losses` puts the loss of a batch into the
collection LOSSES. What `logits` puts there is added, too, as `tf.compat.v1.losses.get_total_loss`
does. An evaluation can only average it over batches. What other methods put there without using it
is refused.

`ModelFn.example_losses` returns losses of rows in the place of the losses of heads. Training and
evaluation reduce them with the `reduction` of the objective, as they do with the losses of a head.
With the losses 1 and 3, the weights 1 and 0.5 and the reduction `mean`, the loss is (1 + 1.5) / 1.5
= 1.667.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Optional, Union

import tensorflow as tf

from estimator_kit.errors import ConfigError
from estimator_kit.model import operations, user_code
from estimator_kit.model.collecting import Collector
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
    weighted_losses = {}
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
        weighted_losses[name] = _flat(place, name, losses, weights[name] if own is None else own)
    return weighted_losses


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


def example_loss(head: Head, rows: Weighted) -> tf.Tensor:
    """The loss of a batch; 0 if all its weights are 0."""
    parts = streaming.sums(*rows)
    return streaming.reduced(parts, head.config.reduction, divide=tf.math.divide_no_nan)


def example_metric(head: Head, rows: Weighted) -> Metric:
    """The loss over all rows of an evaluation; NaN if all weights are 0."""
    losses, weights = (tf.cast(value, tf.float64) for value in rows)
    with tf.compat.v1.variable_scope(f"metrics/{head.name}"):
        totals, update = streaming_sum(streaming.sums(losses, weights), "example_losses")
    return streaming.reduced(totals, head.config.reduction, divide=ratio), update


# The prefix of the names of metrics and summaries.
ADDED_LOSS = "added_loss"


class _Loss(NamedTuple):
    """The losses of rows by a name, their own weights if any, and the place of the call."""

    place: str
    name: str
    losses: tf.Tensor
    weights: Optional[tf.Tensor]


_ADDED = Collector[_Loss]("added losses")
collected = _ADDED.collected


@dataclasses.dataclass(frozen=True)
class Added:
    """The losses that `logits` added.

    Attributes:
      of_rows: the losses of `add_loss`.
      of_batch: the losses in LOSSES, one number each.
    """

    of_rows: Sequence[_Loss]
    of_batch: Sequence[tf.Tensor]

    @property
    def names(self) -> frozenset[str]:
        """The names of losses of rows, and numbers of losses of a batch, to compare modes."""
        numbers = (f"number {i} in GraphKeys.LOSSES" for i in range(len(self.of_batch)))
        return frozenset(loss.name for loss in self.of_rows).union(numbers)

    def weighted(
        self, weights: Mapping[str, tf.Tensor], padding: Optional[tf.Tensor]
    ) -> dict[str, Weighted]:
        """The losses of rows and their weights, float32 [rows] each, by name.

        Args:
          weights: the weights of the rows by objective. The largest of them is the weight of a row
            if the model gave none.
          padding: whether the batch is padding, or None.
        """
        if not self.of_rows:
            return {}  # Without a new op, random ops that are made later keep their seeds.
        flat = [w if w.shape.rank == 1 else tf.reduce_max(w, axis=1) for w in weights.values()]
        largest = tf.reduce_max(tf.stack(flat), axis=0)
        result = {}
        for place, name, losses, own in self.of_rows:
            chosen = largest if own is None else tf.reshape(own, [-1])
            if padding is not None:
                chosen = tf.where(padding, tf.zeros_like(chosen), chosen)
            losses = tf.reshape(losses, [-1])
            text = f"{place}: expected one loss and one weight for each row for {name!r}"
            for each in (losses, chosen):
                if not each.shape.is_compatible_with(largest.shape):
                    raise user_code.WrongRows(f"{text}, got {each!r}. Do not reduce the losses.")
            shapes = [[tf.shape(losses), tf.shape(chosen)], [tf.shape(largest)] * 2]
            with tf.control_dependencies([user_code.equal_shapes(f"{text}, got", *shapes)]):
                result[name] = tf.identity(losses), chosen
        return result


def add(model: str, name: str, losses: Any, weights: Any) -> None:
    """Adds losses of rows to the block of `collected`.

    Raises:
      ConfigError: the call is outside of a block, the name is taken or no text, or a value is not
        a tensor of rows.
    """
    place = user_code.place_of_call(f"{model}.add_loss")
    added = _ADDED.current(place)
    user_code.check_new_name(place, "loss", name, [other.name for other in added])
    for value in (losses,) if weights is None else (losses, weights):
        shape = value.shape if isinstance(value, tf.Tensor) and value.dtype == tf.float32 else ()
        if isinstance(shape, tuple) or not (shape.rank in (1, None) or shape[1:] == [1]):
            raise ConfigError(
                f"{place}: expected a number for each row for {name!r}, float32 [rows], got "
                f"{value!r}. Do not reduce the losses, since the kit weights each row."
            )
        user_code.check_graph(f"{place}: the tensor for {name!r}", [value])
    if weights is not None:
        weights = user_code.checked_weights(f"{place}: the weights of {name!r}", weights)
    added.append(_Loss(place, name, losses, weights))


def of_logits(model: str, of_rows: Sequence[_Loss]) -> Added:
    """The losses that `logits` added, with `add_loss` or to the graph's LOSSES.

    Raises:
      ConfigError: a loss in LOSSES is not one number.
    """
    of_batch = [loss for loss in tf.compat.v1.losses.get_losses() if _is_of_this_replica(loss)]
    for loss in of_batch:
        if not isinstance(loss, tf.Tensor) or loss.shape.rank != 0:
            raise ConfigError(
                f"{model}.logits: expected one number for each loss in tf.GraphKeys.LOSSES, got "
                f"{loss!r}. Use self.add_loss(name, losses) for the losses of rows."
            )
    return Added(of_rows, of_batch)


def _is_of_this_replica(loss: Any) -> bool:
    """False for a loss of another replica of a mirrored strategy. All build the same graph."""
    replica = tf.distribute.get_replica_context()
    if replica is None or replica.num_replicas_in_sync < 2 or not isinstance(loss, tf.Tensor):
        return True
    # Replicas have the name scopes "", "replica_1", "replica_2", ...
    scopes = tf.compat.v1.get_default_graph().get_name_scope(), loss.op.name
    own, other = (re.match(r"replica_\d+(?=/|$)", scope) for scope in scopes)
    return (own and own[0]) == (other and other[0])


def check_used(model: str, added: Added, losses: Sequence[tf.Tensor]) -> None:
    """Refuses a loss that another method than `logits` put into LOSSES and does not use.

    Args:
      model: the name of the model.
      added: the losses that `logits` added.
      losses: the losses that training minimizes.
    """
    before = {id(loss) for loss in added.of_batch}
    listed = filter(_is_of_this_replica, tf.compat.v1.losses.get_losses())
    later = [loss for loss in listed if id(loss) not in before]
    if not later:
        return
    used = {op.name for op in operations.needed(losses)}
    for loss in later:
        if loss.op.name not in used:
            raise ConfigError(
                f"{model}: the loss {loss.name} is in tf.GraphKeys.LOSSES, but the model does not "
                "use it, so it would have no effect. Return it, or use self.add_loss in logits."
            )


def reduction(heads: Mapping[str, Head]) -> str:
    """The reduction of added losses: the objectives' if all have the same, or `mean`."""
    names = {head.config.reduction for head in heads.values()}
    return names.pop() if len(names) == 1 else "mean"


def loss(rows: Weighted, kind: str) -> tf.Tensor:
    """The loss of a batch; 0 if all its weights are 0."""
    return streaming.reduced(streaming.sums(*rows), kind, divide=tf.math.divide_no_nan)


def metric(rows: Weighted, kind: str) -> tuple[Metric, tf.Tensor]:
    """The loss over all rows of an evaluation, NaN without weight; and the same with 0 for that."""
    losses, weights = (tf.cast(value, tf.float64) for value in rows)
    totals, update = streaming_sum(streaming.sums(losses, weights), "added_loss")
    value = streaming.reduced(totals, kind, divide=ratio)
    return (value, update), streaming.reduced(totals, kind, divide=tf.math.divide_no_nan)
