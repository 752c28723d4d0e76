"""Only whether a number is missing says something about the label, and every model learns it.

The spec is the first spec of an analysis. A model that gets the median for a missing number has an
AUC of 0.5 here, because the median says nothing.
"""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import feature_specs
from estimator_kit.model.names import read_metrics
from estimator_kit.models import find_model
from input_pipelines.prepare.analyze import first_spec
from input_pipelines.record_files import writing
from tests.estimator_kit.small_training import batch_of

ROWS = 2000
# The AUC of the rule "missing": P(missing | 1) = 0.8 and P(missing | 0) = 0.2 give
# 0.8 * 0.8 + (0.8 * 0.2 + 0.2 * 0.8) / 2.
RULE = 0.8


def make_rows(seed):
    rng = np.random.default_rng(seed)
    rows = []
    for i in range(ROWS):
        click = i % 2
        missing = rng.uniform() < (0.8 if click else 0.2)
        # Half of the models' columns are of an integer, half of a float32.
        as_float = rng.normal(50, 20)
        as_integer = int(rng.integers(1, 2000))
        rows.append(
            {
                "income": None if missing else float(as_float),
                "visits": None if missing else as_integer,
                "noise": float(rng.normal()), "click": click,
            }
        )  # fmt: skip
    return rows


@pytest.fixture(scope="module")
def spec(tmp_path_factory):
    folder = tmp_path_factory.mktemp("missing")
    path = str(folder / "train.tfrecord")
    writing.write_examples(path, make_rows(1))
    first_spec.write([path], labels=["click"], directory=str(folder / "first"))
    return feature_specs.load(folder / "first" / "spec.yaml")


def test_the_first_spec_knows_missing_numbers(spec):
    income, visits = spec.features["income"], spec.features["visits"]
    assert income.default < -1 and np.log10(-income.default) % 1 == 0  # Below all incomes.
    assert visits.default == -1
    for name in ("income", "visits"):
        assert spec.columns[f"{name}_scaled"].missing is not None
        assert spec.columns[f"{name}_bucket"].missing == "own_bucket"
        assert f"{name}_missing" in spec.groups["deep"]
    assert spec.features["noise"].default is None


@pytest.mark.parametrize(
    ("model", "params"),
    [
        ("linear", {"learning_rate": 0.5}),
        ("dnn", {"hidden_units": [8], "learning_rate": 0.1}),
        pytest.param("wide_deep", {"hidden_units": [8]}, marks=pytest.mark.ci),
        pytest.param("deepfm", {"hidden_units": [8], "learning_rate": 0.02}, marks=pytest.mark.ci),
    ],
)
def test_models_learn_that_a_number_is_missing(model, params, spec, tmp_path):
    config = tf.estimator.RunConfig(
        model_dir=str(tmp_path), tf_random_seed=1, save_summary_steps=None
    )
    trained = tf.estimator.Estimator(find_model(model)(spec, params), config=config)
    batch = batch_of(spec, make_rows(1))
    trained.train(lambda: batch().repeat(), steps=60)
    metrics = read_metrics(trained.evaluate(batch_of(spec, make_rows(2)), steps=1))
    # Both numbers are missing together, so more than the rule cannot be known. The error of an AUC
    # of 2,000 rows is about 0.01.
    assert metrics["auc/click"] == pytest.approx(RULE, abs=0.03)
