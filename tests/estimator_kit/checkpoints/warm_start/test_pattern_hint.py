"""The error of a warm start that does not fit gives a pattern of the variables that fit."""

from __future__ import annotations

import re
import types

import pytest

from estimator_kit.checkpoints.warm_start.warm_start import _pattern_hint

WEIGHTS = ["dnn/bias", "dnn/table.1", "dnn/table.10"]


@pytest.mark.parametrize(
    ("problems", "fitting"),
    [
        (
            ["dnn/table.1: [20, 4] in the source, [25, 4] in the model"],
            ["dnn/bias", "dnn/table.10"],
        ),
        # Two problems of one variable, and of its slot.
        (
            ["dnn/bias: it means something else: x", "dnn/bias/Adagrad: not in the source"],
            ["dnn/table.1", "dnn/table.10"],
        ),
    ],
)
def test_the_pattern_takes_the_other_weights(problems, fitting):
    outline = types.SimpleNamespace(weights=frozenset(WEIGHTS))
    hint = _pattern_hint(problems, WEIGHTS, outline)
    pattern = re.fullmatch(r", as in --warm_start_vars='(.*)'", hint)
    assert pattern is not None
    assert [name for name in WEIGHTS if re.fullmatch(pattern[1], name)] == fitting


def test_no_pattern_if_nothing_fits_or_it_would_be_long():
    outline = types.SimpleNamespace(weights=frozenset(WEIGHTS))
    assert _pattern_hint([f"{name}: not in the source" for name in WEIGHTS], WEIGHTS, outline) == ""
    many = [f"x{i}" for i in range(9)]
    long = types.SimpleNamespace(weights=frozenset([*WEIGHTS, *many]))
    assert _pattern_hint([f"{n}: not in the source" for n in many], [*WEIGHTS, *many], long) == ""
