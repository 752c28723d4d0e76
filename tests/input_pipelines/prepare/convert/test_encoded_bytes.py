"""Converts binary columns that a spec decodes, and lists of lists."""

from __future__ import annotations

import copy

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf

import feature_specs
from input_pipelines.errors import DataError
from input_pipelines.prepare.convert.conversion import convert
from input_pipelines.transform.transforms import Transform

DOCUMENT = {
    "features": {
        "pixels": {"dtype": "string", "decode": {"raw": {"dtype": "int16", "shape": [2]}}},
        "photo": {"dtype": "string", "default": "zeros", "decode": {
            "image": {"height": 1, "width": 1, "channels": 3}}},
        "words": {"dtype": "string", "shape": "variable", "row_lengths": "sentences"},
        "sentences": {"dtype": "int64", "shape": "variable"},
    },
    "columns": {
        "pixels": {"numeric": "pixels"}, "photo": {"numeric": "photo"},
        "word": {"identity": "words", "size": 9}, "text": {"ragged": "word"},
    },
    "groups": {"deep": ["pixels", "photo"], "texts": ["text"]},
    "labels": {"y": {"dtype": "int64"}},
    "objectives": {"y": {"head": "binary"}},
}  # fmt: skip
DOCUMENT["features"]["words"]["dtype"] = "int64"
PNG = tf.io.encode_png(tf.constant([[[51, 102, 255]]], tf.uint8)).numpy()
ROWS = [
    {"pixels": np.array([-2, 500], "<i2").tobytes(), "photo": PNG, "words": [1, 2, 3],
     "sentences": [1, 0, 2], "y": 1},
    {"pixels": bytes(4), "photo": None, "words": [], "sentences": [], "y": 0},
    {"pixels": bytes(4), "photo": b"", "words": None, "sentences": None, "y": 0},
]  # fmt: skip


def converted(tmp_path, rows, document=DOCUMENT):
    pq.write_table(pa.Table.from_pylist(rows), f"{tmp_path}/a.parquet")
    spec = feature_specs.parse(document, source="spec.yaml")
    convert([f"{tmp_path}/a.parquet"], directory=f"{tmp_path}/out", spec=spec, workers=1)
    (shard,) = (tmp_path / "out").glob("data-*")
    return spec, list(tf.data.TFRecordDataset(str(shard)).as_numpy_iterator())


def test_converted_files_can_be_read(tmp_path):
    spec, records = converted(tmp_path, ROWS)
    features = Transform(spec).features(tf.constant(records))
    np.testing.assert_array_equal(features["pixels"], [[-2, 500], [0, 0], [0, 0]])
    np.testing.assert_allclose(features["photo"], [[0.2, 0.4, 1.0], [0] * 3, [0] * 3], rtol=1e-6)
    assert features["word"].to_list() == [[[1], [], [2, 3]], [], []]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"pixels": bytes(5)}, "column 'pixels' has 5 bytes, expected 4, as "),
        ({"pixels": b""}, "column 'pixels' is empty, which is required, as "),
        ({"pixels": None}, "column 'pixels' has no value, which is required, as "),
        ({"sentences": [1, 1]},
         "column 'words' has 3 values and 'sentences' lengths that add up to 2, expected as many, "
         "as "),
        ({"sentences": [4, -1]},
         "column 'words' has 3 values and 'sentences' a length below 0, expected as many, as "),
        ({"sentences": None},
         "column 'words' has 3 values and 'sentences' lengths that add up to 0, expected as many, "
         "as "),
    ],
)  # fmt: skip
def test_rows_that_would_stop_training(tmp_path, row, message):
    with pytest.raises(DataError) as error:
        converted(tmp_path, [ROWS[1], ROWS[0], {**ROWS[0], **row}])
    assert str(error.value) == (
        f"{tmp_path}/a.parquet: row 3: {message}spec.yaml says; a training would stop there: "
        "correct the row, or the spec"
    )


def test_tables_that_do_not_fit(tmp_path):
    rows = [{n: v for n, v in row.items() if n != "sentences"} for row in ROWS]
    with pytest.raises(DataError) as error:
        converted(tmp_path, rows)
    assert str(error.value).splitlines()[1:] == [
        "column 'sentences' is missing, but it is the row_lengths of 'words'"
    ]
    document = copy.deepcopy(DOCUMENT)
    del document["features"]["sentences"]
    document["features"]["words"] = {
        "dtype": "int64", "feature_list": True, "shape": "variable",
    }  # fmt: skip
    with pytest.raises(DataError) as error:
        converted(tmp_path, [{**row, "words": [1]} for row in rows], document)
    assert str(error.value).splitlines()[1:] == [
        "feature 'words' is a list of lists (feature_list: true and shape: variable), which "
        "conversion cannot write; store a flat list with row_lengths, or write the records with "
        "ek.write_sequence_examples"
    ]
    with pytest.raises(DataError) as error:
        converted(tmp_path, [{**row, "words": [[1], []]} for row in ROWS])
    assert "Write it as a flat list and the lengths of its lists as another column" in str(
        error.value
    )
