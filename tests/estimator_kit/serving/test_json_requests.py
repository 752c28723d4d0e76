"""Bodies of REST requests: the cases of TensorFlow Serving's tests, and arbitrary JSON.

The cases come from its json_tensor_test.cc, with arrays instead of messages.
"""

from __future__ import annotations

import json
import math
import random
from types import SimpleNamespace

import numpy as np
import pytest

from estimator_kit.client import messages
from estimator_kit.serving import json_parser, json_requests
from estimator_kit.serving.errors import RequestError

pytestmark = pytest.mark.no_tensorflow

TYPES = {"float": 1, "double": 2, "int32": 3, "uint8": 4, "string": 7, "complex": 8, "half": 19}
MOST = 2_000_000


def arrays(body, **kinds):
    inputs = {name: SimpleNamespace(dtype=TYPES[kind]) for name, kind in kinds.items()}
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return json_requests.predict_inputs(json_requests.parse(data, MOST), inputs)


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


def test_lists_that_are_nested_deep_where_nothing_reads_them():
    deep = b"[" * 100_000 + b"]" * 100_000
    found, _ = arrays(b'{"instances": [1], "nested": %b}' % deep, default="int32")
    same(found["default"], [1], np.int32)
    document = json_requests.parse(b'{"signature_name": %b}' % deep, MOST)
    with pytest.raises(RequestError, match="key must be a string value"):
        json_requests.signature_name(document)


@pytest.mark.parametrize(
    ("body", "kinds", "message"),
    [
        (b"", {"a": "int32"}, "The document is empty"),
        (b" \n", {"a": "int32"}, "The document is empty"),
        (b"instances = [1, 2]", {"a": "float"}, "JSON Parse error: Expecting value"),
        ({"instances": [[1, 2], [3, 4], [5, 6, 7]]}, {"a": "int32"}, "unexpected size: 3"),
        ({"instances": [[1, 2], [3, 4], [[5, 6]]]}, {"a": "int32"}, "unexpected size: 1"),
        ({"instances": [1, [1]]}, {"a": "int32"}, "list at unexpected level: 1"),
        ({"instances": [[1, 2], ["a", "b"]]}, {"a": "int32"}, "not of expected type: int32"),
        ({"instances": [1.0]}, {"a": "int32"}, "not of expected type: int32"),
        ({"instances": [2**31]}, {"a": "int32"}, "not of expected type: int32"),
        ({"instances": [True]}, {"a": "float"}, "not of expected type: float"),
        ({"instances": ["x", "y"]}, {"a": "float"}, "not of expected type: float"),
        (b'{"instances": [1e400]}', {"a": "double"}, "1e400 is too large for a double"),
        ({"instances": [{"i": [1], "s": "x"}, [1]]}, {"i": "int32", "s": "string"},
         "Expecting object but got list"),
        ({"instances": [["x"], {"s": ["y"]}]}, {"s": "string"},
         "Expecting value/list but got object"),
        # TensorFlow Serving's JSON does not have this type either.
        ({"instances": [1]}, {"a": "complex"}, "input a: no JSON value becomes a 8"),
        ({"instances": [1]}, {"a": "half"}, "input a: no JSON value becomes a half"),
    ],
)  # fmt: skip
def test_errors(body, kinds, message):
    with pytest.raises(RequestError) as error:
        arrays(body, **kinds)
    assert message in error.value.message


@pytest.mark.parametrize(
    ("body", "kinds", "message"),
    [
        (b'{"instances": [1]} x', {"a": "int32"}, "JSON Parse error: Extra data"),
        (b'{"instances": ["\xff"]}', {"a": "string"}, "codec can't decode byte 0xff"),
        (b'{"instances": [Inf]}', {"a": "float"}, "JSON Parse error: Expecting value"),
        ({"instances": [256]}, {"a": "uint8"}, "256 Type: Number is not of expected type: uint8"),
        ({"inputs": {"a": [1], "b": 1}}, {"a": "int32"}, "does not have named input: b"),
        (b'{"inputs": ' + b"[" * 33 + b"]" * 33 + b"}", {"a": "int32"}, "deeper than 32"),
    ],
)
def test_what_tensorflow_serving_would_take(body, kinds, message):
    """The differences from TensorFlow Serving that docs/guides/serving.md lists."""
    with pytest.raises(RequestError) as error:
        arrays(body, **kinds)
    assert message in error.value.message


def test_a_name_that_is_there_twice():
    """TensorFlow Serving uses the first value."""
    found, _ = arrays(b'{"inputs": [1], "inputs": [2]}', a="int32")
    same(found["a"], [2], np.int32)


# --- Any JSON ------------------------------------------------------------------------------------

SCALARS = [0, -1, 2**63, 1.5, -0.0, 1e-300, math.inf, True, None, "", "a", 'q"]', "\\", "ä\ud800",
           "x" * 50, "[{,"]  # fmt: skip


def random_value(rng, depth):
    kind = rng.randrange(4 if depth else 2)
    if kind == 2:
        return [random_value(rng, depth - 1) for _ in range(rng.randrange(6))]
    if kind == 3:
        names = [rng.choice(["a", "b", '"', "]", ""]) for _ in range(rng.randrange(4))]
        return {name: random_value(rng, depth - 1) for name in names}
    return rng.choice(SCALARS)


@pytest.mark.parametrize("piece", [1, 7, 30, 2**16])
def test_it_reads_what_python_reads(monkeypatch, piece):
    monkeypatch.setattr(json_parser, "_PIECE", piece)
    rng = random.Random(5)
    for _ in range(300):
        value = random_value(rng, 5)
        text = json.dumps(value, indent=rng.choice([None, 0, 2]), ensure_ascii=rng.random() < 0.5)
        assert json_parser.parse(text, 10**6) == value, text
        assert json_parser._read(text, 10**6) == (value, len(text)), text


@pytest.mark.parametrize("piece", [1, 7, 2**16])
def test_it_refuses_what_python_refuses_at_the_same_place(monkeypatch, piece):
    monkeypatch.setattr(json_parser, "_PIECE", piece)
    rng = random.Random(6)
    wrong = 0
    for _ in range(1000):
        text = json.dumps(random_value(rng, 4))
        at = rng.randrange(len(text) + 1)
        text = (
            text[:at]
            + rng.choice(["", "]", "}", ",", ":", '"', "1", "[", "{", " "])
            + (text[at + rng.randrange(2) :])
        )
        try:
            expected = json.loads(text, parse_int=json_parser._integer)
        except ValueError as error:
            wrong += 1
            with pytest.raises(json.JSONDecodeError) as found:
                json_parser.parse(text, 10**6)
            assert found.value.pos in (error.pos, len(text)) or "trailing comma" in str(error)
        else:
            assert json_parser.parse(text, 10**6) == expected
    assert wrong > 300


@pytest.mark.parametrize(
    ("text", "count"),
    [("[[],[],[]]", 4), ('{"a": [1, 2], "b": 3}', 5), ('["a", "b", {}]', 4), ("[[[1]]]", 4)],
)
def test_values_are_counted(monkeypatch, text, count):
    for piece in (1, 7, 100):
        monkeypatch.setattr(json_parser, "_PIECE", piece)
        assert json_parser._read(text, count)[0] == json.loads(text)
        with pytest.raises(json_parser.TooManyValuesError, match=f"than {count - 1} values"):
            json_parser._read(text, count - 1)


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"inputs": [0.125] * 60_000}),
        json.dumps({"instances": [{"x": [1, 2], "name": "a,b"}] * 10_000}),
        json.dumps([[]] * 60_000),
        json.dumps({"b64": ["abc]"] * 60_000}),
    ],
)
def test_a_large_text_is_read_in_pieces(monkeypatch, text):
    """Each call of Python's parser, which blocks other threads, reads at most one piece."""
    decoder, sizes = json_parser._DECODER, []

    def raw_decode(text, at):
        value, end = decoder.raw_decode(text, at)
        sizes.append(end - at)
        return value, end

    def decode(text):
        sizes.append(len(text))
        return decoder.decode(text)

    wrapped = SimpleNamespace(raw_decode=raw_decode, decode=decode)
    monkeypatch.setattr(json_parser, "_DECODER", wrapped)
    assert json_parser.parse(text, MOST) == json.loads(text)
    assert len(sizes) > 2 and max(sizes) <= 2**16 + 2 < len(text)
