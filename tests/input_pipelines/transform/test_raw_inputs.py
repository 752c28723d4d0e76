"""Features as tensors of a request mean the same as records, if they can be sent."""

from __future__ import annotations

import keyword

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import config_pb2

import feature_specs
from input_pipelines.record_files import writing
from input_pipelines.transform import serving_inputs
from input_pipelines.transform.record_parsing import RecordParser
from input_pipelines.transform.transforms import Transform


def spec_of(features, columns, group):
    return feature_specs.parse(
        {
            "features": features,
            "columns": columns,
            "groups": {"deep": group},
            "labels": {"y": {"dtype": "int64"}},
            "objectives": {"y": {"head": "binary"}},
        }
    )


EXAMPLES = spec_of(
    {
        "price": {"dtype": "float32", "default": 0.5},
        "size": {"dtype": "float32", "shape": [2]},
        "words": {"dtype": "string", "shape": "variable"},
        "ids": {"dtype": "int64", "shape": "variable"},
    },
    {
        "price": {"numeric": "price"},
        "size": {"numeric": "size"},
        "word": {"hash_bucket": "words", "size": 9},
        "id": {"hash_bucket": "ids", "size": 9},
        "word_hot": {"indicator": "word"},
        "id_hot": {"indicator": "id"},
    },
    ["price", "size", "word_hot", "id_hot"],
)


def flat_of(spec, records):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        return session.run(RecordParser(spec).flat(tf.constant(records), with_labels=False))


def round_trip(spec, raw):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tensors = serving_inputs.placeholders(spec)
        feeds = {tensors[name]: value for name, value in raw.items()}
        return session.run(serving_inputs.parsed(spec, tensors), feeds)


@pytest.fixture(scope="module")
def send():
    """A function from tensors to numeric columns, which compares no shapes, as in a server."""
    with tf.Graph().as_default() as graph:
        tensors = serving_inputs.placeholders(EXAMPLES)
        features = Transform(EXAMPLES).features_of(serving_inputs.parsed(EXAMPLES, tensors))
        parts = tf.nest.flatten(features, expand_composites=True)
        options = config_pb2.CallableOptions(
            feed=[tensors[name].name for name in GOOD],
            fetch=[features["price"].name, features["size"].name, *(p.name for p in parts)],
        )
    session = tf.compat.v1.Session(graph=graph)
    call = session._make_callable_from_options(options)
    yield lambda raw: call(*[raw[name] for name in GOOD])[:2]
    session.close()


GOOD = {
    "price": np.zeros(2, np.float32), "size": np.zeros([2, 2], np.float32),
    "words": np.full([2, 3], "", object), "ids": np.zeros([2, 0], np.int64),
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "shape", "expected"),
    [
        ("size", [2, 3], "[?,2]"),
        ("size", [2, 4], "[?,2]"),  # Twice as many rows.
        ("size", [4, 1], "[?,2]"),
        ("size", [4], "[?,2]"),
        ("size", [2, 2, 1], "[?,2]"),
        ("size", [], "[?,2]"),
        ("price", [2, 1], "[?]"),
        ("price", [1, 2], "[?]"),
        ("price", [], "[?]"),
        ("words", [2], "[?,?]"),
        ("words", [2, 3, 1], "[?,?]"),
        ("ids", [2], "[?,?]"),
    ],
)
def test_tensors_of_another_shape_are_an_error(send, name, shape, expected):
    assert [values.shape for values in send(GOOD)] == [(2, 1), (2, 2)]
    value = np.zeros(shape, GOOD[name].dtype)
    if value.dtype == object:
        value[...] = b"a"
    with pytest.raises(tf.errors.InvalidArgumentError) as error:
        send({**GOOD, name: value})
    text = f"{shape}".replace(" ", "")
    assert f"{name}" in error.value.message.partition(text)[0]
    assert f"{text} is not compatible with expected shape {expected}" in error.value.message


def rows_of(flat):
    return {k: v.to_list() if hasattr(v, "to_list") else v.tolist() for k, v in flat.items()}


def test_what_is_sent_is_what_a_record_holds():
    rows = [
        {"size": [1.0, 2.0], "words": ["a", "", "b"], "ids": [-1, 3]},
        {"price": 2.0, "size": [3.0, 4.0]},
    ]
    flat = flat_of(EXAMPLES, [writing.example(row).SerializeToString() for row in rows])
    raw = serving_inputs.filled(EXAMPLES, flat)
    assert {name: value.tolist() for name, value in raw.items()} == {
        "price": [0.5, 2.0], "size": [[1.0, 2.0], [3.0, 4.0]],
        "words": [[b"a", b"", b"b"], [b"", b"", b""]], "ids": [[-1, 3], [-1, -1]],
    }  # fmt: skip
    assert serving_inputs.sendable(EXAMPLES, flat).tolist() == [True, True]
    assert rows_of(round_trip(EXAMPLES, raw)) == rows_of(flat)


def test_a_list_that_ends_with_a_padding_value_cannot_be_sent():
    rows = [{"words": ["a", ""]}, {"ids": [3, -1]}, {"words": ["", "a"]}]
    records = [writing.example({"size": [0.0, 0.0], **row}).SerializeToString() for row in rows]
    flat = flat_of(EXAMPLES, records)
    assert serving_inputs.sendable(EXAMPLES, flat).tolist() == [False, False, True]
    found = rows_of(round_trip(EXAMPLES, serving_inputs.filled(EXAMPLES, flat)))
    assert found["words"] == [[b"a"], [], [b"", b"a"]] and found["ids"] == [[], [3], []]


def test_one_row_has_lists_of_its_own_length():
    raw = {
        "price": np.array([1.0, 2.0], np.float32), "size": np.zeros([2, 2], np.float32),
        "words": np.array([[b"a", b""], [b"b", b"c"]], object),
        "ids": np.array([[-1, -1], [4, 5]]),
    }  # fmt: skip
    one = serving_inputs.one_row(EXAMPLES, raw, 0)
    assert {name: value.tolist() for name, value in one.items()} == {
        "price": [1.0], "size": [[0.0, 0.0]], "words": [[b"a"]], "ids": [[]],
    }  # fmt: skip


def test_steps_of_lists_are_padded_in_two_dimensions():
    spec = spec_of(
        {"steps": {"dtype": "float32", "feature_list": True, "shape": "variable"}},
        {"steps": {"ragged": "steps"}}, ["steps"],
    )  # fmt: skip
    flat = {"steps": tf.compat.v1.ragged.constant_value([[[1.0], [], [2.0, 3.0]], [[4.0], []]])}
    raw = serving_inputs.filled(spec, flat)
    nan = np.nan
    np.testing.assert_array_equal(
        raw["steps"], [[[1, nan], [nan, nan], [2, 3]], [[4, nan], [nan, nan], [nan, nan]]]
    )
    # The empty step at the end of the second row is lost.
    assert serving_inputs.sendable(spec, flat).tolist() == [True, False]
    found = rows_of(round_trip(spec, raw))
    assert found["steps"] == [[[1.0], [], [2.0, 3.0]], [[4.0]]]


def test_tensors_of_other_rows_are_an_error():
    raw = {
        "price": np.zeros(2, np.float32), "size": np.zeros([3, 2], np.float32),
        "words": np.full([2, 0], "", object), "ids": np.zeros([2, 0], np.int64),
    }  # fmt: skip
    with pytest.raises(tf.errors.InvalidArgumentError) as error:
        round_trip(EXAMPLES, raw)
    text = "the tensors differ in their number of rows: price, size, words, ids:"
    assert text in str(error.value)


# What Python has no parameter for, names that become one parameter, and names that are taken.
NAMES = (
    *keyword.kwlist, "self", "²", "x²", "½", "a b", "a.b", "a-b", "_1", "arg__1", "1", "arg_1",
    "class_", "class_2", "a_b_", "x__", "é", "e\u0301", "match", "args", "cls", "x", "b a",
)  # fmt: skip


def test_python_loads_and_calls_a_signature_of_any_names(tmp_path):
    v1 = tf.compat.v1
    keys = serving_inputs.input_names(NAMES)
    assert list(keys) == list(NAMES) and len(set(keys.values())) == len(NAMES)
    with tf.Graph().as_default(), v1.Session() as session:
        inputs = {key: v1.placeholder(tf.float64, [None]) for key in keys.values()}
        total = tf.add_n([2.0**i * value for i, value in enumerate(inputs.values())])
        signature = v1.saved_model.predict_signature_def(inputs, {"total": total})
        builder = v1.saved_model.Builder(str(tmp_path / "export"))
        builder.add_meta_graph_and_variables(session, ["serve"], {"raw": signature})
        builder.save()
    call = tf.saved_model.load(str(tmp_path / "export")).signatures["raw"]
    for i, key in enumerate(keys.values()):
        sent = {other: tf.constant([float(other == key)], tf.float64) for other in keys.values()}
        assert call(**sent)["total"].numpy() == 2.0**i, key


def test_features_keep_their_names_where_python_can_load_them():
    names = ["user", "a b", "a.b", "class", "class_", "None", "self", "²", "1", "_x"]
    assert serving_inputs.input_names(names) == {
        "user": "user", "a b": "a b", "a.b": "a_b_", "class": "class_2", "class_": "class_",
        "None": "None_", "self": "self_", "²": "arg___", "1": "1", "_x": "_x",
    }  # fmt: skip


def test_a_name_that_python_can_load_wins_over_one_that_becomes_it():
    names = ["a-b", "a.b", "a_b"]
    assert serving_inputs.input_names(names) == {"a-b": "a_b_", "a.b": "a_b_2", "a_b": "a_b"}
