"""What each mode of a warm start takes in addition to weights."""

from __future__ import annotations

import pytest

from estimator_kit.checkpoints.model_outline import ModelOutline
from estimator_kit.checkpoints.warm_start import warm_start

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
    found = [*warm_start._more(["table"], outline, SHAPES, {}, mode, ".*")]
    assert sorted(found) == sorted(more)
