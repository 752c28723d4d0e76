"""TensorFlow Lite can run columns that are made together: it lacks some ops for int64."""

from __future__ import annotations

import copy

import pytest

from tests.conftest import DOCUMENT, make_rows
from tests.estimator_kit.exporters.test_runtimes import convert, exported


@pytest.mark.nightly
def test_several_columns_of_each_kind_become_a_file_for_tensorflow_lite(tmp_path):
    document = copy.deepcopy(DOCUMENT)
    ids = ("hour", "day", "month", "year")
    document["features"] = {
        **{name: {"dtype": "int64", "default": -1} for name in ids},
        **{name: {"dtype": "float32", "default": 0.0} for name in ("price", "cost")},
    }
    document["columns"] = {
        "price": {"numeric": "price", "normalizer": "log1p"},
        "cost": {"numeric": "cost", "normalizer": "log1p"},
        "prices": {"bucketized": "price", "boundaries": [0, 1]},
        "costs": {"bucketized": "cost", "boundaries": [0, 1, 2]},
        "hour": {"identity": "hour", "size": 24},
        "day": {"identity": "day", "size": 31},
        "month": {"identity": "month", "size": 12, "default_id": 1},
        "year": {"identity": "year", "size": 99, "default_id": 2},
        **{f"{name}_emb": {"embedding": name, "dimension": 4} for name in ids[:3]},
        "year_hot": {"indicator": "year"},
    }
    document["groups"] = {
        "wide": ["price", *ids],
        "deep": ["price", "cost", "prices", "costs", *(f"{n}_emb" for n in ids[:3]), "year_hot"],
    }
    rows = [
        {**row, "cost": i / 9, "hour": i % 24, "day": i % 7 - 1, "month": i, "year": i}
        for i, row in enumerate(make_rows(60))
    ]
    export = exported(tmp_path, document, rows, [8])
    assert any("largest difference" in line for line in convert(export, tmp_path, "tflite"))
