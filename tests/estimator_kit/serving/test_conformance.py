"""A served model with every head and many kinds of columns answers like `predict` (1e-6)."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import tensorflow as tf

import feature_specs
from estimator_kit.client import GrpcClient, RestClient, RowError, Rows, ServingError
from estimator_kit.exporters import saved_model
from estimator_kit.models import MODELS
from input_pipelines.record_files import writing
from tests.conformance import table
from tests.conformance.test_conformance import raw_request
from tests.estimator_kit.serving.small_models import serving
from tests.estimator_kit.small_training import batch_of

pytestmark = pytest.mark.ci

# Kinds of columns that are not in the table of the conformance test.
MORE = {
    "price_bin": {"bucketized": "price_raw", "boundaries": [2, 5]},
    "price_raw": {"numeric": "price"},
    "age": {"identity": "age", "size": 5},
    "cross": {"crossed": ["price_bin", "tags"], "size": 30},
    "counted": {"weighted": "tag", "weight": "counts"},
    "vector": {"numeric": "vector", "normalizer": {"zscore": {"mean": 1, "stddev": 2}}},
    "age_emb": {"embedding": "age", "dimension": 2},
    "counted_emb": {"embedding": "counted", "dimension": 3, "combiner": "sum"},
    "cross_hot": {"indicator": "cross"},
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The export of a model, some rows, and the Estimator's predictions for them."""
    folder = tmp_path_factory.mktemp("conformance")
    heads = {head: head for head in table.ROW_HEADS}
    document = copy.deepcopy(table.document(heads, ("wide", "deep")))
    document["features"].update(
        age={"dtype": "int64", "default": -1},
        counts={"dtype": "float32", "shape": "variable"},
        vector={"dtype": "float32", "shape": [2, 2]},
    )
    document["columns"].update(MORE)
    document["groups"]["wide"] += ["price_bin", "cross", "age"]
    document["groups"]["deep"] += ["vector", "age_emb", "counted_emb", "cross_hot"]
    spec = feature_specs.parse(document)
    rows = table.make_rows(32, heads)
    for i, row in enumerate(rows):
        row["tags"] = row.get("tags") or []
        row.update(age=i % 6 - 1, vector=[i, 0.5, -1.0, i / 3])
        row["counts"] = [float(j + 1) for j in range(len(row["tags"]))]
    known = {*spec.features, *spec.labels}
    rows = [{name: value for name, value in row.items() if name in known} for row in rows]
    made = tf.estimator.Estimator(
        MODELS["wide_deep"](spec, table.MODEL_CASES["wide_deep"].params),
        config=tf.estimator.RunConfig(
            model_dir=str(folder / "model"), tf_random_seed=1, save_summary_steps=None,
            log_step_count_steps=None,
        ),
    )  # fmt: skip
    made.train(batch_of(spec, rows), steps=2)
    saved_model.export_saved_model(made, spec, str(folder / "export"))
    unlabelled = batch_of(spec, rows, labels=False)
    expected = next(iter(made.predict(unlabelled, yield_single_examples=False)))
    return folder / "export", spec, rows, expected


@pytest.fixture(scope="module")
def clients(trained):
    folder, spec, _, _ = trained
    with serving(folder) as (address, url, _):
        options = {"rows": Rows(spec), "batch_rows": 20}
        first, second = GrpcClient(address, "ads", **options), RestClient(url, "ads", **options)
        with first, second:
            yield {"grpc": first, "rest": second}


def same(found, expected):
    if expected.dtype == np.object_:
        assert found.tolist() == expected.tolist()
    else:
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("protocol", ["grpc", "rest"])
def test_predictions_are_those_of_the_estimator(trained, clients, protocol):
    _, spec, rows, expected = trained
    found = clients[protocol].predict(rows)
    assert set(found) == set(expected) and len(found) >= 2 * len(spec.objectives)
    for name, values in expected.items():
        same(found[name], values)


@pytest.mark.parametrize("protocol", ["grpc", "rest"])
@pytest.mark.parametrize("shape", [(2, 2, 4), (4, 2, 1), (2, 4), (2, 3, 3)])
def test_a_vector_of_another_shape_is_an_error(trained, clients, protocol, shape):
    _, spec, rows, _ = trained
    records = [writing.example(row).SerializeToString() for row in rows[:2]]
    raw = raw_request(spec, records)
    found = clients[protocol].predict_tensors(raw, signature="predict_raw")
    assert {len(values) for values in found.values()} == {2}
    assert raw["vector"].shape == (2, 2, 2)
    raw["vector"] = np.zeros(shape, np.float32)
    with pytest.raises((ServingError, RowError)) as error:
        clients[protocol].predict_tensors(raw, signature="predict_raw")
    if shape[0] == 2:
        assert error.value.code == "INVALID_ARGUMENT"
        assert "is not compatible with expected shape [?,2,2]" in error.value.message


@pytest.mark.parametrize("value", ["", [[""]]], ids=["a scalar", "a matrix"])
def test_records_are_a_list(clients, value):
    """TensorFlow parses a scalar as a record without a first dimension."""
    with pytest.raises(ServingError) as error:
        clients["rest"]._call("POST", ":predict", {"inputs": {"examples": value}})
    assert error.value.code == "INVALID_ARGUMENT"
    assert "is not compatible with expected shape [?]" in error.value.message


@pytest.mark.parametrize("protocol", ["grpc", "rest"])
def test_classes_and_values_are_those_of_the_estimator(trained, clients, protocol):
    client, (_, _, rows, expected) = clients[protocol], trained
    asked = 0
    for name, signature in client.metadata().signatures.items():
        method, _, objective = name.partition("/")
        if method == "classify" and f"{objective}/probabilities" in expected:
            asked += 1
            found = client.classify(rows, signature=name)
            same(found.scores, expected[f"{objective}/probabilities"])
            assert found.labels.shape == found.scores.shape
        elif signature.method.endswith("regress") and f"{objective}/predictions" in expected:
            asked += 1
            values = expected[f"{objective}/predictions"].reshape(-1)
            same(client.regress(rows, signature=name), values)
    assert asked >= 2
