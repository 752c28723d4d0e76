"""--mixed_precision and --xla on the data of the demo: quality, variables and exports are equal."""

from __future__ import annotations

import json
import pathlib

import numpy as np
import pytest

import estimator_kit as ek
from input_pipelines.synthetic import impression_log
from tests.conftest import ROOT, variables

pytestmark = pytest.mark.ci

FIELDS = {
    "spec": str(ROOT / "feature_specs/catalog/ads.yaml"), "model": "wide_deep",
    "model_params": {"hidden_units": [64, 32], "learning_rate": 0.05, "linear_learning_rate": 0.2},
}  # fmt: skip


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    impression_log.generate(str(folder), rows=100_000)
    return folder


@pytest.fixture(scope="module")
def train(data, tmp_path_factory):
    """A function (changes) -> (model directory, result) of the same training in another way."""
    folder = tmp_path_factory.mktemp("runs")

    def run(**changes):
        model_dir = folder / "_".join(["run", *map(str, changes.values())])
        result = ek.run(
            ek.ExperimentConfig(
                **FIELDS, model_dir=str(model_dir), exporters=("final",), batch_size=512,
                train_files=(f"{data}/dt=2026-01-0[1-7]/*.tfrecord",), max_steps=200,
                eval_files=(f"{data}/dt=2026-01-08/*.tfrecord",), **changes,
            )
        )  # fmt: skip
        return model_dir, result

    return run


@pytest.fixture(scope="module")
def plain(train):
    return train()


@pytest.mark.nightly
@pytest.mark.parametrize(
    "changes",
    [
        {"mixed_precision": "bfloat16"},
        {"xla": "on"},
        {"mixed_precision": "float16"},
        {"mixed_precision": "bfloat16", "xla": "on"},
    ],
)
def test_quality_and_variables_are_equal(plain, train, changes):
    folder, result = train(**changes)
    for name in ("auc/click", "auc/purchase"):
        assert abs(result.metrics[name] - plain[1].metrics[name]) <= 0.002
    assert plain[1].metrics["auc/click"] > 0.6  # The model has learned something.
    expected = {name: value.dtype for name, value in variables(plain[0]).items()}
    assert {name: value.dtype for name, value in variables(folder).items()} == expected


@pytest.mark.nightly
def test_an_export_of_a_model_that_was_trained_in_16_bits_answers_as_predict_does(
    train, data, tmp_path
):
    folder, result = train(mixed_precision="bfloat16", xla="on", seed=2)
    asked = {"mode": "predict", "predict_files": (f"{data}/dt=2026-01-08/*.tfrecord",)}
    outputs = []
    for name, source in (
        ("model", {**FIELDS, "model_dir": str(folder)}),
        ("export", {"export_dir": result.export_path}),
    ):
        path = tmp_path / f"{name}.jsonl"
        ek.run(ek.ExperimentConfig(**asked, **source, predict_limit=500, predict_output=str(path)))
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        outputs.append([line["click/logistic"] for line in lines])
    np.testing.assert_allclose(outputs[0], outputs[1], rtol=1e-5)
    graph = pathlib.Path(result.export_path, "saved_model.pb").read_bytes()
    assert b"_XlaCompile" not in graph
