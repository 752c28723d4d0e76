"""Objectives of a spec: the errors of losses, metrics, labels and groups, and the short forms."""

from __future__ import annotations

import math

import pytest

import feature_specs
from feature_specs import SpecError
from feature_specs.heads import HEADS, METRICS, kind_of
from feature_specs.heads.metrics import MetricChoice
from feature_specs.heads.numbers import Huber

pytestmark = pytest.mark.no_tensorflow

INTEGER = {"dtype": "int64"}
FLOAT = {"dtype": "float32"}
IDS = {"dtype": "int64", "shape": "variable"}


def parse(objective, label, features=None):
    return feature_specs.parse(
        {
            "features": {"x": FLOAT, **(features or {})},
            "columns": {"x": {"numeric": "x"}},
            "groups": {"deep": ["x"]},
            "labels": {"y": label},
            "objectives": {"y": objective},
        }
    )


ITEMS = {"head": "next_item", "items": "item"}
WORDS = {"dtype": "string", "shape": "variable"}


def parse_items(objective, label, column):
    return feature_specs.parse(
        {
            "features": {"item": WORDS},
            "columns": {"item": column, "item_hot": {"indicator": "item"}},
            "groups": {"steps": ["item_hot"]},
            "labels": {"y": label},
            "objectives": {"y": {**ITEMS, **objective}},
        }
    )


@pytest.mark.parametrize(
    ("objective", "label", "column", "problem"),
    [
        ({"items": "itm"}, WORDS, {"vocabulary": "item", "list": ["a"], "sequence": True},
         "objectives.y.items: got 'itm', expected a vocabulary, hash_bucket or identity column "
         "with sequence: true. Did you mean 'item'?"),
        ({}, WORDS, {"vocabulary": "item", "list": ["a"]},
         "objectives.y.items: got 'item', expected a vocabulary, hash_bucket or identity column "
         "with sequence: true"),
        ({}, IDS, {"vocabulary": "item", "list": ["a"], "sequence": True},
         "objectives.y.items: label 'y' is int64, but column 'item' reads the feature 'item', "
         "which is string. Make the dtypes equal."),
        ({"loss": "bpr"}, WORDS, {"hash_bucket": "item", "size": 9, "sequence": True},
         "objectives.y.loss: negatives: log_uniform takes the first ids most often, but the ids "
         "of the hash_bucket column 'item' have no order. Use uniform, in_batch or mixed."),
        ({}, {**WORDS, "vocabulary": ["a", "b"]},
         {"vocabulary": "item", "list": ["a"], "sequence": True},
         "objectives.y: label 'y' has a vocabulary, but the head next_item takes the ids of the "
         "column `items`. Remove it."),
        ({}, {**WORDS, "missing": "no_class"},
         {"vocabulary": "item", "list": ["a"], "sequence": True},
         "objectives.y: label 'y' has missing: no_class, expected missing: mask or no missing"),
        ({"metrics": ["recall"]}, WORDS, {"hash_bucket": "item", "size": 9, "sequence": True},
         "objectives.y.metrics: got 'recall', expected an integer of 1 or more, as in "
         "{recall: 10}"),
    ],
)  # fmt: skip
def test_problems_of_items(objective, label, column, problem):
    with pytest.raises(SpecError) as error:
        parse_items(objective, label, column)
    assert problem in str(error.value)


def test_items_of_a_label():
    column = {"vocabulary": "item", "list": ["a", "b"], "oov_buckets": 3, "sequence": True}
    spec = parse_items({"exclude_seen": True}, WORDS, column)
    assert spec.items_of_label("y") == "item"
    assert (spec.size_of("item"), spec.named_ids("item")) == (5, 2)
    assert feature_specs.parse(spec.to_dict()).to_dict() == spec.to_dict()


def test_a_loss_by_name_is_the_one_without_options():
    spec = parse({"head": "regression", "loss": "huber"}, FLOAT)
    loss = spec.objectives["y"].loss
    assert isinstance(loss, Huber) and loss.options.delta == 1.0
    assert parse({"head": "regression", "loss": {"huber": {"delta": 1.0}}}, FLOAT).objectives == (
        spec.objectives
    )
    assert spec.to_dict()["objectives"]["y"] == {"head": "regression", "loss": {"huber": {}}}


@pytest.mark.parametrize(
    ("objective", "label"),
    [
        ({"head": "binary", "loss": {"focal": {"gamma": 1.5}}, "positive_penalty": 4.0}, INTEGER),
        ({"head": "binary", "metrics": ["log_loss", {"recall_at_precision": 0.9}]}, INTEGER),
        ({"head": "multi_class", "num_classes": 3, "class_penalties": [1.0, 1.0, 9.0],
          "metrics": [{"top_k_accuracy": 2}]}, INTEGER),
        ({"head": "multi_label", "num_classes": 3, "reduction": "sum"}, IDS),
        ({"head": "multi_label", "num_classes": 3}, {**IDS, "missing": "no_class"}),
        ({"head": "quantile", "quantiles": [0.1, 0.9], "non_crossing": True}, FLOAT),
        ({"head": "cosine", "dimension": 3}, {**FLOAT, "shape": [3], "missing": "mask"}),
    ],
)  # fmt: skip
def test_a_spec_is_what_its_dict_says(objective, label):
    spec = parse(objective, label)
    assert spec.to_dict()["objectives"]["y"] == objective
    assert spec.to_dict()["labels"]["y"] == label
    assert feature_specs.parse(spec.to_dict()).to_dict() == spec.to_dict()


SURVIVAL = {"head": "survival", "event": "gone", "boundaries": [7.0, 30.0]}
GONE = {"gone": INTEGER}


def test_a_survival_is_what_its_dict_says():
    spec = parse(SURVIVAL, FLOAT, GONE)
    assert spec.to_dict()["objectives"]["y"] == SURVIVAL
    assert feature_specs.parse(spec.to_dict()).to_dict() == spec.to_dict()
    entry = spec.objectives["y"]
    assert (entry.logits_dimension, entry.width, entry.label_bounds) == (2, 2, (0, None))
    assert spec.used_features() == ("x",)


@pytest.mark.parametrize(
    ("change", "label", "features", "problem"),
    [
        ({"boundaries": [30, 7]}, FLOAT, GONE,
         "objectives.y: boundaries must be strictly increasing, got [30.0, 7.0]"),
        ({"boundaries": [0, 7]}, FLOAT, GONE,
         "objectives.y.boundaries[0]: got 0, expected greater than 0"),
        ({"event": "gon"}, FLOAT, GONE,
         "objectives.y.event: got 'gon', expected a feature or a label. Did you mean 'gone'?"),
        ({"event": "y"}, INTEGER, {},
         "objectives.y.event: got the label 'y' itself. Name a feature or another label."),
        ({}, FLOAT, {"gone": FLOAT},
         "objectives.y.event: 'gone' is float32 with the shape [], expected one int64 per row"),
        ({}, FLOAT, {"gone": IDS},
         "objectives.y.event: 'gone' is int64 with the shape variable, expected one int64 per row"),
        ({"event": "x"}, FLOAT, {},
         "objectives.y.event: 'x' is float32 with the shape [], expected one int64 per row"),
        ({}, {**FLOAT, "shape": [2]}, GONE,
         "objectives.y: label 'y' has the shape [2], but the head survival learns one value."),
    ],
)  # fmt: skip
def test_problems_of_a_survival(change, label, features, problem):
    with pytest.raises(SpecError) as error:
        parse({**SURVIVAL, **change}, label, features)
    assert problem in " ".join(str(error.value).split())


def test_an_event_does_not_leak_into_the_model():
    with pytest.raises(SpecError) as error:
        feature_specs.parse(
            {
                "features": GONE,
                "columns": {"gone": {"identity": "gone", "size": 2}, "hot": {"indicator": "gone"}},
                "groups": {"deep": ["hot"]},
                "labels": {"y": FLOAT},
                "objectives": {"y": SURVIVAL},
            }
        )
    assert (
        "objectives.y.event: feature 'gone' is in a group and would leak into the model. Remove it "
        "from the group."
    ) in " ".join(str(error.value).split())


def test_an_ignored_event_is_named():
    with pytest.raises(SpecError, match="'gone' is used by the event of objective 'y'"):
        feature_specs.parse({**parse(SURVIVAL, FLOAT, GONE).to_dict(), "ignored": ["gone"]})


LATE = {"head": "binary", "loss": {"delayed_feedback": {"elapsed": "hours", "delay": 24.0}}}
HOURS = {"hours": FLOAT}


def test_a_delayed_feedback_is_what_its_dict_says():
    spec = parse({**LATE, "metrics": ["log_loss"]}, INTEGER, HOURS)
    assert spec.to_dict()["objectives"]["y"] == {**LATE, "metrics": ["log_loss"]}
    assert feature_specs.parse(spec.to_dict()).to_dict() == spec.to_dict()
    entry = spec.objectives["y"]
    assert (entry.logits_dimension, entry.width, entry.classes) == (2, 2, 2)
    plain = parse({"head": "binary"}, INTEGER).objectives["y"]
    assert (plain.logits_dimension, plain.width, plain.label_parts) == (1, 1, ())
    for aspect in ("values", "weights"):  # A label of two numbers, and a second logit.
        assert spec.meaning([aspect])["objectives.y.elapsed"] == "hours"


@pytest.mark.parametrize(
    ("change", "features", "problem"),
    [
        ({"positive_penalty": 2.0}, HOURS,
         "objectives.y: the loss delayed_feedback learns probabilities, which positive_penalty "
         "would change. Remove one of the two."),
        ({"steps": 3}, HOURS,
         "objectives.y: the loss delayed_feedback learns one label per row, so it cannot be "
         "combined with steps. Remove one of the two."),
        ({"loss": "delayed_feedback"}, {},
         "objectives.y.loss.elapsed: is missing"),
        ({}, {"hour": FLOAT},
         "objectives.y.loss.delayed_feedback.elapsed: got 'hours', expected a feature or a label. "
         "Did you mean 'hour'?"),
        ({}, {"hours": {"dtype": "string"}},
         "objectives.y.loss.delayed_feedback.elapsed: 'hours' is string with the shape [], "
         "expected one number per row"),
    ],
)  # fmt: skip
def test_problems_of_a_delayed_feedback(change, features, problem):
    with pytest.raises(SpecError) as error:
        parse({**LATE, **change}, INTEGER, features)
    assert problem in " ".join(str(error.value).split())


QUERY = {"query": {"dtype": "string"}}


@pytest.mark.parametrize(
    ("fields", "bounds"),
    [
        ({}, (0, None)),
        ({"loss": {"list_mle": {}}, "metrics": ["mrr"], "reduction": "sum"}, (0, None)),
        ({"loss": {"approx_ndcg": {"temperature": 1.0}}}, (0, None)),
        ({"loss": {"pairwise_hinge": {"lambda_weight": "ndcg"}}}, (0, 30)),
        ({"loss": {"unique_softmax": {}}}, (0, 30)),
    ],
)
def test_a_ranking_is_what_its_dict_says(fields, bounds):
    objective = {"head": "ranking", "group_by": "query", **fields}
    spec = parse(objective, INTEGER, QUERY)
    assert spec.to_dict()["objectives"]["y"] == objective
    assert feature_specs.parse(spec.to_dict()).to_dict() == spec.to_dict()
    assert spec.objectives["y"].label_bounds == bounds
    assert spec.kept_together == "query"
    assert parse({"head": "binary"}, INTEGER).kept_together is None


def test_rankings_of_one_spec_have_one_group():
    ranking = {"head": "ranking", "group_by": "query"}
    with pytest.raises(SpecError) as error:
        feature_specs.parse(
            {
                "features": {"x": FLOAT, "query": INTEGER, "user": INTEGER},
                "columns": {"x": {"numeric": "x"}},
                "groups": {"deep": ["x"]},
                "labels": {"y": INTEGER, "z": INTEGER},
                "objectives": {"y": ranking, "z": {**ranking, "group_by": "user"}},
            }
        )
    assert str(error.value).endswith(
        "objectives.z.group_by: got 'user', but another objective ranks by 'query'. All ranking "
        "objectives need the same group_by, because only one feature can decide which rows share "
        "a batch."
    )


@pytest.mark.parametrize(
    ("objective", "label", "problem"),
    [
        ({"head": "binary", "loss": "focall"}, INTEGER,
         "objectives.y.loss: got 'focall', expected a loss of this head. Did you mean 'focal'?"),
        ({"head": "regression", "loss": {"pinball": 0.3}}, FLOAT,
         "objectives.y.loss.pinball: got 0.3, expected a mapping of quantile"),
        ({"head": "regression", "loss": {"log_cosh": 3}}, FLOAT,
         "objectives.y.loss.log_cosh: got 3, expected {}, because it has no options"),
        ({"head": "poisson", "loss": "squared"}, INTEGER,
         "objectives.y.loss: got 'squared', expected a loss of this head. Use one of: poisson."),
        ({"head": "regression", "loss": {"huber": {"delta": 0}}}, FLOAT,
         "objectives.y.loss.huber.delta: got 0, expected greater than 0"),
        ({"head": "binary", "metrics": ["gauk"]}, INTEGER,
         "objectives.y.metrics: got 'gauk', expected a metric of this head. Did you mean 'gauc'?"),
        ({"head": "binary", "metrics": ["recall_at_precision"]}, INTEGER,
         "objectives.y.metrics: got 'recall_at_precision', expected a number between 0 and 1, as "
         "in {recall_at_precision: 0.9}"),
        ({"head": "binary", "metrics": [{"ndcg": 0}], "group_by": "x"}, INTEGER,
         "objectives.y.metrics: got {'ndcg': 0}, expected an integer of 1 or more, as in "
         "{ndcg: 10}"),
        ({"head": "binary", "metrics": [{"log_loss": 1}]}, INTEGER,
         "objectives.y.metrics: got {'log_loss': 1}, expected log_loss without a number"),
        ({"head": "binary", "metrics": ["log_loss", "log_loss"]}, INTEGER,
         "objectives.y.metrics: metric 'log_loss' is listed twice. Remove one of them."),
        ({"head": "binary", "metrics": ["gauc"]}, INTEGER,
         "objectives.y: the metric gauc needs groups. Add group_by with the feature that names "
         "the group of a row, such as a user id."),
        ({"head": "binary", "group_by": "x"}, INTEGER,
         "objectives.y: no metric uses group_by. Add one of gauc, mrr, ndcg, hit_rate to metrics, "
         "or remove group_by."),
        ({"head": "binary", "metrics": ["gauc"], "group_by": "x"}, INTEGER,
         "objectives.y.group_by: feature 'x' is float32 with the shape (), expected one string or "
         "int64"),
        ({"head": "binary", "metrics": ["gauc"], "group_by": "z"}, INTEGER,
         "objectives.y.group_by: got 'z', expected the name of a feature. Use one of: x."),
        ({"head": "multi_class", "num_classes": 30, "metrics": ["confusion"]}, INTEGER,
         "objectives.y: confusion has one metric per pair of classes and allows up to 20 classes, "
         "got 30. Use f1 or mean_iou instead."),
        ({"head": "multi_class", "num_classes": 3, "metrics": [{"top_k_accuracy": 3}]}, INTEGER,
         "objectives.y: top_k_accuracy: got 3, expected less than the 3 classes, because "
         "otherwise "
         "it is always 1"),
        ({"head": "ranking", "group_by": "x"}, INTEGER,
         "objectives.y.group_by: feature 'x' is float32 with the shape (), expected one string or "
         "int64"),
        ({"head": "ranking", "group_by": "z", "loss": "softmax"}, INTEGER,
         "objectives.y.group_by: got 'z', expected the name of a feature. Use one of: x."),
        ({"head": "ranking", "group_by": "z", "loss": {"softmax": {"lambda_weight": "ndcg"}}},
         INTEGER, "objectives.y.loss.softmax.lambda_weight: unknown key"),
        ({"head": "quantile", "quantiles": [0.5, 0.5]}, FLOAT,
         "objectives.y: quantiles must be strictly increasing, got [0.5, 0.5]"),
        ({"head": "multi_label", "num_classes": 3}, INTEGER,
         "objectives.y: label 'y' has the shape [], expected shape: variable for a list of "
         "classes, or shape: [3] for one 0 or 1 per class"),
        ({"head": "multi_label", "num_classes": 3},
         {"dtype": "string", "shape": "variable", "vocabulary": ["a", "b"]},
         "objectives.y: the head has 3 classes, but the vocabulary of label 'y' has 2 words. Make "
         "them equal."),
        ({"head": "cosine", "dimension": 3}, {**FLOAT, "shape": [2]},
         "objectives.y: label 'y' has the shape [2], expected shape: [3] for one number per "
         "logit"),
        ({"head": "binary"}, {**INTEGER, "shape": [2]},
         "objectives.y: label 'y' has the shape [2], but the head binary learns one value. Remove "
         "shape, or use the head multi_label or cosine."),
        ({"head": "multi_label", "num_classes": 3}, {"dtype": "string", "shape": "variable"},
         "objectives.y: label 'y': a string label needs a vocabulary"),
        ({"head": "poisson"}, {"dtype": "string", "vocabulary": ["a", "b"]},
         "objectives.y: label 'y' is a string, expected a number"),
        ({"head": "binary"}, {**INTEGER, "missing": "no_class"},
         "labels.y: missing: no_class needs a list (shape: variable). Use missing: mask to leave "
         "out rows without a value, or remove missing to make them an error."),
        ({"head": "multi_label", "num_classes": 3}, {**FLOAT, "shape": "variable"},
         "labels.y: a list of classes must be int64 or string, got float32"),
    ],
)  # fmt: skip
def test_what_a_wrong_objective_is_told(objective, label, problem):
    with pytest.raises(SpecError) as error:
        parse(objective, label)
    assert str(error.value) == f"<dict>: 1 problem in the feature spec\n  <dict>: {problem}"


@pytest.mark.parametrize(
    ("entry", "words", "names"),
    [
        ({"head": "binary"}, None, ("1",)),
        ({"head": "binary"}, ["no", "yes"], ("yes and not no",)),
        ({"head": "binary", "steps": 2}, None, ("1", "1 (1)")),
        ({"head": "multi_class", "num_classes": 3}, None, (0, 1, 2)),
        ({"head": "multi_class", "num_classes": 3}, ["a", "b", "c"], ("a", "b", "c")),
        ({"head": "multi_label", "num_classes": 2}, ["a", "b"], ("a", "b")),
        (
            {"head": "ordinal", "num_classes": 3},
            ["a", "b", "c"],
            ("above 0 of a, b, c", "above 1 of a, b, c"),
        ),
        ({"head": "regression"}, None, (0,)),
        ({"head": "cosine", "dimension": 2}, None, ("0 of 2", "1 of 2")),
        ({"head": "quantile", "quantiles": [0.1, 0.5]}, None, (0.1, 0.5)),
        ({"head": "quantile", "quantiles": [0.5], "non_crossing": True}, None, ("0 of (0.5,)",)),
        ({"head": "survival", "event": "e", "boundaries": [7, 30]}, None, ((0, 7), (7, 30))),
        ({"head": "ziln"}, None, (0, 1, 2)),
    ],
)
def test_names_of_logits(entry, words, names):
    assert HEADS[entry["head"]].model_validate(entry).logit_names(words) == names


NUMBERS = {"count": (1, 5, 10, 1_000_000), "share": (0.9, 0.25, 1e-05, 1.5e-07, 0.9999999)}


@pytest.mark.parametrize("kind", METRICS.values(), ids=METRICS)
def test_a_label_tells_its_metric(kind):
    labels = [MetricChoice(kind, value).label for value in NUMBERS.get(kind.number, (None,))]
    for label in (kind.name, *labels):
        assert [other.name for other in METRICS.values() if other.has_label(label)] == [kind.name]
        assert kind_of(label) == kind
    assert len({*labels}) == len(labels)


@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)
def test_the_labels_of_a_head_tell_their_metrics(head):
    field = head.metric_field()
    choices = [
        field.choice({name: value} if value else name)
        for name, kind in field.kinds.items()
        for value in NUMBERS.get(kind.number, (None,))
    ]
    choices += [*head.main, *map(MetricChoice, (*head.always, *head.sometimes, *head.judged_by))]
    for choice in choices:
        if choice.value is not None or choice.kind.number is None:
            assert kind_of(choice.label) == choice.kind


def test_the_ranges_of_the_metrics_that_judge_a_model():
    share, least_0 = (0, 1), (0, math.inf)
    judging = {kind.name: kind.range for head in HEADS.values() for kind in head.judged_by}
    assert judging == {
        "auc": share, "accuracy": share, "concordance": share, "log_loss": least_0,
        "calibration": least_0, "mean_absolute_error": least_0, "mean_squared_error": least_0,
    }  # fmt: skip
    assert {name for name, kind in METRICS.items() if kind.range is not None} == {*judging}


@pytest.mark.parametrize("label", ["own", "ndcg_at_", "top_x_accuracy", "recall_0.9", "auc_at_10"])
def test_other_labels_have_no_metric(label):
    assert kind_of(label) is None
