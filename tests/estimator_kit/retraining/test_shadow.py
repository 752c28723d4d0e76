"""How far apart the answers of two models are, by hand, and what the gate makes of it."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import scipy.stats

from estimator_kit.retraining import gate, shadow
from estimator_kit.retraining.shadow import Shadow, measure
from feature_specs.errors import SpecError
from feature_specs.parser import parser
from feature_specs.sections.retraining import Gate
from tests.conftest import DOCUMENT

# Two requests of three and two rows, and one of one row.
REQUESTS = np.array([0, 0, 0, 1, 1, 2])
CANDIDATE = np.array([0.1, 0.2, 0.3, 0.9, 0.8, 0.5])
LIVE = np.array([0.1, 0.3, 0.2, 0.9, 0.8, 0.1])


def answers(candidate=CANDIDATE, live=LIVE, requests=REQUESTS, **more):
    return Shadow(requests, {"click": candidate}, {"click": live}, **more)


def test_the_difference_is_the_mean_of_all_rows():
    value, rows = measure("shadow_difference", "click", answers())
    assert value == pytest.approx((0 + 0.1 + 0.1 + 0 + 0 + 0.4) / 6) and rows == 6
    # Logits are compared as probabilities.
    logits = [np.log(p / (1 - p)) for p in (CANDIDATE, LIVE)]
    value, _ = measure("shadow_difference", "click", answers(*logits, logits=frozenset(["click"])))
    assert value == pytest.approx(0.1)


def test_of_several_numbers_in_a_row_the_largest_difference_counts():
    candidate = np.array([[0.2, 0.5, 0.3], [1.0, 0.0, 0.0]])
    live = np.array([[0.1, 0.4, 0.5], [1.0, 0.0, 0.0]])
    found = measure("shadow_difference", "click", answers(candidate, live, np.array([0, 1])))
    assert found == (pytest.approx(0.2 / 2), 2)


def test_the_order_within_a_request():
    # One of three pairs, and none of one pair. The request of one row does not count.
    value, rows = measure("shadow_order", "click", answers())
    assert value == pytest.approx((1 / 3 + 0) / 2) and rows == 5
    # Level in one model alone is another order.
    found = measure(
        "shadow_order", "click", answers(np.ones(2), np.array([1.0, 2.0]), REQUESTS[:2])
    )
    assert found == (1.0, 2)
    same = measure("shadow_order", "click", answers(np.ones(2), np.zeros(2), REQUESTS[:2]))
    assert same == (0.0, 2)
    assert math.isnan(measure("shadow_order", "click", answers(requests=np.arange(6))).value)


def test_the_order_of_long_requests_is_that_of_kendalls_tau():
    random = np.random.default_rng(1)
    candidate, live = random.normal(size=700), random.normal(size=700)
    value, rows = measure("shadow_order", "click", answers(candidate, live, np.zeros(700, int)))
    tau = scipy.stats.kendalltau(candidate, live).statistic
    assert value == pytest.approx((1 - tau) / 2) and rows == 700


def test_the_top_k():
    # Candidate {2}, live {1}; both {3}. The request of one row has no more rows than k.
    assert measure("shadow_top_k", "click", answers(top_k=1)) == (0.5, 5)
    # Candidate {1, 2}, live {1, 2}; the second request has two rows.
    assert measure("shadow_top_k", "click", answers(top_k=2)) == (0.0, 3)
    assert math.isnan(measure("shadow_top_k", "click", answers(top_k=3)).value)
    # Of equal scores, the first rows.
    level = answers(np.zeros(3), np.array([0.0, 0.0, 1.0]), REQUESTS[:3], top_k=2)
    assert measure("shadow_top_k", "click", level) == (0.5, 3)


def test_rows_of_a_request_may_be_apart():
    order = np.array([5, 3, 0, 4, 1, 2])
    mixed = answers(CANDIDATE[order], LIVE[order], REQUESTS[order], top_k=1)
    for name in ("shadow_difference", "shadow_order", "shadow_top_k"):
        assert measure(name, "click", mixed) == measure(name, "click", answers(top_k=1))


def judged(condition, answered):
    section = Gate.model_validate({"conditions": [{"min_rows": 5, **condition}]})
    return gate.judge(section, {}, {}, {}, answered)


DIFFERENCE = {"metric": "shadow_difference/click", "max": 0.1}


def test_a_bound_of_the_gate():
    (found,) = judged(DIFFERENCE, answers(note="3 requests"))
    assert found.sentence == "passed: shadow_difference/click max 0.1: 0.1; 3 requests"
    (found,) = judged({**DIFFERENCE, "max": 0.05}, answers())
    assert found.passed is False and found.rows == 6
    (found,) = judged({"metric": "shadow_order/click", "max": 0.2}, answers())
    assert found.passed and found.value == pytest.approx(1 / 6) and found.rows == 5


@pytest.mark.parametrize(
    ("answered", "passed", "note"),
    [
        (None, None, "no model is live yet"),
        (shadow.problem("no log"), False, "no log"),
        (answers(np.full(6, np.nan)), False,
         "the candidate's answers to 6 logged rows are NaN or infinite"),
        (answers(live=np.full(6, np.inf)), False,
         "the live model's answers to 6 logged rows are NaN or infinite"),
        (answers(CANDIDATE[:4], LIVE[:4], REQUESTS[:4], note="2 requests"), False,
         "expected at least 5 rows (min_rows) that count: 2 requests"),
        (Shadow(REQUESTS, {"click": CANDIDATE}, {}), None, gate.OTHER_OBJECTIVE),
    ],
)  # fmt: skip
def test_what_cannot_be_measured_does_not_pass(answered, passed, note):
    (found,) = judged(DIFFERENCE, answered)
    assert (found.passed, found.note) == (passed, note)


def test_a_gate_that_could_compare_nothing_refuses():
    section = Gate.model_validate({"conditions": [DIFFERENCE]})
    found = gate.judge(section, {}, {}, {}, Shadow(REQUESTS, {"click": CANDIDATE}, {}))
    (refusal,) = gate.unjudged(section, found)
    assert refusal.passed is False


@pytest.mark.parametrize(
    ("condition", "changes", "message"),
    [
        ({"max_loss": 0.1}, {}, "shadow_difference/click compares two models already, on whole "
         "requests. Set only min or max, and remove max_loss and slice."),
        ({"metric": "shadow_order/click", "max": 2}, {},
         "max: shadow_order is always between 0 and 1, got 2."),
        ({"metric": "shadow_order/clik", "max": 0.1}, {},
         "got 'shadow_order/clik', expected an objective with scores. Did you mean "
         "'shadow_order/click'?"),
        ({"metric": "shadow_orders/click", "max": 0.1}, {},
         "got 'shadow_orders/click', expected a metric that the gate has for the head binary"),
        ({"max": 0.1}, {"price": {"dtype": "float32", "default": 0.0, "private": True}},
         "the model reads the private feature 'price', which request logs do not have, so no model "
         "can answer logged requests. Remove the condition, or `private`."),
    ],
)  # fmt: skip
def test_wrong_conditions(condition, changes, message):
    document = copy.deepcopy(DOCUMENT)
    document["features"] |= changes
    entry = {"metric": "shadow_difference/click", **condition}
    document["retraining"] = {"gate": {"conditions": [entry]}}
    with pytest.raises(SpecError) as error:
        parser.parse(document)
    assert message in str(error.value)


def test_an_order_needs_one_number_in_a_row():
    document = copy.deepcopy(DOCUMENT)
    document["labels"]["grade"] = {"dtype": "int64"}
    document["objectives"]["grade"] = {"head": "multi_class", "num_classes": 3}
    document["retraining"] = {
        "gate": {"conditions": [{"metric": "shadow_order/grade", "max": 0.1}]}
    }
    with pytest.raises(SpecError) as error:
        parser.parse(document)
    assert (
        "the head multi_class answers a row with several numbers, which have no order. Use "
        "shadow_difference/grade."
    ) in str(error.value)
