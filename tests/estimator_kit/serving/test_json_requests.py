"""Bodies of REST requests: the cases of TensorFlow Serving's tests.

The cases come from its json_tensor_test.cc, with arrays instead of messages.
"""

from __future__ import annotations

import json
import math
from types import SimpleNamespace

import numpy as np
import pytest

from estimator_kit.client import messages
from estimator_kit.serving import json_requests
from estimator_kit.serving.errors import RequestError

pytestmark = pytest.mark.no_tensorflow

TYPES = {"float": 1, "double": 2, "int32": 3, "uint8": 4, "string": 7, "complex": 8, "half": 19}


def arrays(body, **kinds):
    inputs = {name: SimpleNamespace(dtype=TYPES[kind]) for name, kind in kinds.items()}
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return json_requests.predict_inputs(json_requests.parse(data), inputs)


def same(found, expected, dtype):
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, np.array(expected, dtype))


@pytest.mark.parametrize(
    ("values", "kind", "dtype"),
    [
        ([[1, 2], [3, 4], [5, 6]], "int32", np.int32),
        ([1, 2.0, 3, 4, 5.003, 0.007, 0.0], "float", np.float32),
        ([1.0, 2, 3, 4, 0.662, 0, 0.0], "double", np.float64),
        ([1435774380], "float", np.float32),
        ([1435774380.0], "float", np.float32),
        ([2**53 + 1, 2**64 - 1], "double", np.float64),
        ([-2.2250738585072014e-308], "float", np.float32),
    ],
)
def test_one_input(values, kind, dtype):
    for key, by_row in (("instances", True), ("inputs", False)):
        found, rows = arrays({key: values}, default=kind)
        assert rows is by_row
        same(found["default"], values, dtype)


def test_what_a_float_cannot_hold_is_infinite():
    largest = np.finfo(np.float64).max
    found, _ = arrays({"instances": [largest, -largest]}, default="float")
    same(found["default"], [math.inf, -math.inf], np.float32)
    number = json.dumps(10**300).encode()
    found, _ = arrays(b'{"instances": [%b]}' % number, default="double")
    same(found["default"], [1e300], np.float64)
    example = messages.message("tensorflow.Example")
    _, (made,) = json_requests.examples({"examples": [{"v": 1e39}]})
    assert example.FromString(made).features.feature["v"].float_list.value[:] == [math.inf]


def test_strings_and_bytes():
    coded = [{"b64": "aGVsbG8="}, {"b64": "d29ybGQ="}]
    found, _ = arrays({"instances": coded}, default="string")
    assert found["default"].tolist() == [b"hello", b"world"]
    found, _ = arrays({"instances": [[c] for c in coded]}, default="string")
    assert found["default"].tolist() == [[b"hello"], [b"world"]]
    found, _ = arrays({"instances": [{"default": [[c] for c in coded]}]}, default="string")
    assert found["default"].tolist() == [[[b"hello"], [b"world"]]]


def test_several_inputs():
    rows = [
        {"i": [[1, 2], [3, 4], [5, 6]], "s": ["foo", "bar"], "f": [1.0, math.nan], "d": [math.nan]},
        {"i": [[7, 8], [9, 0], [1, 2]], "s": ["baz", "bat"], "f": [2.0, math.inf], "d": [2.0]},
    ]
    found, _ = arrays({"instances": rows}, i="int32", s="string", f="float", d="double")
    same(found["i"], [[[1, 2], [3, 4], [5, 6]], [[7, 8], [9, 0], [1, 2]]], np.int32)
    assert found["s"].tolist() == [[b"foo", b"bar"], [b"baz", b"bat"]]
    same(found["f"], [[1.0, math.nan], [2.0, math.inf]], np.float32)
    same(found["d"], [[math.nan], [2.0]], np.float64)
    columns = {"i": [[[1, 2]]], "s": ["foo", "bar"], "b": {"b64": "aGVsbG8="}}
    found, _ = arrays({"inputs": columns}, i="int32", s="string", b="string")
    same(found["i"], [[[1, 2]]], np.int32)
    assert found["b"].shape == () and found["b"].item() == b"hello"
    found, _ = arrays({"inputs": {"i": [[[1, 2]]]}}, i="int32")
    same(found["i"], [[[1, 2]]], np.int32)


@pytest.mark.parametrize(
    ("body", "kinds", "message"),
    [
        (b" \n", {"a": "int32"}, "the body is not JSON that can be read: Expecting value: line 2"),
        (b"[" * 100_000, {"a": "float"}, "the body is not JSON that can be read: "),
        ([1], {"a": "int32"}, "the body: expected an object, got [1]"),
        ({}, {"a": "int32"}, "expected `instances` or `inputs`, got neither"),
        ({"inputs": 1, "instances": 1}, {"a": "int32"}, "`instances` or `inputs`, got both"),
        ({"instances": 1}, {"a": "int32"}, "instances: expected a list with at least one row, got"),
        ({"instances": [[1, 2], [3, 4], [5, 6, 7]]}, {"a": "int32"},
         "input a[2]: expected a list of 2 values, got [5, 6, 7]"),
        ({"instances": [[1, 2], [3, [4]]]}, {"a": "int32"},
         "input a[1][1]: expected int32, got [4]"),
        ({"instances": [[1], 2]}, {"a": "int32"}, "input a[1]: expected a list of 1 values, got 2"),
        ({"instances": [[1, 2], ["a", "b"]]}, {"a": "int32"},
         "input a[1][0]: expected int32, got 'a'"),
        ({"instances": [1.0]}, {"a": "int32"}, "input a[0]: expected int32, got 1.0"),
        ({"instances": [2**31]}, {"a": "int32"}, "input a[0]: expected int32, got 2147483648"),
        ({"instances": [True]}, {"a": "float"}, "input a[0]: expected float, got True"),
        ({"instances": ["x", "y"]}, {"a": "float"}, "input a[0]: expected float, got 'x'"),
        ({"instances": [10**400]}, {"a": "double"}, "input a[0]: expected double, got 1000"),
        ({"instances": [{"b64": "?"}]}, {"s": "string"},
         "input s[0]: expected string, got {'b64': '?'}"),
        ({"instances": ["\ud800"]}, {"s": "string"}, r"input s[0]: expected string, got '\ud800'"),
        ({"instances": [{"i": 1, "s": "x"}, [1]]}, {"i": "int32", "s": "string"},
         "instances[1]: expected an object of all inputs, got [1]"),
        ({"instances": [{"i": 1, "s": "x"}, {"i": 1}]}, {"i": "int32", "s": "string"},
         "instances[1]: expected the names i, s, got i"),
        ({"instances": [["x"], {"s": ["y"]}]}, {"s": "string"},
         "input s[1]: expected a list of 1 values, got {'s': ['y']}"),
        # TensorFlow Serving's JSON does not have this type either.
        ({"instances": [1]}, {"a": "half"}, "input a: no JSON value becomes a half"),
        # What TensorFlow Serving takes; docs/guides/serving.md lists it.
        (b'{"instances": [1]} x', {"a": "int32"}, "Extra data"),
        (b'{"instances": ["\xff"]}', {"a": "string"}, "codec can't decode byte 0xff"),
        (b'{"instances": [Inf]}', {"a": "float"}, "Expecting value"),
        ({"instances": [256]}, {"a": "uint8"}, "input a[0]: expected uint8, got 256"),
        ({"inputs": {"a": [1], "b": 1}}, {"a": "int32"}, "inputs: expected the names a, got a, b"),
        (b'{"inputs": ' + b"[" * 33 + b"]" * 33 + b"}", {"a": "int32"}, "deeper than 32"),
    ],
)  # fmt: skip
def test_errors(body, kinds, message):
    with pytest.raises(RequestError) as error:
        arrays(body, **kinds)
    assert (error.value.code == "UNIMPLEMENTED") == ("half" in message)
    assert message in error.value.message


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "examples: expected a list with at least one row, got None"),
        ({"examples": [1]}, "examples[0]: expected an object, got 1"),
        ({"examples": [{"v": None}]}, "examples[0].v: expected strings, floats or int64 integers, "
                                      "all of one kind, got None"),
        ({"examples": [{"v": 1}, {"v": [1.0, 2]}]}, "examples[1].v: expected strings, floats or"),
        ({"examples": [{"v": 2**63}]}, "all of one kind, got 9223372036854775808"),
        ({"context": {"v": {"b64": 1}}, "examples": [{}]}, "context.v: expected strings, floats"),
        ({"examples": [{"\ud800": 1}]}, "expected strings, floats or int64 integers"),
    ],
)  # fmt: skip
def test_errors_of_examples(body, message):
    with pytest.raises(RequestError) as error:
        json_requests.examples(body)
    assert error.value.code == "INVALID_ARGUMENT" and message in error.value.message


def test_a_name_that_is_there_twice():
    """TensorFlow Serving uses the first value."""
    found, _ = arrays(b'{"inputs": [1], "inputs": [2]}', a="int32")
    same(found["a"], [2], np.int32)
