"""Metrics of slices, compared with scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

import feature_specs
from estimator_kit.errors import ConfigError
from estimator_kit.scoring import slices
from estimator_kit.scoring.eval_rows import EvalRows
from input_pipelines.record_files import writing
from tests.conftest import DOCUMENT, make_rows

ROWS = 900


@pytest.fixture(scope="module")
def spec():
    return feature_specs.parse(DOCUMENT)


@pytest.fixture(scope="module")
def rows():
    found = make_rows(ROWS, seed=3)
    for i, row in enumerate(found):
        row["city"] = "rare" if i < slices.LEAST_ROWS - 1 else row["city"]
    return found


def test_each_slice_has_its_metric_and_interval(spec, rows, tmp_path):
    path = str(tmp_path / "rows.tfrecord")
    writing.write_examples(path, rows)
    read = EvalRows(spec, [path], features=["city"], batch_size=100)
    predictions = {"click": np.array([row["price"] for row in rows])}
    found = slices.slices(spec, read, predictions, ["city"]).objectives["click"]
    labels = np.array([row["click"] for row in rows])
    cities = np.array([row["city"] for row in rows])
    assert found.metric == "auc"
    whole = roc_auc_score(labels, predictions["click"])
    assert (found.overall.value, found.overall.rows) == (pytest.approx(whole), ROWS)
    assert found.left_out == {"city": slices.LEAST_ROWS - 1}
    assert {part.value for part in found.slices} == {"rome", "oslo", "lima"}
    for part in found.slices:
        at = cities == part.value
        assert part.rows == at.sum()
        expected = roc_auc_score(labels[at], predictions["click"][at])
        assert part.metric == pytest.approx(expected)
        assert part.low < expected < part.high


@pytest.mark.parametrize(("name", "message"), [
    ("citty", r"--slices: unknown feature 'citty'\. Did you mean 'city'\?"),
    ("price", "price contains floats, expected a feature with a single string or integer."),
    ("tags", "tags contains lists, expected a feature with a single string or integer."),
])  # fmt: skip
def test_features_that_make_no_slices_are_errors(spec, name, message):
    with pytest.raises(ConfigError, match=message):
        slices.check(spec, [name])
