"""Arrays become messages and back, as in TensorFlow's conversion."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from estimator_kit.client import messages, tensors

TYPES = [np.float32, np.float64, np.int32, np.uint8, np.int16, np.int8, np.int64, np.bool_,
         np.uint16, np.float16, np.uint32, np.uint64]  # fmt: skip


def proto(**fields):
    return tf.make_tensor_proto(**fields)


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: np.dtype(kind).name)
@pytest.mark.parametrize("shape", [(), (0, 3), (2, 3)], ids=str)
def test_an_array_goes_to_tensorflow_and_back(kind, shape):
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(kind)
    made = messages.message("tensorflow.TensorProto")()
    tensors.fill(made, array)
    theirs = type(proto(values=1)).FromString(made.SerializeToString())
    np.testing.assert_array_equal(tf.make_ndarray(theirs), array)
    for back in (tensors.to_array(made), tensors.to_array(theirs)):
        assert back.dtype == kind and back.shape == shape
        np.testing.assert_array_equal(back, array)


# The field that clients of TensorFlow Serving, such as min-tfs-client, read for each type.
FIELDS = {
    np.float32: "float_val", np.float64: "double_val", np.int32: "int_val", np.uint8: "int_val",
    np.int16: "int_val", np.int8: "int_val", np.int64: "int64_val", np.bool_: "bool_val",
    np.uint16: "int_val", np.float16: "half_val", np.uint32: "uint32_val", np.uint64: "uint64_val",
}  # fmt: skip


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: np.dtype(kind).name)
@pytest.mark.parametrize("shape", [(), (0, 3), (2, 3)], ids=str)
def test_an_answer_is_in_the_typed_fields(kind, shape):
    rng = np.random.default_rng(1)
    if np.dtype(kind).kind == "f":
        array = np.asarray(rng.normal(size=shape)).astype(kind)
        array.ravel()[:2] = [np.nan, -np.inf][: array.size]
    elif kind is np.bool_:
        array = np.asarray(rng.random(shape) < 0.5)
    else:
        limits = np.iinfo(kind)
        array = np.asarray(rng.integers(limits.min, limits.max, shape, kind, endpoint=True))
        array.ravel()[:2] = [limits.min, limits.max][: array.size]
    # A view of every second column: the memory has other numbers between.
    spread = np.repeat(array, 2, axis=-1)[..., ::2] if array.ndim else array
    theirs = proto(values=1)
    theirs.Clear()
    tensors.fill_fields(theirs, spread)
    assert not theirs.tensor_content
    np.testing.assert_array_equal(tf.make_ndarray(theirs), array)
    values = np.array(getattr(theirs, FIELDS[kind]), np.uint16 if kind is np.float16 else kind)
    read = values.view(kind) if kind is np.float16 else values
    np.testing.assert_array_equal(read.reshape(shape), array)
    np.testing.assert_array_equal(tensors.to_array(theirs), array)
    ours = messages.message("tensorflow.TensorProto")()
    tensors.fill_fields(ours, spread)
    assert ours.SerializeToString(deterministic=True) == theirs.SerializeToString(
        deterministic=True
    )


def test_strings_and_other_types_of_an_answer():
    theirs = proto(values=1)
    theirs.Clear()
    tensors.fill_fields(theirs, tensors.as_array([["a", b"\xff"]]))
    assert list(theirs.string_val) == [b"a", b"\xff"]
    assert tf.make_ndarray(theirs).tolist() == [[b"a", b"\xff"]]
    with pytest.raises(ValueError, match="expected numbers, booleans or strings, got complex64"):
        tensors.fill_fields(theirs, np.zeros(1, np.complex64))


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: np.dtype(kind).name)
def test_values_in_typed_fields(kind):
    made = proto(values=kind(1), dtype=kind, shape=[2, 2])  # One value, which is repeated.
    assert not made.tensor_content
    np.testing.assert_array_equal(tensors.to_array(made), np.ones([2, 2], kind))


def test_strings():
    array = tensors.as_array(["ä", b"\xff\x00"])
    assert array.tolist() == [b"\xc3\xa4", b"\xff\x00"]
    assert tensors.to_array(tf.make_tensor_proto("a", shape=[3])).tolist() == [b"a"] * 3
    with pytest.raises(ValueError, match="an array of strings: expected str or bytes, got 1"):
        tensors.as_array(np.array(["a", 1], object))
    with pytest.raises(ValueError, match="expected numbers, booleans or strings, got complex128"):
        tensors.as_array(np.array([1j]))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dtype": 8}, "a tensor of a request cannot have the type 8"),
        ({"dtype": 20}, "a tensor of a request cannot have the type 20"),
        ({"size": -1}, r"the shape \[-1\] is not valid"),
        ({"size": 10**9}, r"the shape \[1000000000\] takes 4,000,000,000 bytes, and at most 1,000 "
                          "are allowed"),
        ({"size": 1}, r"float_val has 2 values, but the shape \[1\] needs 1"),
        ({"content": b"123"}, r"tensor_content has 3 bytes, which do not fit the shape \[2\] and "
                              "the type float"),
        ({"unknown": True}, "its shape is unknown"),
    ],
)  # fmt: skip
def test_messages_that_are_not_arrays(change, message):
    made = messages.message("tensorflow.TensorProto")()
    made.dtype = change.get("dtype", 1)
    made.tensor_shape.dim.add().size = change.get("size", 2)
    made.tensor_shape.unknown_rank = change.get("unknown", False)
    made.tensor_content = change.get("content", b"")
    made.float_val.extend([1, 2])
    with pytest.raises(ValueError, match=message):
        tensors.to_array(made, 1000)


def test_strings_that_are_continued_count_as_often_as_they_are_there():
    made = messages.message("tensorflow.TensorProto")()
    made.dtype = 7
    made.tensor_shape.dim.add().size = 100
    made.string_val.extend([b"a", b"b" * 50])  # 8 * 100 + 1 + 50 + 98 * 50
    assert tensors.to_array(made, 5751).shape == (100,)
    with pytest.raises(ValueError) as error:
        tensors.to_array(made, 5750)
    assert str(error.value) == (
        "the strings of the shape [100] take 5,751 bytes, and at most 5,750 are allowed"
    )


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        ([0.1], np.float32, np.float32([0.1])),
        ([np.inf], np.float32, np.float32([np.inf])),
        ([2**24 - 1], np.float32, np.float32([2**24 - 1])),
        ([[300]], np.int32, np.int32([[300]])),
        ([2**63 - 1], np.uint64, np.uint64([2**63 - 1])),
        ([], np.object_, np.array([], object)),
        ([1.5], np.int64, np.float64([1.5])),  # The server reports what is wrong with these.
        ([True], np.float32, np.array([True])),
        ([1], np.object_, np.array([1])),
    ],
)
def test_numbers_of_python_become_what_an_input_is(value, kind, expected):
    made = tensors.cast(tensors.as_array(value), kind)
    assert made.dtype == expected.dtype
    np.testing.assert_array_equal(made, expected)


@pytest.mark.parametrize(
    ("value", "kind", "message"),
    [
        ([1.0, 1e39], np.float32, "expected a value that fits into float32, got 1e+39"),
        ([10**6], np.float16, "expected a value that fits into float16, got 1000000"),
        ([0, -1], np.uint64, "expected a value that fits into uint64, got -1"),
        ([2**31], np.int32, "expected a value that fits into int32, got 2147483648"),
    ],
)
def test_numbers_that_an_input_cannot_hold(value, kind, message):
    with pytest.raises(ValueError) as error:
        tensors.cast(tensors.as_array(value), kind)
    assert str(error.value) == message


def test_integers_that_are_none_of_their_type():
    made = messages.message("tensorflow.TensorProto")()
    made.dtype = 4
    made.tensor_shape.dim.add().size = 1
    made.int_val.append(300)
    with pytest.raises(ValueError, match="int_val has values that do not fit into uint8"):
        tensors.to_array(made)
