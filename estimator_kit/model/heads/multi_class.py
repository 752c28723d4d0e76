"""The heads of exclusive classes: `multi_class`, from n logits, and `ordinal`, cumulative ones.

`ordinal` is from McCullagh, "Regression Models for Ordinal Data", 1980. The distances between the
thresholds are logits of each row, because a head has no variables. The streamed confusion matrix is
float64 [n, n], with one row per label and one column per prediction.
"""

from __future__ import annotations

from typing import Any, ClassVar

import tensorflow as tf

from estimator_kit.model.heads import class_metrics, losses, row_metrics
from estimator_kit.model.heads.base import Batch, Head, Link, RowMetrics
from estimator_kit.model.heads.class_metrics import class_names, classification
from estimator_kit.model.heads.streaming import Metric, also_updating, observe, ratio, streaming_sum


def confusion_matrix(
    labels: tf.Tensor, predictions: tf.Tensor, weights: tf.Tensor, classes: int
) -> tf.Tensor:
    """The weight of each pair of label and prediction in a batch: float64 [classes, classes]."""
    pairs = tf.math.unsorted_segment_sum(
        tf.cast(weights, tf.float64), labels * classes + predictions, classes * classes
    )
    return tf.reshape(pairs, [classes, classes])


def mean_iou(matrix: tf.Tensor) -> tf.Tensor:
    """The mean of hits / (labels + predictions - hits) over the classes that occur.

    This is intersection over union, or the Jaccard index. A class occurs if it is a label or a
    prediction. For [[1, 1], [0, 2]] it is (1/2 + 2/3) / 2 = 0.5833.
    """
    hits, labels, predictions = _margins(matrix)
    return _mean(hits, labels + predictions - hits)


def macro_f1(matrix: tf.Tensor) -> tf.Tensor:
    """The mean of F1, 2 hits / (labels + predictions), over the classes that occur.

    For [[1, 1], [0, 2]] it is (2/3 + 4/5) / 2 = 0.7333.
    """
    hits, labels, predictions = _margins(matrix)
    return _mean(2 * hits, labels + predictions)


def _margins(matrix: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    labels, predictions = tf.reduce_sum(matrix, axis=1), tf.reduce_sum(matrix, axis=0)
    return tf.linalg.diag_part(matrix), labels, predictions


def _mean(numerators: tf.Tensor, denominators: tf.Tensor) -> tf.Tensor:
    values = tf.math.divide_no_nan(numerators, denominators)
    occur = tf.cast(denominators > 0, tf.float64)
    return ratio(tf.reduce_sum(values * occur), tf.reduce_sum(occur))


# A matrix of more classes is more than a picture can show.
MOST_CLASSES_OF_A_MATRIX = 50


class MultiClassHead(Head):
    """n exclusive classes from n logits.

    The default loss is softmax cross-entropy. `class_penalties` multiplies the loss of the rows of
    each class by a factor: for a class with the penalty 5, three equal logits cost 5 log 3 =
    5.4931. Penalties are not weights: `mean` divides only by the weights.

    Predictions: logits and probabilities, float32 [rows, n]; class_ids, int64 [rows, 1]; classes,
    string [rows, 1].
    """

    link: ClassVar[Link] = ("Softmax", tf.nn.softmax)
    row_metrics: ClassVar[RowMetrics] = {
        "accuracy": row_metrics.accuracy,
        "log_loss": row_metrics.class_log_loss,
    }

    def row_losses(self, logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        return self.class_losses(logits, labels)

    def class_losses(self, logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """The losses of the rows, from logits [rows, n] of a softmax."""
        rows = losses.class_losses(self.config.loss, logits, labels)
        if self.config.class_penalties is not None:
            rows *= tf.gather(tf.constant(self.config.class_penalties, tf.float32), labels)
        return rows

    def predictions(self, logits: tf.Tensor) -> dict[str, tf.Tensor]:
        return self.of_classes(logits)

    def of_classes(self, logits: tf.Tensor) -> dict[str, tf.Tensor]:
        """The predictions, from logits [rows, n] of a softmax."""
        class_ids = tf.argmax(logits, axis=1)[:, tf.newaxis]
        return {
            "logits": logits,
            "probabilities": tf.nn.softmax(logits),
            "class_ids": class_ids,
            "classes": tf.gather(class_names(self.label, self.config.num_classes), class_ids),
        }

    def metrics(self, batch: Batch) -> dict[str, Metric]:
        logits, labels, weights = batch[:3]
        return self.class_metrics(logits, labels, weights, self.row_losses(logits, labels))

    def class_metrics(
        self, logits: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor, row_losses: tf.Tensor
    ) -> dict[str, Metric]:
        """The metrics, from logits [rows, n] of a softmax and the losses [rows] of training."""
        guesses = tf.argmax(logits, axis=1)
        hits = tf.cast(tf.equal(guesses, labels), tf.float32)
        means = {"loss": row_losses, "accuracy": hits}
        for chosen in self.chosen:
            if chosen.name == "log_loss":
                means["log_loss"] = losses.softmax_cross_entropy(logits, labels)
            elif chosen.name == "top_k_accuracy":
                means[chosen.label] = _in_top(logits, labels, int(chosen.value or 1))
        metrics = self._mean_metrics(means, weights)
        if self.chooses("expected_calibration_error"):
            surest = tf.reduce_max(tf.nn.softmax(logits), axis=1)
            metrics["expected_calibration_error"] = class_metrics.expected_calibration_error(
                surest, hits, weights
            )
        metrics.update(self._of_matrix(labels, guesses, weights))
        return also_updating(metrics, self._observe(labels, guesses, weights, hits))

    def _observe(
        self, labels: tf.Tensor, guesses: tf.Tensor, weights: tf.Tensor, hits: tf.Tensor
    ) -> tf.Operation:
        """Offers the confusion of few classes, or the labels, predictions and hits of many."""
        classes = self.config.num_classes
        if classes <= MOST_CLASSES_OF_A_MATRIX:
            kind, batch = "confusion", confusion_matrix(labels, guesses, weights, classes)
        else:
            rows = ((weights, labels), (weights, guesses), (weights * hits, labels))
            sums = [tf.math.unsorted_segment_sum(w, ids, classes) for w, ids in rows]
            kind, batch = "by_class", tf.stack(sums)
        totals, update = streaming_sum(batch, kind)
        observe(self.name, kind, totals)
        return update

    def _of_matrix(
        self, labels: tf.Tensor, guesses: tf.Tensor, weights: tf.Tensor
    ) -> dict[str, Metric]:
        names = [name for name in ("f1", "mean_iou", "confusion") if self.chooses(name)]
        if not names:
            return {}
        classes = self.config.num_classes
        matrix, update = streaming_sum(
            confusion_matrix(labels, guesses, weights, classes), "confusion"
        )
        values: dict[str, tf.Tensor] = {}
        if "f1" in names:
            values["f1"] = macro_f1(matrix)
        if "mean_iou" in names:
            values["mean_iou"] = mean_iou(matrix)
        if "confusion" in names:
            for i in range(classes):
                for j in range(classes):
                    values[f"label_{i}_predicted_{j}"] = matrix[i, j]
        return {name: (value, update) for name, value in values.items()}

    def export_outputs(self, predictions: dict[str, tf.Tensor]) -> dict[str, Any]:
        return {"classify": classification(self.label, predictions["probabilities"])}


def _in_top(logits: tf.Tensor, labels: tf.Tensor, k: int) -> tf.Tensor:
    """1 if fewer than k classes have a larger logit than the label, or an equal one before it."""
    own = tf.gather(logits, labels, axis=1, batch_dims=1)[:, tf.newaxis]
    earlier = tf.range(logits.shape[1], dtype=tf.int64) < labels[:, tf.newaxis]
    ahead = (logits > own) | (tf.equal(logits, own) & earlier)
    return tf.cast(tf.math.count_nonzero(ahead, axis=1) < k, tf.float32)


def class_log_probabilities(logits: tf.Tensor) -> tf.Tensor:
    """log P(y = k): float32 [rows, n] from logits l, float32 [rows, n - 1].

    P(y > k) = sigmoid(z_k) with z_0 = l_0 and z_k = z_{k-1} - softplus(l_k), which falls with k.
    Because sigmoid(a) - sigmoid(b) = sigmoid(a) sigmoid(-b) (1 - exp(b - a)), and 1 -
    exp(-softplus(l)) = sigmoid(l), the logarithms are exact for any logit:

        log P(y = k) = log sigmoid(z_{k-1}) + log sigmoid(-z_k) + log sigmoid(l_k)

    A factor that does not exist for the first or last class is left out. The logits (0, 0) give
    z = (0, -0.6931) and the probabilities 1/2, 1/6 and 1/3.
    """
    falls = tf.concat([logits[:, :1], -tf.nn.softplus(logits[:, 1:])], axis=1)
    above = tf.cumsum(falls, axis=1)
    zero = tf.zeros_like(logits[:, :1])
    parts = (
        [zero, tf.math.log_sigmoid(above)],
        [tf.math.log_sigmoid(-above), zero],
        [zero, tf.math.log_sigmoid(logits[:, 1:]), zero],
    )
    return tf.add_n([tf.concat(part, axis=1) for part in parts])


class OrdinalHead(MultiClassHead):
    """n classes in an order, such as grades, from n - 1 logits. See `class_log_probabilities`.

    `MultiClassHead` computes loss and metrics, from the probabilities of the classes. The loss
    of the class 1 with the logits (0, 0) is log 6 = 1.7918. The metric `mean_absolute_error` is the
    mean number of classes between the label and the predicted class.

    Predictions: as in `MultiClassHead`, but logits have the shape [rows, n - 1].
    """

    link: ClassVar[Link] = None
    row_metrics: ClassVar[RowMetrics] = {
        **MultiClassHead.row_metrics,
        "mean_absolute_error": row_metrics.class_distance,
    }

    def row_losses(self, logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        return self.class_losses(class_log_probabilities(logits), labels)

    def predictions(self, logits: tf.Tensor) -> dict[str, tf.Tensor]:
        return {**self.of_classes(class_log_probabilities(logits)), "logits": logits}

    def metrics(self, batch: Batch) -> dict[str, Metric]:
        logits, labels, weights = batch[:3]
        scores = class_log_probabilities(logits)
        of_classes = self.class_metrics(scores, labels, weights, self.row_losses(logits, labels))
        guesses = tf.cast(tf.argmax(scores, axis=1), tf.float32)
        errors = losses.absolute(guesses, tf.cast(labels, tf.float32))
        sums = tf.stack([tf.reduce_sum(errors * weights), tf.reduce_sum(weights)])
        totals, update = streaming_sum(sums, "distance")
        return {**of_classes, "mean_absolute_error": (ratio(totals[0], totals[1]), update)}
