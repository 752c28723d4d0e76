"""What a metric of an evaluation is, and which ones an objective of a spec can add.

    metrics: [log_loss, {recall_at_precision: 0.9}, {ndcg: 10}]

A head lists the metrics that it always reports (`always`), those that a spec can ask for (its field
`metrics`), and those that judge it. A metric that only one head has is in the module of the head.
A run names a metric `<label>/<objective>`, as in `auc/click` or `ndcg_at_10/click`.
`estimator_kit.model.heads` computes the metrics. This module does not import TensorFlow.
"""

from __future__ import annotations

import math
import re
from typing import Annotated, Any, Literal, NamedTuple, Optional, Union

import pydantic

from feature_specs.errors import did_you_mean, value_text


class MetricKind(NamedTuple):
    """A metric, with or without a number.

    Attributes:
      name: as a spec writes it.
      meaning: one or more sentences. w is the weight of a row, y its label, p its prediction. A sum
        without a weight is written as if every row had the weight 1.
      better: which value is best: the largest, the smallest, or the one nearest to 1. None if no
        value is better than another.
      range: the smallest and the largest possible value of a metric that judges a model; None for
        other metrics.
      number: the number that a spec gives: a share between 0 and 1, or a count of 1 or more.
      label: the name among the metrics of a run, with `{}` for the number. By default the name, and
        `<name>_<share>` or `<name>_at_<count>`.
      reads_predictions: whether the metric depends on predictions, so that it is NaN if a row has a
        NaN prediction.
      of_probabilities: whether it says something only about predictions that are meant to be
        probabilities, or means of the label. See `HeadEntry.calibrated`.
    """

    name: str
    meaning: str
    better: Optional[Literal["max", "min", "one"]] = None
    range: Optional[tuple[float, float]] = None
    number: Optional[Literal["share", "count"]] = None
    label: Optional[str] = None
    reads_predictions: bool = True
    of_probabilities: bool = False

    @property
    def template(self) -> str:
        """Its label with `{}` or `{:g}` for the number, or its name if it has no number."""
        if self.number is None:
            return self.name
        return self.label or self.name + ("_{:g}" if self.number == "share" else "_at_{}")

    def has_label(self, label: str) -> bool:
        """Whether a label is its name or is made from its template."""
        pattern = re.sub("{.*}", lambda _: _NUMBERS[self.number], self.template)
        return label == self.name or re.fullmatch(pattern, label) is not None


# The numbers of labels, as their templates write them: 10, and 0.9 or 1e-05.
_NUMBERS = {None: "", "count": r"\d+", "share": r"\d(\.\d+)?(e-\d+)?"}

Kinds = tuple[MetricKind, ...]


class MetricChoice(NamedTuple):
    """A metric and its number, or None for a metric without a number."""

    kind: MetricKind
    value: Optional[Union[int, float]] = None

    @property
    def name(self) -> str:
        return self.kind.name

    @property
    def label(self) -> str:
        """Its name among the metrics of a run, such as `ndcg_at_10`."""
        return self.kind.template.format(self.value)


def plain(*kinds: MetricKind) -> tuple[MetricChoice, ...]:
    """Metrics without a number."""
    return tuple(MetricChoice(kind) for kind in kinds)


# As a spec writes it.
Written = Union[str, dict[str, Union[int, float]]]


class MetricField:
    """The metrics that a field `metrics` allows: its checks and its JSON Schema."""

    def __init__(self, kinds: tuple[MetricKind, ...]):
        self.kinds = {kind.name: kind for kind in kinds}

    def choice(self, written: Written) -> MetricChoice:
        """Converts an item of `metrics`, which must already be checked."""
        if isinstance(written, str):
            return MetricChoice(self.kinds[written])
        ((name, value),) = written.items()
        return MetricChoice(self.kinds[name], value)

    def check(self, value: Any) -> Any:
        """The items as a tuple. Raises ValueError for a wrong one."""
        if not isinstance(value, (list, tuple)):
            raise ValueError(f"got {value_text(value)}, expected a list of metrics")
        items = tuple(self._checked(item) for item in value)
        labels = [self.choice(item).label for item in items]
        for i, label in enumerate(labels):
            if label in labels[:i]:
                raise ValueError(f"metric {label!r} is listed twice. Remove one of them.")
        return items

    def _checked(self, item: Any) -> Written:
        mapping = isinstance(item, dict) and len(item) == 1
        name = next(iter(item)) if mapping else item
        if not isinstance(name, str) or name not in self.kinds:
            hint = did_you_mean(name, tuple(self.kinds))
            raise ValueError(f"got {value_text(item)}, expected a metric of this head{hint}")
        value = item[name] if mapping else None
        number = self.kinds[name].number
        if number == "share":
            good = isinstance(value, float) and 0 < value < 1
            expected = f"a number between 0 and 1, as in {{{name}: 0.9}}"
        elif number == "count":
            good = isinstance(value, int) and not isinstance(value, bool) and value >= 1
            expected = f"an integer of 1 or more, as in {{{name}: 10}}"
        else:
            good, expected = not mapping, f"{name} without a number"
        if not good:
            raise ValueError(f"got {value_text(item)}, expected {expected}")
        result: Written = item
        return result

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> Any:
        plain = [name for name, kind in self.kinds.items() if kind.number is None]
        items: list[dict[str, Any]] = [{"enum": plain}] if plain else []
        numbers = {
            "share": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
            "count": {"type": "integer", "minimum": 1},
        }
        items += [
            {
                "type": "object",
                "additionalProperties": False,
                "required": [name],
                "properties": {name: numbers[kind.number]},
            }
            for name, kind in self.kinds.items()
            if kind.number is not None
        ]
        return {"type": "array", "items": {"anyOf": items}, "uniqueItems": True}


def metrics_of(*kinds: MetricKind) -> Any:
    """The type of a field that lists some of these metrics."""
    field = MetricField(kinds)
    return Annotated[tuple[Any, ...], pydantic.BeforeValidator(field.check), field]


ACCURACY = MetricKind(
    "accuracy",
    "The share of rows whose predicted class is the label. Two classes are separated at the "
    "probability 0.5: (TP + TN) / (TP + FP + FN + TN).",
    better="max",
    range=(0, 1),
)
AUC = MetricKind(
    "auc",
    "The area under the ROC curve: the probability that a row of class 1 is scored above a row of "
    "class 0. Ties count half. Only the order of the scores matters. It is exact for up to "
    "131,072 rows (`multi_label`: pairs of row and class) or 65,536 different scores; beyond "
    "that, its error is below 0.001.",
    better="max",
    range=(0, 1),
)
AUC_PRECISION_RECALL = MetricKind(
    "auc_precision_recall",
    "The area under precision and recall: the sum over all thresholds of precision times the step "
    "of recall (average precision, not interpolated). Where `auc` is not exact, its error is "
    "below 0.1 % of its value.",
    better="max",
)
CALIBRATION = MetricKind(
    "calibration",
    "prediction_mean / label_mean. It is 1 if the model predicts as many events as occur. It says "
    "nothing if the loss does not learn probabilities, as `hinge` or `focal`, or with a "
    "`positive_penalty`. The model `two_tower` does not report it.",
    better="one",
    range=(0, math.inf),
    of_probabilities=True,
)
CONFUSION = MetricKind(
    "confusion",
    "The weights of each pair of label and predicted class: `true_positives`, `false_positives`, "
    "`false_negatives` and `true_negatives` for two classes, and `label_<i>_predicted_<j>` for "
    "more.",
)
COVERAGE = MetricKind(
    "coverage",
    "The share of labels that are at most the prediction, as `coverage_<quantile>`. It is as "
    "large as the quantile if the prediction is right. For the head `next_item`, as "
    "`coverage_at_<k>`: the share of the catalogue that is among the first k ranks of at least "
    "one row.",
    number="count",
)
EXPECTED_CALIBRATION_ERROR = MetricKind(
    "expected_calibration_error",
    "The mean distance between probability and outcome in 15 bins of the probability: sum over "
    "bins of |sum(w y) - sum(w p)| / sum(w).",
    better="min",
    of_probabilities=True,
)
F1 = MetricKind(
    "f1",
    "2 TP / (2 TP + FP + FN). For more than two classes: the mean over the classes that occur.",
    better="max",
)
GROUP_ROWS_SHARE = MetricKind(
    "group_rows_share",
    "The share of the rows that group metrics count. It is below 1 if an evaluation has more than "
    "1,048,576 rows; a sample of the groups then makes the metrics.",
    reads_predictions=False,
)
GROUPS = MetricKind(
    "groups",
    "How many groups the group metrics count.",
    reads_predictions=False,
)
HIT_RATE = MetricKind(
    "hit_rate",
    "The share of groups with a relevant row among the first k ranks, as `hit_rate_at_<k>`. For "
    "the head `next_item`, the share of rows whose next item is among the first k ranks of the "
    "catalogue.",
    better="max",
    number="count",
)
LABEL_MEAN = MetricKind(
    "label_mean",
    "The mean label: sum(w y) / sum(w). For `survival`, the share of rows whose event was seen "
    "before the last boundary.",
    reads_predictions=False,
)
LOG_LOSS = MetricKind(
    "log_loss",
    "The mean cross-entropy, -y log p - (1 - y) log(1 - p), whatever loss the objective is "
    "trained with.",
    better="min",
    range=(0, math.inf),
    of_probabilities=True,
)
LOSS = MetricKind(
    "loss",
    "The loss of the objective over all rows, by its `reduction`. For the head `ranking`, a group "
    "that has more rows than `--eval_batch_size`, or that is in several places of the files, is "
    "several lists. Then `loss` and `lists` depend on `--eval_batch_size`.",
    better="min",
)
MEAN_ABSOLUTE_ERROR = MetricKind(
    "mean_absolute_error",
    "The mean of |p - y|. For `ordinal`, p is the predicted class.",
    better="min",
    range=(0, math.inf),
)
MEAN_SQUARED_ERROR = MetricKind(
    "mean_squared_error",
    "The mean of (p - y)^2.",
    better="min",
    range=(0, math.inf),
)
MRR = MetricKind(
    "mrr",
    "The mean over the groups with a relevant row of 1 / rank of the first relevant row. For the "
    "head `next_item`, the mean over the rows of 1 / rank of the next item.",
    better="max",
)
NDCG = MetricKind(
    "ndcg",
    "The mean over the groups of DCG / best DCG of the first k ranks, as `ndcg_at_<k>`. DCG is "
    "the sum of gain / log2(1 + rank). The gain is the label; the head `ranking` takes 2^label - "
    "1. For the head `next_item`, the mean over the rows of 1 / log2(1 + rank) of the next item "
    "if it is among the first k ranks, and 0 otherwise.",
    better="max",
    number="count",
)
PRECISION = MetricKind(
    "precision",
    "TP / (TP + FP), at the probability 0.5.",
    better="max",
)
PRECISION_AT_RECALL = MetricKind(
    "precision_at_recall",
    "The largest precision at a threshold whose recall is at least the given number, as "
    "`precision_at_recall_<recall>`.",
    better="max",
    number="share",
)
PREDICTION_MEAN = MetricKind(
    "prediction_mean",
    "The mean prediction: sum(w p) / sum(w). For `survival`, the mean number of events that the "
    "model expects while rows are watched: the sum of the hazards of the intervals that the loss "
    "counts.",
)
RECALL = MetricKind(
    "recall",
    "TP / (TP + FN), at the probability 0.5. For the head `next_item`, as `recall_at_<k>`: the "
    "share of next items that are among the first k ranks of the catalogue. A row has one next "
    "item, so it equals `hit_rate_at_<k>`.",
    better="max",
    number="count",
)
RECALL_AT_PRECISION = MetricKind(
    "recall_at_precision",
    "The largest recall at a threshold whose precision is at least the given number, as "
    "`recall_at_precision_<precision>`.",
    better="max",
    number="share",
)
WEIGHT_SUM = MetricKind(
    "weight_sum",
    "The sum of the weights of the rows.",
    reads_predictions=False,
)
ROOT_MEAN_SQUARED_ERROR = MetricKind(
    "root_mean_squared_error",
    "The square root of mean_squared_error.",
    better="min",
)

# The metrics of most heads, of two classes, and of numbers.
MEANS = (LOSS, WEIGHT_SUM, LABEL_MEAN, PREDICTION_MEAN)
OF_CONFUSION = (ACCURACY, PRECISION, RECALL, F1)
OF_ERRORS = (*MEANS, MEAN_ABSOLUTE_ERROR, MEAN_SQUARED_ERROR, ROOT_MEAN_SQUARED_ERROR)

# The metrics that come with metrics of groups.
WITH_GROUPS = (GROUPS, GROUP_ROWS_SHARE)
