"""The numbers in REST answers, compared with NumPy's shortest digits and Python's own JSON."""

from __future__ import annotations

import json

import numpy as np
import pytest

from estimator_kit.serving import json_answers

pytestmark = pytest.mark.no_tensorflow

RNG = np.random.default_rng(3)


def test_floats_have_the_fewest_digits_of_their_type():
    singles = RNG.integers(0, 2**32, 200_000, dtype=np.uint32).view(np.float32)
    doubles = RNG.integers(0, 2**64, 200_000, dtype=np.uint64).view(np.float64)
    for array in (singles, doubles):
        array = array[np.isfinite(array)]
        found = json.loads(json_answers.values(array))["results"]
        assert found == [float(text) for text in array.astype("U32").tolist()]
    assert b"0.1," in json_answers.values(np.array([0.1, 2], np.float32))


def test_each_row_has_all_outputs():
    outputs = {
        "number": np.array([[0.1, -0.0], [1e-45, 3e38]], np.float32),
        "id": np.array([2**63 - 1, -1]),
        "big": np.array([2**64 - 1, 0], np.uint64),
        "is_new": np.array([True, False]),
        "word": np.array(["ä".encode(), b'"'], object),
        "raw_bytes": np.array([b"\xff", b""], object),
    }
    assert json.loads(json_answers.predictions(outputs, by_row=True)) == {
        "predictions": [
            {"number": [0.1, -0.0], "id": 2**63 - 1, "big": 2**64 - 1, "is_new": True, "word": "ä",
             "raw_bytes": {"b64": "/w=="}},
            {"number": [1e-45, 3e38], "id": -1, "big": 0, "is_new": False, "word": '"',
             "raw_bytes": {"b64": ""}},
        ]
    }  # fmt: skip


@pytest.mark.parametrize("shape", [(), (0,), (2, 0), (0, 3), (2, 1, 2)])
def test_shapes(shape):
    array = RNG.random(shape).astype(np.float32)
    outputs = {"y": array, "z": np.array(array, order="F")}
    expected = array.astype("U32").astype(np.float64).tolist()
    text = json_answers.predictions(outputs, by_row=False)
    assert json.loads(text) == {"outputs": {"y": expected, "z": expected}}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_numbers_that_are_not_finite_are_as_in_tensorflow_serving(dtype):
    outputs = {"y": np.array([np.nan, np.inf, -np.inf, 0.5], dtype), "z": np.zeros(4)}
    assert json_answers.predictions(outputs, by_row=True) == (
        b'{"predictions": [{"y": NaN, "z": 0.0}, {"y": Infinity, "z": 0.0}, '
        b'{"y": -Infinity, "z": 0.0}, {"y": 0.5, "z": 0.0}]}'
    )
    assert json_answers.predictions({"y": outputs["y"]}, by_row=False) == (
        b'{"outputs": [NaN, Infinity, -Infinity, 0.5]}'
    )
    assert json_answers.classes(None, outputs["y"][None, :2]) == (
        b'{"results": [[["", NaN], ["", Infinity]]]}'
    )
