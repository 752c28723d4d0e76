"""The losses of single rows, as functions of tensors.

Each function takes predictions and labels, float32 of the same shape unless stated otherwise, and
returns the loss of each element, without weights or sums. `two_class_losses`, `class_losses` and
`number_losses` choose a function by its entry in a spec (`feature_specs.heads.losses`).
"""

from __future__ import annotations

import math
from typing import Any

import tensorflow as tf

from estimator_kit.model.heads.base import closed
from feature_specs.heads import HEADS
from feature_specs.heads.losses import LossEntry

_LOG_2 = math.log(2.0)
_LOG_2_PI = math.log(2.0 * math.pi)


def two_class_losses(loss: LossEntry, logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """The losses of logits for labels in [0, 1]. The sigmoid of a logit is the probability of 1."""
    return _TWO_CLASSES[loss.name()](logits, labels, **dict(loss.options))


def class_losses(loss: LossEntry, logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """The losses of logits [rows, n] for labels int64 [rows]: float32 [rows]."""
    return _CLASSES[loss.name()](logits, labels, **dict(loss.options))


def number_losses(loss: LossEntry, predictions: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """The losses of predicted numbers."""
    return _NUMBERS[loss.name()](predictions, labels, **dict(loss.options))


def with_positive_penalty(rows: tf.Tensor, labels: tf.Tensor, penalty: float) -> tf.Tensor:
    """Losses times 1 + y (penalty - 1): times the penalty for label 1, and times 1 for label 0."""
    return rows if penalty == 1 else rows * (1 + labels * (penalty - 1))


# --- Classes -------------------------------------------------------------------------------------


def sigmoid_cross_entropy(
    logits: tf.Tensor, labels: tf.Tensor, *, label_smoothing: float = 0.0
) -> tf.Tensor:
    """-y log p - (1 - y) log(1 - p), p = sigmoid(logit).

    y = 1 and logit = 0 cost log 2 = 0.6931. Label smoothing s replaces y by (1 - s) y + s / 2
    (Szegedy et al., "Rethinking the Inception Architecture", 2016).
    `tf.nn.sigmoid_cross_entropy_with_logits` computes the loss from the logit, which is exact for
    any logit.
    """
    if label_smoothing:
        labels = labels * (1 - label_smoothing) + label_smoothing / 2
    return tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)


def sigmoid_focal(logits: tf.Tensor, labels: tf.Tensor, *, gamma: float = 2.0) -> tf.Tensor:
    """-y (1 - p)^gamma log p - (1 - y) p^gamma log(1 - p), p = sigmoid(logit).

    Lin et al., "Focal Loss for Dense Object Detection", 2017. Use `positive_penalty` for the
    paper's alpha. y = 1, logit = 0 and gamma = 2 cost 0.5^2 log 2 = 0.1733. The powers are computed
    from logarithms, so that the gradient is finite even if p rounds to 1.
    """
    log_p, log_not_p = tf.math.log_sigmoid(logits), tf.math.log_sigmoid(-logits)
    positive = -tf.exp(gamma * log_not_p) * log_p
    negative = -tf.exp(gamma * log_p) * log_not_p
    return labels * positive + (1 - labels) * negative


def log_loss(probabilities: tf.Tensor, labels: tf.Tensor, *, epsilon: float = 1e-7) -> tf.Tensor:
    """-y log(p + epsilon) - (1 - y) log(1 - p + epsilon), as `tf.compat.v1.losses.log_loss`.

    p = 0.5 costs log 2 = 0.6931. If p rounds to 0 or 1, the loss is at most -log(epsilon) and has
    no gradient. sigmoid_cross_entropy always has a gradient, and is better for training.
    """
    return -labels * tf.math.log(probabilities + epsilon) - (1 - labels) * tf.math.log(
        1 - probabilities + epsilon
    )


def hinge(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """max(0, 1 - m) with the margin m = (2y - 1) logit (Cortes & Vapnik, 1995).

    y = 1 and logit = 0.25 cost 0.75. The loss does not learn probabilities: the sigmoid of such a
    logit only orders rows.
    """
    return tf.nn.relu(1 - (2 * labels - 1) * logits)


def exponential(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """exp(-m) with the margin m = (2y - 1) logit (AdaBoost; Freund & Schapire, 1997).

    y = 0 and logit = 1 cost e = 2.718. The float32 result is infinite for a margin below -88.
    """
    return tf.exp(-(2 * labels - 1) * logits)


def delayed_feedback(logits: tf.Tensor, labels: tf.Tensor, times: tf.Tensor) -> tf.Tensor:
    """The negative log-likelihood of a class 1 that is seen late: float32 [rows].

    From the logits (z, r), [rows, 2]: the class is 1 with the probability p = sigmoid(z), and the
    time until this is seen is exponential with the rate l = exp(r) (Chapelle, "Modeling Delayed
    Feedback in Display Advertising", KDD 2014).

        label 1, seen after the time t      -log p - log l + l t
        label 0, last looked up after t     -log(1 - p + p exp(-l t))

    With the logits (0, 0) and t = 1, the label 1 costs log 2 + 1 = 1.6931, and the label 0 costs
    -log(1/2 + exp(-1) / 2) = 0.3799. Because 1 - p + p exp(-l t) = (1 + exp(z - l t)) /
    (1 + exp(z)), the loss of the label 0 is softplus(z) - softplus(z - l t). The loss of the label
    1 may be negative.

    Args:
      logits: float32 [rows, 2]. r has no gradient outside of [-20, 20], where l would overflow.
      labels, times: float32 [rows]. The time of a label 1 counts as 0.001 or more, because a time
        of 0 would raise l forever.
    """
    score, log_rate = logits[:, 0], tf.clip_by_value(logits[:, 1], -20.0, 20.0)
    rate = tf.exp(log_rate)
    seen = tf.nn.softplus(-score) - log_rate + rate * tf.maximum(times, 1e-3)
    unseen = tf.nn.softplus(score) - tf.nn.softplus(score - rate * times)
    return labels * seen + (1 - labels) * unseen


def softmax_cross_entropy(
    logits: tf.Tensor, labels: tf.Tensor, *, label_smoothing: float = 0.0
) -> tf.Tensor:
    """-log softmax(logits)[label]: float32 [rows] from logits [rows, n] and labels int64 [rows].

    Three equal logits cost log 3 = 1.0986. With label smoothing s, the true class has the target
    1 - s + s / n, and every other class has s / n (Szegedy et al., 2016).
    """
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    if label_smoothing:
        even = -tf.reduce_mean(tf.nn.log_softmax(logits), axis=1)
        losses = (1 - label_smoothing) * losses + label_smoothing * even
    return losses


def softmax_focal(logits: tf.Tensor, labels: tf.Tensor, *, gamma: float = 2.0) -> tf.Tensor:
    """-(1 - p)^gamma log p, p = softmax(logits)[label]. Shapes as in `softmax_cross_entropy`.

    Three equal logits and gamma = 2 cost (2/3)^2 log 3 = 0.4883 (Lin et al., 2017).
    """
    log_p = tf.nn.log_softmax(logits)
    own = tf.one_hot(labels, logits.shape[1], on_value=True, off_value=False, dtype=tf.bool)
    nothing = tf.constant(-math.inf, tf.float32)
    # log(1 - p) comes from the other classes, because 1 - p would be 0 if p rounds to 1.
    log_not_p = tf.reduce_logsumexp(tf.where(own, nothing, log_p), axis=1)
    return tf.exp(gamma * log_not_p) * softmax_cross_entropy(logits, labels)


# --- Numbers -------------------------------------------------------------------------------------


def squared(predictions: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """(prediction - label)^2. The best prediction is the mean of the labels.

    A prediction of 3 for a label of 1 costs 4. For a probability it is the Brier score (Brier,
    1950).
    """
    return tf.math.squared_difference(predictions, labels)


def absolute(predictions: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """|prediction - label|. The best prediction is the median of the labels.

    A prediction of 3 for a label of 1 costs 2.
    """
    return tf.abs(predictions - labels)


def huber(predictions: tf.Tensor, labels: tf.Tensor, *, delta: float = 1.0) -> tf.Tensor:
    """d^2 / 2 for an error d <= delta, and delta (d - delta / 2) above it (Huber, 1964).

    A prediction of 3 for a label of 1 costs 1 (2 - 0.5) = 1.5.
    """
    distance = tf.abs(predictions - labels)
    near = tf.minimum(distance, delta)
    return near * (distance - near / 2)


def log_cosh(predictions: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """log cosh(prediction - label): about d^2 / 2 for a small error d, and d - log 2 for a large
    one.

    A prediction of 3 for a label of 1 costs log cosh 2 = 1.3250. As in `tf.keras.losses.log_cosh`,
    it is computed as d + softplus(-2d) - log 2, which does not overflow.
    """
    distance = predictions - labels
    return distance + tf.nn.softplus(-2 * distance) - _LOG_2


def pinball(predictions: tf.Tensor, labels: tf.Tensor, *, quantile: float) -> tf.Tensor:
    """q d if the label is higher by d, and (1 - q) d if it is lower by d (Koenker & Bassett, 1978).

    With q = 0.9, a prediction of 1 for a label of 3 costs 1.8. The best prediction is the quantile
    q of the labels. q = 0.5 gives half the absolute error.
    """
    above = labels - predictions
    return tf.maximum(quantile * above, (quantile - 1) * above)


def poisson(logits: tf.Tensor, labels: tf.Tensor, *, full: bool = False) -> tf.Tensor:
    """exp(z) - y z: the negative log-likelihood of y for the rate exp(z), without log(y!).

    z = log 2 and y = 1 cost 2 - log 2 = 1.3069. For y above 1, `full` adds Stirling's approximation
    of log(y!), y log y - y + log(2 pi y) / 2, as `tf.nn.log_poisson_loss` does. It does not change
    the gradient.
    """
    return tf.nn.log_poisson_loss(labels, logits, compute_full_loss=full)


def zero_inflated_lognormal(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """The negative log-likelihood of y for the logits (z, m, s): float32 [rows] from [rows, 3].

    It is the sigmoid cross-entropy of z, with the label 1 for y > 0. A y > 0 adds the lognormal
    distribution's, log y + log sigma + log(2 pi) / 2 + (log y - m)^2 / (2 sigma^2), with sigma =
    softplus(s) (Wang, Liu & Miao, 2019). With the logits (0, 0, 0), y = 0 costs log 2 = 0.6931, and
    y = 1 costs 0.6931 + log 0.6931 + 0.9189 = 1.2456.
    """
    above = tf.cast(labels > 0, tf.float32)
    log_y = tf.math.log(tf.where(labels > 0, labels, tf.ones_like(labels)))
    sigma = lognormal_scale(logits[:, 2])
    error = (log_y - logits[:, 1]) / sigma
    lognormal = log_y + tf.math.log(sigma) + _LOG_2_PI / 2 + tf.square(error) / 2
    return sigmoid_cross_entropy(logits[:, 0], above) + above * lognormal


def lognormal_scale(logits: tf.Tensor) -> tf.Tensor:
    """softplus(s), but at least sqrt(1e-7), as in the code of the paper."""
    return tf.maximum(tf.nn.softplus(logits), math.sqrt(1e-7))


def cosine_similarity(vectors: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
    """The cosine of the angle between rows: float32 [rows] from [rows, n]. 0 for a row of zeros.

    For (1, 0) and (1, 1) it is 1 / sqrt(2) = 0.7071. `unit_vectors` limits the gradient.
    """
    return tf.reduce_sum(unit_vectors(vectors) * tf.math.l2_normalize(targets, axis=1), axis=1)


# The length of the shortest vector with an exact gradient of its direction.
_SHORT = 0.1


def unit_vectors(vectors: tf.Tensor) -> tf.Tensor:
    """The rows scaled to length 1: float32 [rows, n]. A row of zeros stays 0.

    A short vector turns fast: the gradient of the direction u of v is (1 - u u^T) / |v|. At 0,
    where `linear` and biases start, `tf.math.l2_normalize` has the gradient 1e6. After such a step
    Adagrad and FTRL hardly move again. So a vector that is shorter than 0.1 has the gradient
    10 (1 - u u^T), as if its length were 0.1. Otherwise, results and gradients are as in
    `tf.math.l2_normalize`.
    """
    units = tf.stop_gradient(tf.math.l2_normalize(vectors, axis=1))
    lengths = tf.stop_gradient(tf.norm(vectors, axis=1, keepdims=True))
    turned = vectors - units * tf.reduce_sum(units * vectors, axis=1, keepdims=True)
    turned /= tf.maximum(lengths, _SHORT)
    return units + (turned - tf.stop_gradient(turned))


def cosine(vectors: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
    """1 - cosine: 0 for equal directions, 1 for a right angle, and 2 for opposite directions.

    (1, 0) and (1, 1) cost 1 - 0.7071 = 0.2929. For vectors of length 1 it equals
    `tf.compat.v1.losses.cosine_distance`.
    """
    return 1 - cosine_similarity(vectors, targets)


def _of_probability(function: Any) -> Any:
    return lambda logits, labels, **options: function(tf.sigmoid(logits), labels, **options)


# The functions by the names of losses in a spec, whose options are their keyword arguments.
_TWO_CLASSES: dict[str, Any] = closed(
    {*HEADS["binary"].losses(), *HEADS["multi_label"].losses()} - {"delayed_feedback"},
    {
        "sigmoid_cross_entropy": sigmoid_cross_entropy,
        "focal": sigmoid_focal,
        "hinge": hinge,
        "exponential": exponential,
        "log_loss": _of_probability(log_loss),
        "squared": _of_probability(squared),
        "absolute": _of_probability(absolute),
    },
)
_CLASSES: dict[str, Any] = closed(
    HEADS["multi_class"].losses(),
    {"softmax_cross_entropy": softmax_cross_entropy, "focal": softmax_focal},
)
_NUMBERS: dict[str, Any] = closed(
    HEADS["regression"].losses(),
    {
        "squared": squared,
        "absolute": absolute,
        "huber": huber,
        "log_cosh": log_cosh,
        "pinball": pinball,
    },
)
