"""Every model, head and loss learns: no start value is an optimum or a point without a gradient.

`toys` describes what they learn. A pair has to come 90 % of the way from the best constant to the
best predictions, which follow from the data in closed form. It uses the model's default optimizer.
"""

from __future__ import annotations

import pytest

from estimator_kit.models import MODELS
from feature_specs.heads import HEADS
from tests.conformance import learning, table, toys

SPECIAL = (*learning.TASK_MODELS, *learning.NEXT_ITEM_MODELS, *learning.MATCHING_MODELS)
FREE = [name for name in MODELS if name not in SPECIAL]


def check(case, steps=200):
    reached = learning.progress(case, steps)
    assert min(reached.values()) > 0.9, {
        name: (entry["loss"] if "loss" in entry else entry["head"], reached[name])
        for name, (_, entry) in case.objectives.items()
        if not reached[name] > 0.9
    }


def one_of_each(model):
    """The model with one or two heads and their default losses: other heads for each model."""
    if model in learning.TASK_MODELS:
        return learning.task_pair(model, {"sigmoid_cross_entropy": {}})
    if model in learning.NEXT_ITEM_MODELS:
        return learning.pair(model, [("next_item", None)])
    if model in learning.MATCHING_MODELS:
        return learning.matching_pair(model, [("binary", None), ("ranking", None)])
    heads, place = table.ROW_HEADS, FREE.index(model)
    chosen = heads[place % len(heads)], heads[(place + len(heads) // 2) % len(heads)]
    return learning.pair(model, [(head, None) for head in chosen])


def test_every_head_has_a_toy_and_every_special_model_is_one():
    assert set(toys.TOYS) == set(HEADS)
    assert set(learning.PARAMS) <= set(MODELS) and set(SPECIAL) <= set(MODELS)
    only_some = {name for name, case in table.MODEL_CASES.items() if case.objectives is not None}
    assert only_some == set(SPECIAL)


@pytest.mark.ci
@pytest.mark.parametrize("model", MODELS)
def test_each_model_learns(model):
    check(one_of_each(model))


@pytest.mark.ci
def test_each_head_learns_with_each_loss():
    """In `linear`, no objective shares a variable with another one, so one model has them all."""
    cases = [(h, loss) for h in table.ROW_HEADS for loss in toys.losses_and_options(h)]
    assert len(cases) > 40
    check(learning.pair("linear", cases))


@pytest.mark.ci
@pytest.mark.parametrize("loss", table.losses_of_head("next_item"))
def test_the_head_next_item_learns_with_each_loss(loss):
    check(learning.pair("gru4rec", [("next_item", {loss: {}})]))


@pytest.mark.nightly
@pytest.mark.parametrize("model", FREE)
def test_every_model_learns_every_head_with_every_loss(model):
    """All pairs of a model at once. A pair that others disturb has to learn alone."""
    cases = [(h, loss) for h in HEADS for loss in toys.losses_and_options(h)]
    reached = learning.progress(learning.pair(model, cases)).values()
    for case in [case for case, share in zip(cases, reached) if not share > 0.9]:
        check(learning.pair(model, [case]))


@pytest.mark.nightly
@pytest.mark.parametrize("loss", toys.losses_and_options("next_item"), ids=str)
@pytest.mark.parametrize("model", learning.NEXT_ITEM_MODELS)
def test_every_model_of_items_learns_with_every_loss(model, loss):
    check(learning.pair(model, [("next_item", loss)]))


@pytest.mark.nightly
@pytest.mark.parametrize("loss", table.losses_of_head("binary"))
@pytest.mark.parametrize("model", learning.TASK_MODELS)
def test_every_model_of_tasks_learns_with_every_loss(model, loss):
    if loss == "delayed_feedback":
        pytest.skip("models of tasks need one logit for each objective")
    check(learning.task_pair(model, {loss: {}}))


@pytest.mark.nightly
@pytest.mark.parametrize("loss", toys.losses_and_options("ranking"), ids=str)
def test_two_tower_learns_rankings_with_every_loss(loss):
    # Longer, because list_mle also makes the scores of equal labels equal.
    check(learning.matching_pair("two_tower", [("binary", None), ("ranking", loss)]), steps=400)
