"""Schedules, compared with NumPy step by step."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from estimator_kit.errors import ConfigError
from estimator_kit.optimizers.schedules import SCHEDULES, factor_at, parse_schedule

STEPS = np.array([0, 1, 4, 5, 9, 10, 11, 15, 19, 20, 25, 1000])


def factors(choice, warm_up_steps=0, steps=STEPS):
    schedule = parse_schedule(choice)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        step = tf.compat.v1.placeholder(tf.int64, [])
        factor = factor_at(step, schedule, warm_up_steps)
        assert factor.dtype == tf.float32
        return [session.run(factor, {step: value}) for value in steps]


CASES = {
    "constant": ("constant", lambda s: np.ones(len(s))),
    "exponential": (
        {"exponential": {"decay_steps": 10, "decay_rate": 0.5}}, lambda s: 0.5 ** (s / 10)
    ),
    "staircase": (
        {"exponential": {"decay_steps": 10, "decay_rate": 0.5, "staircase": True}},
        lambda s: 0.5 ** (s // 10),
    ),
    "polynomial": (
        {"polynomial": {"decay_steps": 20, "end": 0.1, "power": 2}},
        lambda s: 0.1 + 0.9 * (1 - np.minimum(s, 20) / 20) ** 2,
    ),
    "cosine": (
        {"cosine": {"decay_steps": 20, "end": 0.2}},
        lambda s: 0.2 + 0.8 * (1 + np.cos(np.pi * np.minimum(s, 20) / 20)) / 2,
    ),
    "piecewise": (
        {"piecewise": {"boundaries": [10, 20], "factors": [1, 0.1, 0.01]}},
        lambda s: np.select([s < 10, s < 20], [1, 0.1], 0.01),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_factors(name):
    choice, expected = CASES[name]
    np.testing.assert_allclose(factors(choice), expected(STEPS), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", CASES)
def test_a_warm_up_comes_before(name):
    choice, expected = CASES[name]
    found = factors(choice, warm_up_steps=5)
    after = expected(np.maximum(STEPS - 5, 0))
    wanted = np.where(STEPS < 5, (STEPS + 1) / 5, after)
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-7)
    assert found[0] == np.float32(0.2)


def test_steps_beyond_what_a_float32_counts():
    half = {"cosine": {"decay_steps": 2**26}}
    before, after = factors(half, steps=[2**25, 2**26 + 1])
    assert before == 0.5 and after == 0
    boundary = {"piecewise": {"boundaries": [2**24 + 1], "factors": [1, 0]}}
    assert factors(boundary, steps=[2**24, 2**24 + 1]) == [1, 0]


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ("cosin", "unknown schedule 'cosin'. Did you mean 'cosine'?"),
        ("cosine", "schedule 'cosine': decay_steps is missing"),
        ({"cosine": {"decay_steps": 0}},
         "schedule 'cosine': decay_steps: got 0, expected greater than or equal to 1"),
        ({"cosine": {"decay_steps": 1, "alpha": 1}},
         "schedule 'cosine': unknown field 'alpha'. Use one of: decay_steps, end."),
        ({"piecewise": {"boundaries": [2, 1], "factors": [1, 1, 1]}},
         "schedule 'piecewise': boundaries must be strictly increasing, got [2, 1]"),
        ({"piecewise": {"boundaries": [2], "factors": [1]}},
         "schedule 'piecewise': 1 boundaries need 2 factors, got 1"),
        ({"cosine": {}, "constant": {}},
         "schedule: expected a name or {name: {field: value}}, got {'cosine': {}, 'constant': "
         "{}}."),
    ],
)  # fmt: skip
def test_what_cannot_be_read(choice, message):
    with pytest.raises(ConfigError) as error:
        parse_schedule(choice)
    assert str(error.value) == message


def test_the_names():
    assert sorted(SCHEDULES) == ["constant", "cosine", "exponential", "piecewise", "polynomial"]
