"""The rows on which two models are compared."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import feature_specs
from estimator_kit.retraining import gate_stage
from estimator_kit.scoring import eval_rows, measured
from estimator_kit.scoring import export as exports
from input_pipelines.errors import DataError
from input_pipelines.record_files import writing
from tests.conftest import DOCUMENT

SPEC = feature_specs.parse(DOCUMENT)


def write(folder, name, numbers):
    # With GZIP a file without records has bytes, so it does not count as damaged.
    path = str(folder / f"{name}.tfrecord.gz")
    writing.write_examples(path, [{"x": number} for number in numbers])
    return path


def numbers(records):
    examples = [tf.train.Example.FromString(record) for record in records]
    return [example.features.feature["x"].int64_list.value[0] for example in examples]


def test_requests_are_of_records_from_as_many_files_as_it_takes(tmp_path):
    content = {"c": [4, 5], "a": [], "b": [1, 2, 3]}
    paths = [write(tmp_path, name, there) for name, there in content.items()]
    for count, expected in ((2, [1, 2]), (4, [1, 2, 3, 4]), (8, [1, 2, 3, 4, 5])):
        assert numbers(eval_rows.first_records(SPEC, paths, count)) == expected


def test_rows_that_the_filter_drops_are_left_out(tmp_path, monkeypatch):
    document = {
        "features": {
            "country": {"dtype": "string", "default": ""},
            "age": {"dtype": "int64"},
            "score": {"dtype": "float32", "default": 0.5},
            "x": {"dtype": "int64"},
        },
        "columns": {"x": {"identity": "x", "size": 10}, "age": {"identity": "age", "size": 100}},
        "groups": {"wide": ["age", "x"]},
        "labels": {"row": {"dtype": "float32", "weight": "score"}},
        "objectives": {"row": {"head": "regression"}},
        "filter": [
            {"feature": "country", "in": ["de", "fr"]},
            {"feature": "age", "min": 18, "max": 20, "not_in": [19]},
            {"feature": "score", "min": 0.25},
        ],
    }
    values = [
        ("de", 18, 0.25), ("it", 18, 0.25), (None, 20, 0.25), ("fr", 20, None), ("fr", 21, 1.0),
        ("de", 19, 1.0), ("de", 17, 1.0), ("de", 18, 0.125), ("fr", 20, 3.0),
    ]  # fmt: skip
    path = str(tmp_path / "rows.tfrecord")
    names = ("country", "age", "score", "row")
    rows = [dict(zip(names, (*value, float(i)))) for i, value in enumerate(values)]
    # A row that is dropped may lack what others need.
    rows = [{**row, "x": 1} if i in (0, 3, 8) else row for i, row in enumerate(rows)]
    del rows[1]["row"]
    writing.write_examples(path, rows)
    spec = feature_specs.parse(document)
    # Batches of two, so that a row is in its place also across batches.
    found = eval_rows.EvalRows(spec, [path], features=["country"], batch_size=2)
    assert found.labels("row").tolist() == [0.0, 3.0, 8.0]
    assert found.weights("row").tolist() == [0.25, 0.5, 3.0]
    assert found.values("country").tolist() == [b"de", b"fr", b"fr"]
    assert len(found) == 3

    class Model:
        def run(self, signature, inputs, names):
            (records,) = inputs.values()
            asked.extend(records)
            return {name: np.full([len(records), 1], len(asked)) for name in names}

    asked = []
    export = exports.Export(
        "", "", "predict", "examples", (exports.Output("row/predictions", "float32", 1),), spec
    )
    monkeypatch.setattr(exports, "read", lambda *arguments: export)
    predicted = found.predictions("", ["row"], model=Model())
    assert predicted["row"].tolist() == [2, 2, 3]  # Batches of two rows.
    assert asked == measured.records(spec, [path])
    assert asked[:2] == eval_rows.first_records(spec, [path], 2).tolist()
    examples = [tf.train.Example.FromString(record) for record in asked]
    found = [example.features.feature["row"].float_list.value[0] for example in examples]
    assert found == [0, 3, 8]


def test_a_filter_that_keeps_no_row(tmp_path):
    document = {**DOCUMENT, "filter": [{"feature": "city", "in": ["nowhere"]}]}
    path = str(tmp_path / "rows.tfrecord")
    writing.write_examples(path, [{"city": "rome"}] * 3)
    with pytest.raises(DataError) as error:
        eval_rows.EvalRows(feature_specs.parse(document), [path], features=[], batch_size=2)
    assert str(error.value) == (
        "the filter of the spec keeps no row of the 1 evaluation files. Check `filter` in the spec."
    )


def test_a_staged_model_is_not_verified_with_nothing(tmp_path):
    paths = [write(tmp_path, "a", []), write(tmp_path, "b", [])]
    with pytest.raises(DataError) as error:
        gate_stage.verify(SPEC, "never loaded", paths)
    assert str(error.value) == (
        "the 2 evaluation files have no record, so no request can be sent to a model"
    )
