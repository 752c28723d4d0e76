"""A row of --input_fn that breaks a step is named. See `tests/integration/test_own_input.py`."""

from __future__ import annotations

import re

import numpy as np
import pytest

import feature_specs
from estimator_kit.training import own_input
from input_pipelines.errors import DataError
from input_pipelines.reading.own_rows import OwnRows
from input_pipelines.reading.selection import Selection
from input_pipelines.transform.transforms import Transform

SPEC = feature_specs.parse(
    {
        "features": {"x": {"dtype": "float32"}, "v": {"dtype": "float32", "shape": [3]}},
        "columns": {"x": {"numeric": "x"}, "v": {"numeric": "v"}},
        "groups": {"deep": ["x", "v"]},
        "labels": {"y": {"dtype": "int64"}},
        "objectives": {"y": {"head": "binary"}},
    }
)
ROW = {"x": 1.0, "v": [1.0, 2.0, 3.0], "y": 1}
# The values of a bad row, and what is said about it.
BAD = {
    "None": ({**ROW, "x": None}, "feature 'x' is missing"),
    "a list": ({**ROW, "x": [1.0, 2.0]}, "feature 'x' has 2 values, expected 1"),
    "too few": ({**ROW, "v": np.zeros(2, np.float32)}, "feature 'v' has 2 values, expected 3"),
    "no label": ({"x": 1.0, "v": ROW["v"]}, "label 'y' is missing"),
    "nothing": ({}, "feature 'x' is missing"),
    "a class": ({**ROW, "y": 2}, "label 'y' is 2, expected 0 or 1"),
    "NaN": ({**ROW, "x": float("nan")}, "feature 'x' is nan, expected a finite number"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_row_is_named_by_its_function_number_and_value(case):
    bad, reason = BAD[case]

    def rows(mode):
        return [*[ROW] * 100, bad, ROW]

    own = OwnRows(SPEC, rows, name="mine:rows", mode="train")
    text = rf"{re.escape(__file__)}:\d+: mine:rows: row 100: {re.escape(reason)}"
    data = own.dataset(Selection(SPEC)).map(Transform(SPEC).features_and_labels)
    with pytest.raises(DataError, match=text), own_input.explained(own, SPEC):
        list(data)
