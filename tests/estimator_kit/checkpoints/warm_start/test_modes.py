"""What a warm start takes in each mode, and the pattern of the error if some do not fit."""

from __future__ import annotations

import re
import types

import pytest

from estimator_kit.checkpoints.model_outline import ModelOutline
from estimator_kit.checkpoints.warm_start import taken_variables
from estimator_kit.checkpoints.warm_start.warm_start import _pattern_hint

SHAPES = {
    "global_step": (), "table": (4, 2), "table/Adagrad": (4, 2), "mean": (2,),
    "click/item_frequency/last_step": (5,), "item_frequency/gap": (5,),
}  # fmt: skip
FREQUENCIES = ["click/item_frequency/last_step", "item_frequency/gap"]


@pytest.mark.parametrize(
    ("mode", "more"),
    [
        ("weights_and_stats", []),
        # Frequencies count steps, and the steps start at 0 again.
        ("all_but_step", ["mean", "table/Adagrad"]),
        ("all", [*FREQUENCIES, "mean", "table/Adagrad", "global_step"]),
    ],
)
def test_frequencies_of_items_are_taken_only_with_their_step(mode, more):
    outline = ModelOutline(SHAPES, frozenset(["table"]), frozenset(["table"]), frozenset())
    taken = taken_variables.more_to_take(["table"], outline, SHAPES, {}, mode, ".*")
    assert sorted(taken) == sorted(more)


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
