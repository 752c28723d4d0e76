"""The intervals of the metrics that conditions name."""

from __future__ import annotations

import numpy as np
import pytest

from estimator_kit.retraining import intervals
from estimator_kit.retraining.gate import Scored
from feature_specs.sections.retraining import Gate

pytestmark = pytest.mark.no_tensorflow


def test_the_interval_of_a_mean_is_that_of_its_standard_error():
    """The squared error of 400 rows is 1 or 0, so its standard error is 0.5 / 20 = 0.025."""
    labels = np.tile([0.0, 1.0], 200)
    rows = Scored("regression", labels, np.ones(400), np.zeros(400), np.ones(400) * np.nan)
    gate = Gate(conditions=[{"metric": "mean_squared_error/price", "max": 1}])
    found = intervals.of_conditions(gate, {"price": rows}, {})
    (low, high) = found["mean_squared_error/price"]["candidate"]
    assert low == pytest.approx(0.5 - 1.96 * 0.025, abs=0.015)
    assert high == pytest.approx(0.5 + 1.96 * 0.025, abs=0.015)
    assert "live" not in found["mean_squared_error/price"]  # Its predictions are NaN.


def test_rows_of_one_group_are_drawn_together():
    """All rows of a group are equal, so 4 groups vary as 4 rows do."""
    labels = np.repeat([0.0, 0.0, 1.0, 1.0], 100)
    rows = Scored("regression", labels, np.ones(400), np.zeros(400))
    gate = Gate(
        bootstrap={"group_by": "user"},
        conditions=[
            {"metric": "mean_squared_error/price", "max": 1},
            {"metric": "size_mib", "max": 9},
        ],
    )
    users = np.repeat(["a", "b", "c", "d"], 100)
    found = intervals.of_conditions(gate, {"price": rows}, {"user": users})
    (low, high) = found.pop("mean_squared_error/price")["candidate"]
    assert low == 0.0 and high > 0.85  # Single rows would give 0.45 to 0.55.
    assert not found  # The size of a model has no rows to draw.
