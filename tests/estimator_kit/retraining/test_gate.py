"""The gate: every condition, its value and its verdict, computed by hand."""

from __future__ import annotations

import numpy as np
import pytest

from estimator_kit.model.heads import row_metric, row_metrics
from estimator_kit.retraining import gate
from estimator_kit.retraining.gate import Finding, Scored
from feature_specs.sections.retraining import Gate

LABELS = np.array([0, 0, 1, 1] * 50)
# GOOD has the AUC 1 and the mean 0.5. EVEN is 0.5 for each row.
GOOD = np.array([0.2, 0.3, 0.7, 0.8] * 50)
EVEN = np.full(200, 0.5)
COUNTRY = np.array([b"DE"] * 120 + [b"FR"] * 60 + [b"SE"] * 20)


def judged(
    *conditions, candidate=GOOD, live=GOOD, labels=LABELS, weights=None, measured=None, **bootstrap
):
    """The findings about two models, from their probabilities."""
    with np.errstate(divide="ignore"):
        outputs = [p if p is None else np.log(p) - np.log1p(-p) for p in (candidate, live)]
    scored = {"click": Scored("binary", labels, _weights(labels, weights), *outputs)}
    section = Gate.model_validate(
        {"conditions": list(conditions), "bootstrap": {"samples": 100, **bootstrap}}
    )
    return gate.judge(section, scored, {"country": COUNTRY}, measured or {})


def _weights(labels, weights):
    return np.ones(len(labels)) if weights is None else weights


def test_floors_and_ceilings():
    found = judged(
        {"metric": "auc/click", "min": 0.9},
        {"metric": "calibration/click", "min": 1.1, "max": 1.2},
        {"metric": "size_mib", "max": 3},
        measured={"size_mib": 2.5},
    )
    assert [(f.text, f.passed, f.value, f.rows) for f in found] == [
        ("auc/click min 0.9", True, 1.0, 200),
        ("calibration/click min 1.1", False, pytest.approx(1.0), 200),
        ("calibration/click max 1.2", True, pytest.approx(1.0), 200),
        ("size_mib max 3", True, 2.5, None),
    ]
    assert not gate.passed(found) and gate.passed(found[2:])
    assert found[1].sentence == "REFUSED: calibration/click min 1.1: 1"


def test_a_bound_itself_passes():
    found = judged({"metric": "auc/click", "min": 1.0, "max": 1.0})
    assert gate.passed(found)


@pytest.mark.parametrize(
    ("candidate", "live", "max_loss", "passes"),
    [
        (GOOD, GOOD, 0.0, True),
        (GOOD, EVEN, 0.0, True),
        (EVEN, GOOD, 0.4, False),
        (EVEN, GOOD, 0.5, True),
        (GOOD, EVEN, -0.5, True),
        (GOOD, EVEN, -0.6, False),  # The candidate is better by 0.5, and must be by 0.6.
    ],
)
def test_how_much_worse_than_live(candidate, live, max_loss, passes):
    (found,) = judged({"metric": "auc/click", "max_loss": max_loss}, candidate=candidate, live=live)
    assert found.passed is passes
    # The AUC of both is the same in every draw, so the interval is a point.
    expected = {True: 0.0, False: 0.5 if live is EVEN else -0.5}[candidate is live]
    assert found.low == found.high == pytest.approx(expected)


def test_the_whole_interval_has_to_be_good_unless_the_estimate_is_asked_for():
    random = np.random.default_rng(0)
    live = np.clip(GOOD + random.normal(0, 0.2, 200), 0.01, 0.99)
    candidate = np.clip(GOOD + random.normal(0, 0.2, 200), 0.01, 0.99)
    first, second = judged(
        {"metric": "log_loss/click", "max_loss": 0.05},
        {"metric": "log_loss/click", "max_loss": 0.05, "by": "estimate"},
        candidate=candidate, live=live,
    )  # fmt: skip
    assert first.low < first.value - first.live < 0.05 < first.high
    assert (first.passed, second.passed) == (False, True)


def test_calibration_is_held_against_the_right_one():
    # 0.5 is as far from 1 as 2 is: log 2 = 0.69 for both.
    low, high = np.full(200, 0.125), np.full(200, 0.5)
    labels = np.array([0, 0, 0, 1] * 50)
    (found,) = judged(
        {"metric": "calibration/click", "max_loss": 0.01, "by": "estimate"},
        candidate=low, live=high, labels=labels,
    )  # fmt: skip
    assert found.passed and (found.value, found.live) == pytest.approx((0.5, 2.0))


def test_slices_are_judged_one_by_one_and_small_ones_are_listed():
    candidate = np.where(COUNTRY == b"FR", 1 - GOOD, GOOD)
    found = judged(
        {"metric": "auc/click", "max_loss": 0.1, "slice": "country", "min_rows": 60},
        candidate=candidate,
    )
    assert [(f.slice, f.rows, f.passed) for f in found] == [
        ("country=DE", 120, True), ("country=FR", 60, False), ("country", None, None),
    ]  # fmt: skip
    assert found[1].sentence == (
        "REFUSED: auc/click max_loss 0.1 (country=FR, 60 rows): 0, live 1, difference -1 to -1"
    )
    assert found[2].note == "1 value with fewer than 60 rows"


def test_without_a_live_model_differences_are_not_judged():
    found = judged({"metric": "auc/click", "max_loss": 0.1, "min": 0.5}, live=None)
    assert [f.passed for f in found] == [True, None] and gate.passed(found)
    assert found[1].note == "no model is live yet"


def test_an_undefined_metric_refuses_unless_it_is_of_a_slice():
    labels = np.where(COUNTRY == b"FR", 0, LABELS)
    found = judged(
        {"metric": "auc/click", "min": 0.1, "slice": "country", "min_rows": 50}, labels=labels
    )
    assert [(f.slice, f.passed) for f in found][1] == ("country=FR", None)
    (found,) = judged({"metric": "auc/click", "min": 0.1}, labels=0 * LABELS)
    assert found.passed is False
    assert found.note == "the metric is undefined: the evaluation has no rows for it"


def test_an_undefined_difference_refuses_unless_it_is_of_a_slice():
    labels = np.where(COUNTRY == b"FR", 0, LABELS)
    condition = {"metric": "auc/click", "max_loss": 0.1}
    found = judged({**condition, "slice": "country", "min_rows": 50}, labels=labels)
    assert [(f.slice, f.passed) for f in found][:2] == [("country=DE", True), ("country=FR", None)]
    assert found[1].note == "the metric is undefined: the evaluation has no rows for it"
    (found,) = judged(condition, labels=0 * LABELS)
    assert found.passed is False


def test_a_difference_without_an_interval_refuses_unless_it_is_of_a_slice():
    """A third of the samples do not draw the only positive row, so they have no AUC."""
    labels = np.where(np.arange(200) == 2, 1, 0)
    (found,) = judged({"metric": "auc/click", "max_loss": 0.1}, labels=labels)
    assert found.passed is False and found.value == found.live
    assert found.note == (
        "the metric is undefined in too many bootstrap samples, so it has no interval"
    )
    found = judged(
        {"metric": "auc/click", "max_loss": 0.1, "slice": "country", "min_rows": 120}, labels=labels
    )
    assert [(f.slice, f.passed) for f in found] == [("country=DE", None), ("country", None)]
    (found,) = judged({"metric": "auc/click", "max_loss": 0.1, "by": "estimate"}, labels=labels)
    assert found.passed is True


def test_groups_are_drawn_together():
    (found,) = judged(
        {"metric": "log_loss/click", "max_loss": 1.0}, candidate=EVEN, group_by="country"
    )
    # The rows of all three groups are equal, so each draw has the same mean.
    assert found.low == pytest.approx(found.high)


@pytest.mark.parametrize("wrong", [np.nan, 1.0])
def test_a_prediction_that_is_not_finite_refuses_whatever_is_asked_for(wrong):
    # The logit of the probability 1 is infinite. NaN sorts above all scores, so on rows with a
    # click the AUC would stay 1.
    candidate = np.where(np.arange(200) % 100 == 3, wrong, GOOD)
    found = judged(
        {"metric": "auc/click", "min": 0.9, "max_loss": 0.1},
        {"metric": "auc/click", "min": 0.9, "slice": "country", "min_rows": 50},
        {"metric": "size_mib", "max": 3},
        candidate=candidate, measured={"size_mib": 2.5},
    )  # fmt: skip
    assert [(f.text, f.slice, f.passed) for f in found] == [
        ("predictions/click finite", "", False),
        ("auc/click min 0.9 max_loss 0.1", "", False),
        ("auc/click min 0.9", "country=DE", False),
        ("auc/click min 0.9", "country=FR", True),
        ("auc/click min 0.9", "country", None),
        ("size_mib max 3", "", True),
    ]
    assert found[0].sentence == (
        "REFUSED: predictions/click finite; 2 rows have a prediction that is NaN or infinite"
    )
    found = judged({"metric": "size_mib", "max": 3}, candidate=candidate, measured={"size_mib": 1})
    assert not gate.passed(found)


def test_a_live_model_that_predicts_nan_decides_nothing():
    live = np.where(np.arange(200) % 4 == 3, np.nan, GOOD)
    found = judged({"metric": "auc/click", "min": 0.9, "max_loss": 0.0}, live=live)
    assert [f.passed for f in found] == [True, None] and gate.passed(found)
    assert found[1].note == "the live model's prediction of 50 rows is NaN or infinite"


def test_rows_that_are_not_finite_are_counted():
    classes = np.array([[0.5, 0.5], [np.nan, 0.5], [np.inf, np.nan]])
    assert row_metrics.not_finite(classes) == 2
    assert row_metrics.not_finite(classes[:, 1]) == 1
    assert row_metrics.not_finite(np.zeros((0, 2))) == 0
    for name, labels in (("accuracy", [0, 1, 1]), ("log_loss", [0, 1, 1])):
        assert np.isnan(row_metric(name, "ordinal", np.array(labels), classes, np.ones(3)).value())
    scores = np.array([0.1, 0.2, np.nan])
    metric = row_metric("auc", "binary", np.array([0, 0, 1]), scores, np.ones(3))
    assert np.isnan(metric.value()) and np.isnan(metric.value(np.array([1.0, 2.0, 0.0])))


def test_a_percentage_is_relative_to_the_live_model():
    """The log loss of EVEN is log 2, and the candidate's is about 1.5% larger."""
    worse = np.where(LABELS == 1, 0.495, 0.505)
    loss = float(-np.log(0.495))
    limits = {"1%": False, "2%": True, "-1%": False}
    for limit, passes in limits.items():
        condition = {"metric": "log_loss/click", "max_loss": limit}
        (found,) = judged(condition, candidate=worse, live=EVEN)
        assert (found.text, found.passed) == (f"log_loss/click max_loss {limit}", passes)
        assert found.value == pytest.approx(loss) and found.live == pytest.approx(np.log(2))


def test_rows_without_weight_do_not_count_for_the_size_of_a_slice():
    weights = np.where(np.arange(200) < 90, 0.0, 1.0)  # DE keeps 30 of its 120 rows.
    condition = {"metric": "auc/click", "min": 0.5, "slice": "country", "min_rows": 50}
    found = judged(condition, weights=weights)
    assert [(f.slice, f.passed) for f in found] == [("country=FR", True), ("country", None)]
    assert found[1].note == "2 values with fewer than 50 rows"


def test_the_difference_of_calibration_is_of_distances():
    (found,) = judged({"metric": "calibration/click", "max_loss": 0.1})
    assert found.sentence.endswith("difference of abs(log) +0 to +0")


NO_LIVE = [
    Finding(text="auc/click min 0.5", passed=True, value=0.9),
    Finding(text="auc/click max_loss 0.1", passed=None, value=0.9, note="why", compares=True),
    Finding(text="log_loss/click max_loss 5%", passed=None, value=0.2, note="why", compares=True),
    Finding(text="auc/click max_loss 0.1", passed=False, value=0.2, slice="country=DE"),
]


def test_a_gate_that_could_compare_nothing_refuses():
    section = Gate.model_validate({"conditions": []})
    (found,) = gate.unjudged(section, NO_LIVE)
    assert found.sentence == (
        "REFUSED: a comparison with the live model; why. Look at the metrics of the candidate in "
        "the report. To promote it, set promote_unjudged: true in the gate for one cycle."
    )
    # One comparison is enough, and a gate that asks for none, or allows it, refuses nothing.
    compared = Finding(text="log_loss/buy max_loss 1", passed=True, compares=True)
    assert gate.unjudged(section, [*NO_LIVE, compared]) == []
    assert gate.unjudged(section, NO_LIVE[:1]) == []
    assert gate.unjudged(Gate(promote_unjudged=True), NO_LIVE) == []
