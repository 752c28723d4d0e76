"""Objectives that are computed together, because their heads have the same settings.

    for group in groups_of(heads, batches):
        losses_of(group)                    # {objective: the loss of the batch}

Each op takes Python and TensorFlow longer to make, optimize and start than to run. So losses and
means of a batch are computed from the rows of all objectives of a group, one after the other. The
metrics of a group are a TensorFlow function, made once, which each objective calls with its rows.
So a metric of a group has the same value as the metric of an objective that is alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Optional

import tensorflow as tf

from estimator_kit.model.heads import streaming
from estimator_kit.model.heads.base import Batch, Head
from estimator_kit.model.heads.streaming import Metric, Sharing


class Group(NamedTuple):
    """Objectives by name, with their rows.

    Attributes:
      heads: heads with the same settings, by the name of the objective.
      batches: the rows of each.
    """

    heads: Mapping[str, Head]
    batches: Mapping[str, Batch]

    @property
    def name(self) -> str:
        """The first objective."""
        return next(iter(self.heads))

    @property
    def scope(self) -> str:
        """What TensorBoard shows: `click`, `click_and_buy`, or of many `click_and_49_more`."""
        first, *more = self.heads
        if len(more) > 2:
            return f"{first}_and_{len(more)}_more"
        return "_and_".join(self.heads)

    @property
    def head(self) -> Head:
        """A head that computes losses, means and predictions of all of them."""
        return self.heads[self.name]

    def rows(self) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Logits [objectives * rows, n], labels [objectives * rows, ...], weights [objectives,
        rows].
        """
        logits, labels, weights = zip(*(batch[:3] for batch in self.batches.values()))
        return tf.concat(logits, axis=0), tf.concat(labels, axis=0), tf.stack(weights)

    def by_row(self, values: tf.Tensor) -> tf.Tensor:
        """Values [objectives * rows] as [objectives, rows]."""
        return tf.reshape(values, [len(self.heads), -1])

    def named(self, values: tf.Tensor) -> dict[str, tf.Tensor]:
        """Values [objectives] by the name of the objective."""
        return dict(zip(self.heads, tf.unstack(values, num=len(self.heads))))


def alike(heads: Mapping[str, Head], forms: Mapping[str, Any]) -> list[list[str]]:
    """The names of objectives by group, in the order of the first objective of each.

    An objective is alone if its loss does not belong to single rows.

    Args:
      heads: the heads of the objectives.
      forms: what else the objectives of a group have in common.
    """
    groups: dict[Any, list[str]] = {}
    for name, head in heads.items():
        key: Any = name
        is_of_rows = type(head).losses_and_weights is Head.losses_and_weights
        if is_of_rows and "row_losses" not in vars(head):  # A Keras model sets its own loss there.
            settings = head.config.model_dump_json(exclude={"label", "loss_weight"})
            key = (type(head), settings, forms[name])
        groups.setdefault(key, []).append(name)
    return list(groups.values())


def form(value: Any) -> tuple[Any, ...]:
    """The type and shape of a row of a tensor, or another type."""
    if isinstance(value, tf.Tensor):
        return (value.dtype, *value.shape[1:].as_list())
    return (type(value),)


def groups_of(
    heads: Mapping[str, Head], batches: Mapping[str, Batch], *, apart: bool = False
) -> list[Group]:
    """The groups of objectives. With `apart`, each is alone. So is one that has groups of rows.

    Class words may differ: losses, means and metrics use ids.
    """
    forms = {
        name: name if apart or batch.group is not None else tuple(map(form, batch))
        for name, batch in batches.items()
    }
    return [
        Group({n: heads[n] for n in names}, {n: batches[n] for n in names})
        for names in alike(heads, forms)
    ]


def losses_of(group: Group) -> dict[str, tf.Tensor]:
    """The loss of the batch of each objective."""
    if len(group.heads) == 1:
        batch = group.batches[group.name]
        return {group.name: group.head.loss(*batch[:3], batch.group)}
    logits, labels, weights = group.rows()
    rows = group.by_row(group.head.row_losses(logits, labels))
    return group.named(
        streaming.reduced(
            streaming.sums(rows, weights),
            group.head.config.reduction,
            divide=tf.math.divide_no_nan,
        )
    )


def means_of(group: Group) -> dict[str, tf.Tensor]:
    """`Head.batch_means` of each objective, by `<mean>/<objective>`."""
    if len(group.heads) == 1:
        means = group.head.batch_means(*group.batches[group.name][:3])
        return {f"{key}/{group.name}": value for key, value in means.items()}
    logits, labels, weights = group.rows()
    values = group.head.mean_values(logits, labels)
    total = tf.reduce_sum(weights, axis=-1) if values else None
    result = {}
    for key, each in values.items():
        sums = tf.reduce_sum(group.by_row(each) * weights, axis=-1)
        for name, mean in group.named(tf.math.divide_no_nan(sums, total)).items():
            result[f"{key}/{name}"] = mean
    return result


Metrics = Callable[[Head, Batch], dict[str, Metric]]


def metrics_of(group: Group, metrics: Metrics) -> dict[str, dict[str, Metric]]:
    """The metrics of each objective.

    Args:
      group: objectives with the same settings.
      metrics: a function that makes the metrics of one objective. All of their variables are
        `streaming.Stored`.
    """
    if len(group.heads) == 1 or tf.executing_eagerly() or tf.distribute.has_strategy():
        result = {}
        for name, head in group.heads.items():
            with tf.compat.v1.variable_scope(f"metrics/{name}"):
                result[name] = metrics(head, group.batches[name])
        return result
    sharing = Sharing(len(group.heads))

    def traced(index: tf.Tensor, batch: Batch, *, updates: bool) -> dict[str, Metric]:
        tf.compat.v1.get_default_graph().clear_collection(streaming.COLLECTION)
        scope = tf.compat.v1.variable_scope(f"metrics/{group.scope}")
        with sharing.applied(index, updates=updates), scope:
            return metrics(group.head, batch)

    @tf.function(autograph=False)
    def add(index: tf.Tensor, *batch: Optional[tf.Tensor]) -> tf.Tensor:
        made = traced(index, Batch(*batch), updates=True)
        with tf.control_dependencies([update for _, update in made.values()]):
            return tf.constant(0)

    @tf.function(autograph=False)
    def values(index: tf.Tensor) -> Any:
        made = traced(index, _no_rows(group.batches[group.name]), updates=False)
        observed = streaming.take(tf.compat.v1.get_default_graph())
        kinds[:] = [each.kind for each in observed]
        return {n: value for n, (value, _) in made.items()}, [each.total for each in observed]

    kinds: list[str] = []  # Of what the metrics offer to observers, as soon as `values` is made.
    result = {}
    for number, name in enumerate(group.heads):
        with tf.name_scope(f"metrics/{name}"):
            index = tf.constant(number, tf.int64)
            update = add(index, *group.batches[name]).op
            of_objective, totals = values(index)
        for kind, total in zip(kinds, totals):
            streaming.observe(name, kind, total)
        result[name] = {key: (value, update) for key, value in of_objective.items()}
    return result


def _no_rows(batch: Batch) -> Batch:
    """A batch of the same form without rows, whose number the graph does not show."""

    def empty(tensor: tf.Tensor) -> tf.Tensor:
        sizes = tensor.shape[1:].as_list()
        none = tf.zeros([0, *(size or 0 for size in sizes)], tensor.dtype)
        return tf.raw_ops.PlaceholderWithDefault(input=none, shape=[None, *sizes])

    return Batch(*(each if each is None else empty(each) for each in batch))
