"""Rows become the Examples that the spec reads; an error names what does not fit."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

import estimator_kit as ek
from estimator_kit.client import GrpcClient, RestClient, RowError, Rows, rest_client
from estimator_kit.client.connections import Retries, ServingError
from estimator_kit.client.tensors import TensorForm
from input_pipelines.record_files import writing


class Frame:
    """The part of a DataFrame that the client uses: its columns, and its rows as dicts."""

    def __init__(self, columns):
        self.columns = list(columns)
        self._data = columns

    def to_dict(self, orient):
        assert orient == "records"
        return [dict(zip(self.columns, row)) for row in zip(*self._data.values())]


@pytest.fixture
def rows(document):
    document["features"]["vector"] = {"dtype": "float32", "shape": [2, 2]}
    document["columns"]["vector"] = {"numeric": "vector"}
    document["groups"]["deep"].append("vector")
    document["features"]["visits"] = {"dtype": "int64", "default": 0}
    document["columns"]["visits"] = {"numeric": "visits"}
    document["groups"]["deep"].append("visits")
    return Rows(ek.parse_spec(document))


GOOD = {"city": "rome", "vector": [[1, 2], [3, 4]]}


def test_examples_are_those_that_tensorflow_makes(rows):
    row = {"price": 1.5, "user": "ann", "city": b"r\xff", "tags": ["a", "b"], "visits": 3,
           "vector": np.arange(4.0).reshape(2, 2)}  # fmt: skip
    read = tf.train.Example.FromString(rows.serialized([row])[0])
    assert read == writing.example({**row, "vector": [0.0, 1.0, 2.0, 3.0]})


def test_missing_values_and_labels_are_left_out(rows):
    made = rows.examples([{**GOOD, "user": None, "click": 1}])
    assert set(made[0].features.feature) == {"city", "vector"}


def test_a_data_frame(rows):
    frame = Frame({"city": ["rome", "oslo"], "price": [1.0, float("nan")],
                   "vector": [[1, 2, 3, 4], np.ones(4)], "visits": np.array([1, 2])})  # fmt: skip
    first, second = rows.examples(frame)
    assert first.features.feature["price"].float_list.value[:] == [1.0]
    assert set(second.features.feature) == {"city", "vector", "visits"}


def test_columns_of_one_name(rows):
    frame = Frame({"city": ["rome"], "price": [1.0]})
    frame.columns = ["city", "price", "city"]
    with pytest.raises(RowError) as error:
        rows.examples(frame)
    assert str(error.value) == (
        "the column 'city' occurs more than once. A row has one value for each name: rename or "
        "remove the other columns."
    )


def test_tables_of_pyarrow(rows):
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"city": ["rome", "oslo"], "price": [1.5, None], "tags": [["a"], []],
                      "vector": [[1, 2, 3, 4]] * 2, "visits": [2**53 + 1, None]})  # fmt: skip
    expected = rows.serialized(table.to_pylist())
    assert rows.serialized(table) == expected
    assert rows.serialized(table.to_batches()[0]) == expected
    first, second = rows.examples(table)
    assert first.features.feature["visits"].int64_list.value[:] == [2**53 + 1]
    assert set(second.features.feature) == {"city", "tags", "vector"}
    twice = pa.Table.from_arrays([table["city"], table["price"], table["price"]],
                                 names=["city", "price", "price"])  # fmt: skip
    for given in (twice, twice.to_batches()[0]):
        with pytest.raises(RowError, match="the column 'price' occurs more than once"):
            rows.examples(given)


def test_other_tables(rows):
    class Polars:
        columns = ("city", "vector")

        def to_dicts(self):
            return [dict(GOOD)]

        def to_dict(self, as_series=True):
            raise AssertionError("of pandas")

    class Columns:
        columns = ("city",)

    assert rows.serialized(Polars()) == rows.serialized([GOOD])
    with pytest.raises(RowError) as error:
        rows.examples(Columns())
    assert str(error.value) == (
        "got a Columns, expected a list of dicts, one for each row, or a DataFrame of pandas or "
        "Polars, or a Table of pyarrow"
    )


def test_integers_of_a_column_with_missing_ones(rows):
    """The values as pandas stores them: floats, and NaN."""
    nan = float("nan")
    column = np.array([26, nan, -3, 2**53 - 1])
    records = [{**GOOD, "visits": value} for value in column.tolist()]
    frame = Frame({"city": ["rome"] * 4, "vector": [[1, 2, 3, 4]] * 4, "visits": column})
    for given in (frame, records):
        made = [example.features.feature for example in rows.examples(given)]
        assert "visits" not in made[1]
        visits = [example["visits"].int64_list.value[:] for example in made]
        assert visits == [[26], [], [-3], [2**53 - 1]]
    (made,) = rows.examples([{**GOOD, "visits": np.float32(5), "price": nan, "user": nan}])
    assert made.features.feature["visits"].int64_list.value[:] == [5]
    assert set(made.features.feature) == {"city", "vector", "visits"}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"citi": "rome"}, "row 1: the spec has no feature 'citi'. Did you mean 'city'?"),
        ({"city": None}, "row 1: the required feature 'city' is missing"),
        ({"city": 5}, "row 1: city: got 5, expected str or bytes"),
        ({"price": "5"}, "row 1: price: got '5', expected a number"),
        ({"price": True}, "row 1: price: got True, expected a number"),
        ({"price": 1e39}, "row 1: price: got 1e+39, expected a number"),
        ({"price": [1.0]}, "row 1: price: got [1.0], expected one value"),
        ({"city": float("nan")}, "row 1: the required feature 'city' is missing"),
        ({"visits": 1.5}, "row 1: visits: got 1.5, expected an int64"),
        ({"visits": float("inf")}, "row 1: visits: got inf, expected an int64"),
        ({"visits": True}, "row 1: visits: got True, expected an int64"),
        ({"visits": np.bool_(False)}, f"row 1: visits: got {np.bool_(False)!r}, expected an int64"),
        ({"visits": 2.0**53}, "row 1: visits: got 9007199254740992.0, expected an int64, and a "
                              "float this large may have been another integer"),
        ({"vector": [1, 2, "a", float("nan")]}, "row 1: vector: got 'a', expected a number"),
        ({"visits": 2**63}, "row 1: visits: got 9223372036854775808, expected an int64"),
        ({"tags": "a"}, "row 1: tags: got 'a', expected a list"),
        ({"tags": ["a", 1]}, "row 1: tags: got 1, expected str or bytes"),
        ({"vector": [1, 2]}, "row 1: vector: got 2 values, expected 4"),
    ],
)  # fmt: skip
def test_what_does_not_fit(rows, row, message):
    with pytest.raises(RowError) as error:
        rows.examples([GOOD, {**GOOD, **row}])
    assert str(error.value) == message


def test_a_signature_needs_only_what_it_reads(document):
    spec = ek.parse_spec(document)
    rows = Rows(spec, {"user_vector": ["user"], "serving_default": ["city", "user"]})
    assert rows.examples([{"user": "ann"}], "user_vector")[0].features.feature.keys() == {"user"}
    for signature in ("", "serving_default", "other"):
        with pytest.raises(RowError, match="row 0: the required feature 'city' is missing"):
            rows.examples([{"user": "ann"}], signature)
    # What a signature does not read is checked all the same.
    with pytest.raises(RowError, match="row 0: city: got 5, expected str or bytes"):
        rows.examples([{"user": "ann", "city": 5}], "user_vector")


def test_what_an_export_says_about_its_signatures(tmp_path, document):
    extra = tmp_path / "assets.extra"
    (extra / "feature_spec").mkdir(parents=True)
    spec = ek.parse_spec(document).to_dict()
    (extra / "feature_spec" / "spec.json").write_text(json.dumps(spec))
    missing = pytest.raises(RowError, match="the required feature 'city' is missing")
    with missing:  # An export of an earlier release.
        Rows.of_export(tmp_path).examples([{"user": "ann"}], "by_user")
    needs = extra / "signature_features.json"
    needs.write_text('{"by_user": ["user"]}')
    assert len(Rows.of_export(tmp_path).examples([{"user": "ann"}], "by_user")) == 1
    alone = Rows.of_export(extra / "feature_spec" / "spec.json")
    with pytest.raises(RowError, match="the required feature 'city' is missing"):
        alone.examples([{"user": "ann"}], "by_user")
    for text, problem in (("[]", "got None"), ('{"a": 1}', "got 1"), ("{", "is not JSON")):
        needs.write_text(text)
        with pytest.raises(ValueError, match=problem) as error:
            Rows.of_export(tmp_path)
        assert str(needs) in str(error.value) and "Export the model again" in str(error.value)


def test_one_dict_is_not_a_list_of_rows(rows):
    with pytest.raises(RowError, match=r"expected a list of dicts, .*, got one dict"):
        rows.examples(GOOD)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["abc"], "row 0: got 'abc', expected a dict"),
        ([GOOD, None], "row 1: got None, expected a dict"),
        ([b"abc", GOOD], "row 0: got b'abc', expected a dict"),
        ("abc", "expected a list of dicts, one for each row, or a DataFrame, got 'abc'"),
        (b"abc", "expected a list of dicts, one for each row, or a DataFrame, got b'abc'"),
        (5, "expected a list of dicts, one for each row, or a DataFrame, got 5"),
        (np.array(5), "expected a list of dicts, one for each row, or a DataFrame, got array(5)"),
    ],
)
def test_values_that_are_not_rows(rows, given, message):
    with GrpcClient("localhost:1", "ads", rows=rows) as client:
        for ask in (client.predict, client.classify, client.regress):
            with pytest.raises(RowError) as error:
                ask(given)
            assert str(error.value) == message


@pytest.mark.parametrize(
    ("value", "shape", "expected"),
    [
        ([], (None, 2), (0, 2)),
        ([], (None, None, 3), (0, 0, 3)),
        ([[], []], (None, None, 4), (2, 0, 4)),
        ([], (None,), (0,)),
        ([], None, (0,)),
        ([[1.0, 2.0]], (None, 2), (1, 2)),
    ],
)
def test_the_shape_of_an_array_of_json(value, shape, expected):
    assert rest_client._array(value, TensorForm("float", shape)).shape == expected
    if not np.size(value):
        assert rest_client._array(value, TensorForm("string", shape)).shape == expected


def test_sequence_examples(document):
    document["features"]["steps"] = {"dtype": "float32", "feature_list": True}
    document["columns"]["steps"] = {"sequence_numeric": "steps"}
    document["groups"]["sequence"] = ["steps"]
    rows = Rows(ek.parse_spec(document))
    assert rows.sequence
    read = tf.train.SequenceExample.FromString(
        rows.serialized([{"city": "rome", "steps": [1, 2.5]}])[0]
    )
    assert read == writing.sequence_example({"city": "rome"}, {"steps": [1.0, 2.5]})
    client = GrpcClient("localhost:1", "ads", rows=rows)
    with client, pytest.raises(RowError, match="reads SequenceExamples, which classify and r"):
        client.regress([{"city": "rome"}])


def test_importing_and_using_a_client_needs_no_tensorflow(ads):
    code = """
import sys
import estimator_kit.client
heavy = {"tensorflow", "pydantic", "grpc", "feature_specs"} & set(sys.modules)
assert not heavy, heavy
rows = estimator_kit.client.Rows.of_export(sys.argv[1])
assert len(rows.serialized([{"city": "rome"}])) == 1
estimator_kit.client.GrpcClient("localhost:1", "ads").close()
assert "tensorflow" not in sys.modules and "tensorflow_serving" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code, f"{ads}/spec.yaml"], check=True)


def test_retries_end_with_the_deadline():
    now, waits, left = [0.0], [], []

    def sleep(seconds):
        waits.append(seconds)
        now[0] += seconds

    def attempt(seconds):
        left.append(seconds)
        raise ServingError("UNAVAILABLE", "gone")

    with pytest.raises(ServingError, match="UNAVAILABLE: gone"):
        Retries(1.0, lambda: now[0], sleep).call(attempt)
    assert len(waits) >= 4 and sum(waits) < 1.0
    assert left[0] == 1.0 and left == sorted(left, reverse=True)
    assert all(0.05 * 2**i / 2 <= wait <= 0.05 * 2**i for i, wait in enumerate(waits))


def test_what_is_wrong_is_not_tried_again():
    tries = []

    def attempt(seconds):
        tries.append(seconds)
        raise ServingError("INVALID_ARGUMENT", "no")

    with pytest.raises(ServingError):
        Retries(1.0).call(attempt)
    assert len(tries) == 1


def test_clients_say_what_is_missing():
    with pytest.raises(RowError, match=r"Pass rows=Rows.of_export\(<export>\)"):
        GrpcClient("localhost:1", "ads").predict([{}])
    with pytest.raises(ValueError, match="got 'localhost:8501', expected http://host:port"):
        RestClient("localhost:8501", "ads")
    with pytest.raises(ValueError, match="give version or label, not both"):
        GrpcClient("localhost:1", "ads", version=1, label="stable")
    with pytest.raises(ValueError, match="the name of the model is empty"):
        RestClient("http://localhost:8501", "")
    with pytest.raises(ValueError, match="batch_rows: got 0, expected 1 or more"):
        GrpcClient("localhost:1", "ads", batch_rows=0)
    with pytest.raises(ValueError, match="timeout_secs: got 0, expected more than 0"):
        GrpcClient("localhost:1", "ads", timeout_secs=0)
    with pytest.raises(RowError, match="inputs differ in their number of rows"):
        GrpcClient("localhost:1", "ads").predict_tensors({"a": [1], "b": [1, 2]})
