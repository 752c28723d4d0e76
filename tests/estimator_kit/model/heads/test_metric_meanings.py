"""The metrics that heads of feature_specs name: objectives report them."""

from __future__ import annotations

import pytest
import tensorflow as tf

from estimator_kit.model.heads.base import Batch
from feature_specs.heads import HEADS
from feature_specs.heads.metrics import WITH_GROUPS
from tests.conformance.table import HEAD_CASES
from tests.estimator_kit.model.heads.test_objectives import make

NUMBERS = {
    "recall_at_precision": 0.9,
    "precision_at_recall": 0.9,
    "top_k_accuracy": 2,
    "ndcg": 10,
    "hit_rate": 10,
    "recall": 10,
    "coverage": 10,
    "popularity_lift": 10,
}
# Names that stand for several metrics.
PAIRS = {"label_0_predicted_0", "label_1_predicted_2"}
COUNTS = {"true_positives", "false_positives", "false_negatives", "true_negatives"}


def choosable(head):
    """All metrics of a head that a spec can ask for, as a spec writes them."""
    names = HEADS[head].metric_field().kinds
    return [{name: NUMBERS[name]} if name in NUMBERS else name for name in names]


def reported(head, metrics, *, truth=False):
    """The names of the metrics that an objective reports."""
    case = HEAD_CASES[head]
    entry = {"head": head, **case.objective}
    if metrics:
        entry["metrics"] = metrics
    groups = HEADS[head].by_group
    if head == "ranking" or any(
        HEADS[head].metric_field().choice(item).kind in groups for item in metrics
    ):
        entry["group_by"] = "user"
    objective = make(entry, case.label)
    with tf.Graph().as_default():
        holder = tf.compat.v1.placeholder
        width = objective.config.width
        floats = width > 1 or case.label["dtype"] == "float32"
        dtype = tf.float32 if floats else tf.int64
        wide = [] if head != "next_item" else [None]  # One label for each step.
        labels = holder(dtype, [None, *wide] if width == 1 else [None, width])
        logits = holder(tf.float32, [None, objective.logits_dimension])
        group = holder(tf.int64, [None]) if "group_by" in entry else None
        known = holder(tf.float32, [None]) if truth else None
        seen = {"seen": holder(tf.int64, [None, None])} if objective.config.reads_seen else {}
        weights = holder(tf.float32, [None])
        return set(objective.metrics(Batch(logits, labels, weights, known, group, **seen)))


@pytest.mark.parametrize("head", HEADS)
def test_the_tables_name_what_an_objective_reports(head):
    choice = HEADS[head].metric_field().choice
    always = {kind.name for kind in HEADS[head].always}
    if "coverage" in always:
        always = always - {"coverage"} | {"coverage_0.1", "coverage_0.5"}
    asked = choosable(head)
    metrics = HEADS[head].model_fields.get("metrics")
    default = metrics.default if metrics is not None else ()
    groups = {kind.name for kind in WITH_GROUPS}
    assert reported(head, []) == always | {choice(m).label for m in default} | (
        groups if head == "ranking" else set()
    )
    more = {choice(item).label for item in asked}
    if "confusion" in more:
        more = more - {"confusion"} | (PAIRS if head in ("multi_class", "ordinal") else COUNTS)
    if any(choice(item).kind in HEADS[head].by_group for item in asked):
        more |= groups
    found = reported(head, asked)
    assert always | more <= found
    assert {n for n in found - always - more if not n.startswith("label_")} == set()


def test_metrics_of_true_probabilities():
    also = reported("binary", [], truth=True) - reported("binary", [])
    assert also == {kind.name for kind in HEADS["binary"].sometimes if kind not in WITH_GROUPS}
