"""leaks and label_effect: made-up data in which the answer is known."""

from __future__ import annotations

import numpy as np
import pytest

from input_pipelines.prepare.analyze import label_effect, leaks
from input_pipelines.prepare.analyze.row_sample import Column

pytestmark = pytest.mark.no_tensorflow

ROWS = 8000
RANDOM = np.random.default_rng(0)
CLICK = RANDOM.random(ROWS) < 0.2


def column(values, present=None):
    values = np.asarray(values)
    values = values.astype(np.float32 if values.dtype.kind == "f" else np.int64)
    return Column(values, np.ones(len(values), bool) if present is None else present)


def found(columns, label, categories=()):
    target = label_effect.target("y", column(label))
    return leaks.find(columns, [target], categories, lambda name, value: str(value))


def test_a_feature_that_is_there_exactly_for_one_class():
    late = column(RANDOM.integers(0, 10**6, ROWS), CLICK)
    certain = found({"late": late}, CLICK).certain
    assert certain == {"late": "it has a value exactly where y is 1"}


def test_a_feature_that_predicts_alone():
    score = CLICK + RANDOM.normal(0, 0.1, ROWS)
    noise = CLICK + RANDOM.normal(0, 1.0, ROWS)  # An AUC of about 0.76.
    of_class = 10 * RANDOM.integers(0, 5, ROWS) + CLICK
    result = found(
        {"score": column(score), "noise": column(noise), "code": column(of_class)}, CLICK
    )
    assert sorted(result.certain) == ["code", "score"] and not result.suspected
    assert result.certain["score"].startswith("it alone predicts y with AUC 0.99")


def test_a_value_that_fixes_the_label():
    """One person decides before both do: without a yes they do not match."""
    yes = np.where(CLICK, 1, RANDOM.random(ROWS) < 0.4)
    rare = np.where(CLICK, 0, RANDOM.random(ROWS) < 0.01)  # 1% of the rows are too few.
    result = found({"yes": column(yes), "rare": column(rare)}, CLICK)
    assert list(result.certain) == ["yes"]
    count = int((yes == 0).sum())
    usual = count * CLICK.mean()
    assert result.certain["yes"] == (
        f"where it has the value 0, y is always 0, in {count:,} rows without an exception "
        f"({usual:,.0f} would be usual)"
    )


def test_few_expected_exceptions_are_only_a_suspicion():
    label = np.arange(ROWS) % 100 == 0  # 1%
    app = np.where(np.arange(ROWS) % 2, 2, RANDOM.integers(3, 50, ROWS))
    result = found({"app": column(app)}, label, ["app"])
    assert not result.certain and list(result.suspected) == ["app"]


def test_numbers_whose_sum_is_the_label():
    casual, registered = RANDOM.poisson(35, ROWS), RANDOM.poisson(150, ROWS)
    other = casual + RANDOM.normal(0, 10, ROWS)
    result = found(
        {"casual": column(casual), "registered": column(registered), "other": column(other)},
        casual + registered,
    )
    assert sorted(result.certain) == ["casual", "registered"]
    assert result.certain["casual"] == ("y is registered + casual in every row, up to a constant")
    weighted = found({"casual": column(casual), "registered": column(registered)},
                     2 * registered - casual)  # fmt: skip
    assert "2 x registered - casual" in weighted.certain["registered"]
    noise = casual + registered + RANDOM.normal(0, 3, ROWS)
    assert not found({"casual": column(casual), "registered": column(registered)}, noise).certain


def test_few_rows_say_nothing():
    assert found({"same": column(CLICK[:800])}, CLICK[:800]).certain
    assert not found({"same": column(CLICK[:99])}, CLICK[:99]).certain


# --- Names and order ------------------------------------------------------------------------------


def effect(values, probability, **options):
    clicks = np.random.default_rng(5).random(len(values)) < probability
    return label_effect.effect(column(values), label_effect.target("y", column(clicks)), **options)


def test_values_without_order_act_like_names():
    of_value = np.random.default_rng(3).uniform(0, 0.6, 150)
    ids = RANDOM.integers(0, 150, ROWS)
    result = effect(ids, of_value[ids])
    assert result.names and result.by_value > 0.08 > 0.03 > result.by_order


@pytest.mark.parametrize(
    "probability",
    [
        lambda age: 1 / (1 + np.exp(((age - 50) / 12) ** 2 - 2)),
        lambda age: np.where(age < 23, 0.02, np.where(age < 35, 0.15, 0.3)),
        lambda age: np.full(len(age), 0.2),
    ],
    ids=["smooth", "steps", "no effect"],
)
@pytest.mark.parametrize("rows", [ROWS, 50_000])
def test_ages_have_an_order(probability, rows):
    age = np.clip(np.random.default_rng(1).gamma(6, 6, rows) + 15, 17, 90).round()
    assert not effect(age, probability(age)).names


def test_amounts_that_are_mostly_zero_have_an_order():
    random = np.random.default_rng(2)
    amount = np.where(
        random.random(50_000) < 0.9, 0, np.exp(random.normal(6, 1.5, 50_000)).round(-2)
    )
    chance = np.where(amount == 0, 0.2, np.where(amount > 2000, 0.9, 0.3))
    assert not effect(amount, chance).names


def test_the_income_of_persons_is_no_name_if_persons_stay_together():
    """It stands for one person each, so it only seems to predict their label."""
    of_person = np.random.default_rng(4).uniform(0, 0.9, 200)
    income = np.random.default_rng(6).permutation(200)
    persons = RANDOM.integers(0, 200, ROWS)
    assert effect(income[persons], of_person[persons]).names
    assert not effect(income[persons], of_person[persons], groups=persons).names


def test_a_curve_for_few_values():
    few = RANDOM.integers(0, 10, ROWS)
    assert effect(few, np.where(few % 2, 0.1, 0.5), curve=True).names
    assert not effect(few, 0.1 + 0.05 * few, curve=True).names
