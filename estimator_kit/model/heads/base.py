"""The base class of objectives, which turn logits into a loss, metrics and predictions.

An objective (tf.estimator calls it a head) is made from an entry of `objectives` in the spec. Its
only variables are the sums of its metrics, so it stores nothing in a checkpoint. One exception is
the head `next_item` with `negatives: in_batch` or `mixed`, which stores how often it has seen each
item.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, NamedTuple, Optional, TypeVar

import tensorflow as tf
from numpy.typing import NDArray

from estimator_kit.model.heads import streaming
from estimator_kit.model.heads.row_metrics import RowMetric
from estimator_kit.model.heads.streaming import Metric, ratio, streaming_sum
from feature_specs.heads.metrics import MetricChoice
from feature_specs.spec import FeatureSpec

_Value = TypeVar("_Value")

Link = Optional[tuple[str, Callable[[tf.Tensor], tf.Tensor]]]
RowMetrics = dict[str, Callable[[Any, Any, Any], RowMetric]]


def closed(names: Iterable[str], table: dict[str, _Value]) -> dict[str, _Value]:
    """A table that has an entry for each name, and no other. Raises TypeError otherwise."""
    wrong = set(names) ^ set(table)
    if wrong:
        raise TypeError(f"only the names or only the table have: {', '.join(sorted(wrong))}")
    return table


class Batch(NamedTuple):
    """The rows from which an evaluation updates the metrics of a head.

    Attributes:
      logits: float32 [rows, logits_dimension].
      labels: [rows], or float32 [rows, n] if a label is a vector or several classes.
      weights: float32 [rows]. 0 masks the row.
      true_probability: float32 [rows], if the data contain it.
      group: int64 [rows], the hash of each row's group, or -1 for no group. Only with `group_by` in
        the spec.
      seen: int64 [rows, steps], the items of the steps, if the head reads them.
    """

    logits: tf.Tensor
    labels: tf.Tensor
    weights: tf.Tensor
    true_probability: Optional[tf.Tensor] = None
    group: Optional[tf.Tensor] = None
    seen: Optional[tf.Tensor] = None


class Head(abc.ABC):
    """One objective of a model.

    Override `row_losses` (including penalties), `predictions`, `metrics` and `export_outputs`. If
    the loss does not belong to single rows, override `losses_and_weights` instead of `row_losses`.

    Args:
      spec: the feature spec.
      name: the name of the entry under `objectives`.

    Attributes:
      logits_output: the prediction that contains the logits. The predictions of an export are
        therefore enough to compute the loss and the metrics.
    """

    logits_output: str = "logits"

    # The last op of a Keras output that contains predictions instead of logits, and its function.
    # None if the head has no such function.
    link: ClassVar[Link] = None

    # The formulas of `HeadEntry.judged_by` and of the first metric of `HeadEntry.main`: functions
    # of labels, outputs and weights. See `row_metrics`.
    row_metrics: ClassVar[RowMetrics] = {}

    @classmethod
    def for_entry(cls, entry: Any) -> type[Head]:
        """The class for an entry with this head. Override it if options need another class."""
        return cls

    @classmethod
    def judged_labels(cls, entry: Any, labels: NDArray[Any]) -> NDArray[Any]:
        """Labels of an evaluation as `row_metrics` expect them: [rows], or [rows, n]."""
        return labels[:, 0] if entry.label_parts else labels

    def __init__(self, spec: FeatureSpec, name: str):
        self.name = name
        self.label_name = spec.label_of(name)
        self.label = spec.labels[self.label_name]
        # The spec entry, an instance of the class of its head.
        self.config: Any = spec.objectives[name]
        self.chosen: tuple[MetricChoice, ...] = self.config.metric_choices()

    @property
    def logits_dimension(self) -> int:
        return int(self.config.logits_dimension)

    def in_units(self, logits: tf.Tensor) -> tf.Tensor:
        """The logits of the head, float32 [rows, logits_dimension], from the output of a model."""
        return logits

    def row_losses(self, logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """float32 [rows] from logits float32 [rows, logits_dimension] and labels [rows].

        The labels of heads with several values are float32 [rows, n].
        """
        raise NotImplementedError(f"{type(self).__name__} has no loss of single rows")

    @abc.abstractmethod
    def predictions(self, logits: tf.Tensor) -> dict[str, tf.Tensor]:
        """The outputs of prediction and serving, with the names of canned estimators."""

    @abc.abstractmethod
    def metrics(self, batch: Batch) -> dict[str, Metric]:
        """Streaming metrics by name, without the name of the objective.

        They are the default metrics of the head and the `metrics` of the spec (`self.chosen`).
        """

    @abc.abstractmethod
    def export_outputs(self, predictions: dict[str, tf.Tensor]) -> dict[str, Any]:
        """The signatures in addition to `predict`: `{"classify" or "regress": ExportOutput}`.

        Empty if the predictions of the head fit neither.
        """

    def more_outputs(
        self, logits: Any, predictions: dict[str, tf.Tensor], features: Mapping[str, Any]
    ) -> dict[str, Any]:
        """More signatures, which also need logits or features: `{method: ExportOutput}`."""
        return {}

    def losses_and_weights(
        self,
        logits: tf.Tensor,
        labels: tf.Tensor,
        weights: tf.Tensor,
        group: Optional[tf.Tensor] = None,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """The losses and weights to reduce: float32 [n] and [n]. By default one per row.

        `Batch` describes the arguments.
        """
        return self.row_losses(logits, labels), weights

    def loss(
        self,
        logits: tf.Tensor,
        labels: tf.Tensor,
        weights: tf.Tensor,
        group: Optional[tf.Tensor] = None,
    ) -> tf.Tensor:
        """The loss of a batch, with the `reduction` of the spec (see `streaming.reduced`).

        It is 0 if all weights of the batch are 0. `Batch` describes the arguments.
        """
        parts = streaming.sums(*self.losses_and_weights(logits, labels, weights, group))
        return streaming.reduced(parts, self.config.reduction, divide=tf.math.divide_no_nan)

    def mean_values(self, logits: tf.Tensor, labels: tf.Tensor) -> dict[str, tf.Tensor]:
        """float32 [rows]. Training shows their weighted means, as evaluation does.

        The keys are names of metrics: `label_mean` and `prediction_mean`. Empty for heads whose
        labels and predictions have no mean. `Batch` describes the arguments.
        """
        return {}

    def batch_means(
        self, logits: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """The weighted means of `mean_values` over a batch, 0 if all weights are 0."""
        values_by_name = self.mean_values(logits, labels)
        total = tf.reduce_sum(weights) if values_by_name else None
        return {
            name: tf.math.divide_no_nan(tf.reduce_sum(values * weights), total)
            for name, values in values_by_name.items()
        }

    def chooses(self, name: str) -> bool:
        """Whether the spec asks for a metric."""
        return any(chosen.name == name for chosen in self.chosen)

    def _mean_metrics(self, values: dict[str, tf.Tensor], weights: tf.Tensor) -> dict[str, Metric]:
        """Weighted means of float32 [rows], in one streaming sum.

        `values` must contain `loss`, which is reduced as in training. The result also has
        `weight_sum`.
        """
        weights = tf.cast(weights, tf.float64)
        losses = tf.cast(values["loss"], tf.float64)
        others = {name: value for name, value in values.items() if name != "loss"}
        sums = [streaming.sums(losses, weights)]
        if others:
            rows = tf.cast(tf.stack(list(others.values()), axis=1), tf.float64)
            sums.append(tf.reduce_sum(rows * weights[:, tf.newaxis], axis=0))
        totals, update = streaming_sum(tf.concat(sums, axis=0), "means")
        loss = streaming.reduced(totals[:4], self.config.reduction, divide=ratio)
        weight_sum = totals[1]
        metrics = {"loss": (loss, update)}
        if others:
            means = tf.unstack(ratio(totals[4:], weight_sum), num=len(others))
            metrics.update((name, (mean, update)) for name, mean in zip(others, means))
        return {**metrics, "weight_sum": (weight_sum, update)}
