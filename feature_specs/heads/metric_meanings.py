"""What each metric of an evaluation is, and which metrics each head reports. No TensorFlow.

    MEANINGS["auc"], ALWAYS["binary"]

A run names a metric `<metric>/<objective>`, as in `auc/click`. A metric with a number in its name
has one entry in `MEANINGS`: `ndcg_at_10` is in the entry `ndcg`. Metrics of the first k ranks are
named `<metric>_at_<k>`. The accuracy of the k most probable classes is `top_<k>_accuracy`. A test
compares both tables with what the objectives report. `estimator_kit.model.heads` computes the
metrics.
"""

from __future__ import annotations

from collections.abc import Mapping

_MEANS = ("loss", "weight_sum", "label_mean", "prediction_mean")
_CONFUSION = ("accuracy", "precision", "recall", "f1")
_NUMBER = (*_MEANS, "mean_absolute_error", "mean_squared_error", "root_mean_squared_error")

# The metrics that a head reports without being asked, by the name of the head.
ALWAYS: Mapping[str, tuple[str, ...]] = {
    "binary": (
        *_MEANS, *_CONFUSION, "auc", "auc_precision_recall", "accuracy_baseline", "calibration",
    ),
    "multi_class": ("loss", "weight_sum", "accuracy"),
    "regression": _NUMBER,
    "multi_label": (*_MEANS, *_CONFUSION),
    "poisson": _NUMBER,
    "logistic_regression": _NUMBER,
    "cosine": ("loss", "weight_sum", "cosine_similarity"),
    "quantile": ("loss", "weight_sum", "label_mean", "coverage"),
    "ranking": ("loss", "weight_sum", "label_mean", "lists", "rows_without_order_share"),
    "next_item": ("loss", "weight_sum", "unknown_item_share"),
    "ordinal": ("loss", "weight_sum", "accuracy", "mean_absolute_error"),
    "ziln": _NUMBER,
    "survival": (*_MEANS, "calibration", "concordance"),
}  # fmt: skip

# Metrics that come with others: with `true_probability` in the label, and with metrics of groups.
WITH_TRUE_PROBABILITY = ("bayes_auc", "bayes_loss")
WITH_GROUPS = ("groups", "group_rows_share")

# Metrics that do not depend on predictions. All others are NaN if a row has a NaN prediction.
WITHOUT_PREDICTIONS = (
    *WITH_TRUE_PROBABILITY, *WITH_GROUPS, "accuracy_baseline", "label_mean", "lists",
    "rows_without_order_share", "unknown_item_share", "weight_sum",
)  # fmt: skip

# w is the weight of a row, y its label, p its prediction. A sum without a weight is written as if
# every row had the weight 1.
MEANINGS: Mapping[str, str] = {
    "accuracy": "The share of rows whose predicted class is the label. Two classes are separated "
    "at the probability 0.5: (TP + TN) / (TP + FP + FN + TN).",
    "accuracy_baseline": "The accuracy of always predicting the more frequent class: "
    "max(label_mean, 1 - label_mean).",
    "auc": "The area under the ROC curve: the probability that a row of class 1 is scored above a "
    "row of class 0. Ties count half. Only the order of the scores matters. It is exact for up to "
    "131,072 rows (`multi_label`: pairs of row and class) or 65,536 different scores; beyond that, "
    "its error is below 0.001.",
    "auc_precision_recall": "The area under precision and recall: the sum over all thresholds of "
    "precision times the step of recall (average precision, not interpolated). Where `auc` "
    "is not exact, its error is below 0.1 % of its value.",
    "bayes_auc": "The AUC of the true probabilities, which is the best that a model can reach. "
    "It needs `true_probability` in the label.",
    "bayes_loss": "The log loss of the true probabilities, which is the best that a model can "
    "reach. It needs `true_probability` in the label.",
    "calibration": "prediction_mean / label_mean. It is 1 if the model predicts as many events as "
    "occur.",
    "concordance": "The share of pairs of rows whose earlier event has the higher risk (Harrell's "
    "index). A pair has one row with an event in an interval that the other row survived. The "
    "risk is the probability of the event before the last boundary. Equal risks count "
    "half.",
    "confusion": "The weights of each pair of label and predicted class: `true_positives`, "
    "`false_positives`, `false_negatives` and `true_negatives` for two classes, and "
    "`label_<i>_predicted_<j>` for more.",
    "cosine_similarity": "The mean cosine of the angle between the logits and the label.",
    "coverage": "The share of labels that are at most the prediction, as `coverage_<quantile>`. It "
    "is as large as the quantile if the prediction is right. For the head `next_item`, as "
    "`coverage_at_<k>`: the share of the catalogue that is among the first k ranks of at least one "
    "row.",
    "expected_calibration_error": "The mean distance between probability and outcome in 15 bins of "
    "the probability: sum over bins of |sum(w y) - sum(w p)| / sum(w).",
    "f1": "2 TP / (2 TP + FP + FN). For more than two classes: the mean over the classes that "
    "occur.",
    "gauc": "The mean of the AUCs of the groups, weighted by the weight of their rows. Groups "
    "whose rows all have one class are left out.",
    "group_rows_share": "The share of the rows that group metrics count. It is below 1 if an "
    "evaluation has more than 1,048,576 rows; a sample of the groups then makes the metrics.",
    "groups": "How many groups the group metrics count.",
    "hit_rate": "The share of groups with a relevant row among the first k ranks, as "
    "`hit_rate_at_<k>`. For the head `next_item`, the share of rows whose next item is among the "
    "first k ranks of the catalogue.",
    "label_mean": "The mean label: sum(w y) / sum(w). For `survival`, the share of rows whose "
    "event was seen before the last boundary.",
    "lists": "The number of lists that `loss` counts.",
    "log_loss": "The mean cross-entropy, -y log p - (1 - y) log(1 - p), whatever loss the "
    "objective is trained with.",
    "loss": "The loss of the objective over all rows, by its `reduction`. For the head `ranking`, "
    "a group that has more rows than `--eval_batch_size`, or that is in several places of the "
    "files, is several lists. Then `loss` and `lists` depend on `--eval_batch_size`.",
    "mean_absolute_error": "The mean of |p - y|. For `ordinal`, p is the predicted class.",
    "mean_iou": "The mean over the classes that occur of hits / (labels + predictions - hits).",
    "mean_relative_error": "The mean of |p - y| / |y| over the rows whose label is not 0.",
    "mean_squared_error": "The mean of (p - y)^2.",
    "mrr": "The mean over the groups with a relevant row of 1 / rank of the first relevant row. "
    "For the head `next_item`, the mean over the rows of 1 / rank of the next item.",
    "ndcg": "The mean over the groups of DCG / best DCG of the first k ranks, as `ndcg_at_<k>`. "
    "DCG is the sum of gain / log2(1 + rank). The gain is the label; the head `ranking` takes "
    "2^label - 1. For the head `next_item`, the mean over the rows of 1 / log2(1 + rank) of the "
    "next item if it is among the first k ranks, and 0 otherwise.",
    "popularity_lift": "How much more popular the first k ranks are than the items that rows "
    "contain, as `popularity_lift_at_<k>`: the mean popularity of the first k items / the mean "
    "popularity of the items at the steps of the row - 1. The popularity of an item is the share "
    "of rows with it among their steps. It is 0 without a popularity bias, and 1 if recommended "
    "items are twice as popular as the items that users chose (Abdollahpouri et al., 2020).",
    "precision": "TP / (TP + FP), at the probability 0.5.",
    "precision_at_recall": "The largest precision at a threshold whose recall is at least the "
    "given number, as `precision_at_recall_<recall>`.",
    "prediction_mean": "The mean prediction: sum(w p) / sum(w). For `survival`, the mean number of "
    "events that the model expects while rows are watched: the sum of the hazards of the intervals "
    "that the loss counts.",
    "recall": "TP / (TP + FN), at the probability 0.5. For the head `next_item`, as "
    "`recall_at_<k>`: the share of next items that are among the first k ranks of the catalogue. "
    "A row has one next item, so it equals `hit_rate_at_<k>`.",
    "recall_at_precision": "The largest recall at a threshold whose precision is at least the "
    "given number, as `recall_at_precision_<precision>`.",
    "root_mean_squared_error": "The square root of mean_squared_error.",
    "rows_without_order_share": "The share of the rows that are in no list: they are alone in "
    "their group, or all labels of the group are equal.",
    "top_k_accuracy": "The share of rows whose label is among the k classes with the largest "
    "logits, as `top_<k>_accuracy`.",
    "unknown_item_share": "The share of the rows whose last next item is not in the catalogue, "
    "such as a word outside of the vocabulary. The other metrics leave these rows out.",
    "weight_sum": "The sum of the weights of the rows.",
}  # fmt: skip
