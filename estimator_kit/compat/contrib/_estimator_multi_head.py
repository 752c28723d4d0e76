"""multi_head of tf.contrib.estimator: heads with names, trained by the sum of their losses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

import tensorflow.compat.v1 as tf
from tensorflow_estimator.python.estimator.canned import head as head_lib

_DEFAULT = "serving_default"
_PREDICT = "predict"


def multi_head(heads: Sequence[Any], head_weights: Optional[Sequence[float]] = None) -> Any:
    """A head of `heads`, each of which has a name.

    Logits are a dict by name, or one tensor that is split. Labels are a dict by name. Predictions
    have the keys (name of the head, key).

    Args:
      head_weights: the factor of each head's loss; 1 if None.
    """
    if head_weights and len(head_weights) != len(heads):
        raise ValueError(
            f"heads and head_weights must have the same size. Given len(heads): {len(heads)}. "
            f"Given len(head_weights): {len(head_weights)}."
        )
    if not heads:
        raise ValueError(f"Must specify heads. Given: {heads}")
    for head in heads:
        if not head.name:
            raise ValueError(f"All given heads must have name specified. Given: {head}")
    return _MultiHead(heads, head_weights or [1.0] * len(heads))


class _MultiHead(head_lib._Head):
    def __init__(self, heads: Sequence[Any], weights: Sequence[float]) -> None:
        self._heads, self._weights = tuple(heads), tuple(weights)

    @property
    def name(self) -> str:
        return "_".join(head.name for head in self._heads)

    @property
    def logits_dimension(self) -> int:
        return sum(head.logits_dimension for head in self._heads)

    def _by_head(self, logits: Any) -> Any:
        if isinstance(logits, dict):
            return logits
        logits = tf.convert_to_tensor(logits)
        sizes = [head.logits_dimension for head in self._heads]
        if logits.shape.as_list()[-1] not in (None, sum(sizes)):
            raise ValueError(
                f"Could not split logits of shape {logits.shape.as_list()} among the heads with "
                f"individual logits dimensions: {sizes}. The last dimension of the logits tensor "
                f"should equal {sum(sizes)} but is {logits.shape.as_list()[-1]}."
            )
        parts = tf.split(logits, sizes, axis=-1)
        return {head.name: part for head, part in zip(self._heads, parts)}

    def _sum(self, losses: Sequence[Any]) -> Any:
        with tf.name_scope("merge_losses"):
            return tf.add_n([loss * weight for loss, weight in zip(losses, self._weights)])

    def create_loss(self, features: Any, mode: Any, logits: Any, labels: Any) -> Any:
        logits = self._by_head(logits)
        losses = {
            head.name: head.create_loss(features, mode, logits[head.name], labels[head.name])
            for head in self._heads
        }
        weights = dict(zip(losses, self._weights))
        return head_lib.LossSpec(
            training_loss=self._sum([loss.training_loss for loss in losses.values()]),
            unreduced_loss={n: loss.unreduced_loss * weights[n] for n, loss in losses.items()},
            weights={n: loss.weights * weights[n] for n, loss in losses.items()},
            processed_labels={n: loss.processed_labels for n, loss in losses.items()},
        )

    def create_estimator_spec(
        self,
        features: Any,
        mode: Any,
        logits: Any,
        labels: Any = None,
        optimizer: Any = None,
        train_op_fn: Any = None,
        regularization_losses: Any = None,
    ) -> Any:
        logits = self._by_head(logits)
        if labels is not None and not isinstance(labels, dict):
            raise ValueError(f"labels must be a dict. Given: {labels}")
        specs = {
            head.name: head.create_estimator_spec(
                features=features,
                mode=mode,
                logits=logits[head.name],
                labels=labels[head.name] if labels else None,
                train_op_fn=lambda loss: tf.no_op(),
            )
            for head in self._heads
        }
        predictions = {
            (name, key): value
            for name, spec in specs.items()
            for key, value in spec.predictions.items()
        }
        if mode == tf.estimator.ModeKeys.PREDICT:
            return tf.estimator.EstimatorSpec(mode, predictions, export_outputs=_exports(specs))
        loss = self._sum([spec.loss for spec in specs.values()])
        if regularization_losses:
            loss += tf.add_n(regularization_losses)
        if mode == tf.estimator.ModeKeys.EVAL:
            metrics: dict[str, Any] = {}
            for name, spec in specs.items():
                metrics[f"loss/{name}"] = tf.metrics.mean(spec.loss, name=f"loss/{name}")
                metrics.update(spec.eval_metric_ops or {})
            return tf.estimator.EstimatorSpec(mode, predictions, loss, eval_metric_ops=metrics)
        train_op = minimize(loss, optimizer, train_op_fn)
        with tf.name_scope(""):
            tf.summary.scalar("loss", loss)
        return tf.estimator.EstimatorSpec(mode, predictions, loss, train_op)


def _exports(specs: dict[str, Any]) -> dict[str, Any]:
    """Each head's outputs under its name; the first head's default output is the default."""
    made = {_DEFAULT: next(iter(specs.values())).export_outputs[_DEFAULT]}
    together: dict[str, Any] = {}
    for name, spec in specs.items():
        for key, output in spec.export_outputs.items():
            made[name if key == _DEFAULT else f"{name}/{key}"] = output
            if key == _PREDICT:
                together.update({f"{name}/{k}": value for k, value in output.outputs.items()})
    made[_PREDICT] = tf.estimator.export.PredictOutput(together)
    return made


def minimize(loss: Any, optimizer: Any, train_op_fn: Any) -> Any:
    """The training operation, from exactly one of an optimizer and a function."""
    if (optimizer is None) == (train_op_fn is None):
        given = "None" if optimizer is None else "set"
        raise ValueError(f"train_op_fn and optimizer cannot both be {given}.")
    if optimizer is not None:
        return optimizer.minimize(loss, global_step=tf.train.get_global_step())
    return train_op_fn(loss)
