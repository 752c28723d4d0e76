"""Checkpoints, warm starts and SavedModels of one TensorFlow work with another TensorFlow.

OTHER_PYTHON names the Python of the other TensorFlow's environment; `.ci/run` sets it:

    OTHER_PYTHON=.../tf2.15/bin/python .../tf2.21/bin/python -m pytest tests/integration
"""

from __future__ import annotations

import json
import os
import sys

import numpy as np
import pytest

from tests.estimator_kit.compat.support import environment
from tests.resident import Resident

OTHER = os.environ.get("OTHER_PYTHON")

pytestmark = pytest.mark.skipif(not OTHER, reason="OTHER_PYTHON is not set")

# With these parameters a step changes nothing. FTRL would, because it computes weights from slots.
STILL = {
    "linear": ["optimizer=adagrad", "learning_rate=1e-30"],
    "dnn": ["learning_rate=1e-30"],
    "wide_deep": [
        "linear_optimizer=adagrad", "linear_learning_rate=1e-30", "learning_rate=1e-30",
    ],
}  # fmt: skip


class Version:
    """One of the two TensorFlows: a process with the kit, and a process with only TensorFlow."""

    def __init__(self, python):
        self.kit, self.bare = (Resident(python, environment()) for _ in range(2))

    def in_folder(self, ads, folder):
        self.ads, self.folder = ads, folder
        return self

    def close(self):
        self.kit.close()
        self.bare.close()

    def train(self, model, model_dir, max_steps, *more):
        """Trains to a step and returns the path of the final export."""
        self.kit.call(
            "tests.integration.jobs:program",
            f"--spec={self.ads}/spec.yaml", f"--train_files={self.ads}/train-*",
            f"--eval_files={self.ads}/eval.tfrecord", f"--model={model}", "--batch_size=50",
            f"--model_dir={model_dir}", f"--max_steps={max_steps}", "--exporters=final", *more,
        )  # fmt: skip
        return json.loads((model_dir / "result.json").read_text())["export_path"]

    def predict(self, model, model_dir):
        """The probabilities of the latest checkpoint, [rows, objectives]."""
        output = self.folder / "predictions.jsonl"
        self.kit.call(
            "tests.integration.jobs:program",
            "--mode=predict", f"--spec={self.ads}/spec.yaml", f"--model={model}",
            f"--model_dir={model_dir}", f"--predict_files={self.ads}/eval.tfrecord",
            f"--predict_output={output}",
        )  # fmt: skip
        rows = [json.loads(line) for line in output.read_text().splitlines()]
        return np.array([[row[f"{name}/logistic"] for name in ("click", "buy")] for row in rows])

    def serve(self, export):
        """The answers of the SavedModel, by the names of the outputs."""
        output = self.folder / "answer.json"
        records = f"{self.ads}/eval.tfrecord"
        self.bare.call("tests.integration.jobs:serve", export, records, output)
        return {name: np.array(value) for name, value in json.loads(output.read_text()).items()}


@pytest.fixture(scope="module")
def versions():
    made = [Version(python) for python in (OTHER, sys.executable)]
    yield made
    for version in made:
        version.close()


@pytest.mark.ci
@pytest.mark.parametrize(
    "model, direction",
    [pytest.param("linear", "to_other", marks=pytest.mark.nightly),
     pytest.param("wide_deep", "from_other", marks=pytest.mark.nightly),
     pytest.param("wide_deep", "to_other", marks=pytest.mark.nightly),
     pytest.param("dnn", "from_other", marks=pytest.mark.nightly)],
)  # fmt: skip
def test_trained_here_and_used_there(versions, model, direction, ads, tmp_path):
    in_order = versions if direction == "from_other" else versions[::-1]
    first, second = (version.in_folder(ads, tmp_path) for version in in_order)
    model_dir = tmp_path / "model"

    export = first.train(model, model_dir, 20)
    expected = first.predict(model, model_dir)
    assert expected.shape == (200, 2) and expected.std() > 1e-3
    close = {"rtol": 0, "atol": 1e-6}
    np.testing.assert_allclose(second.predict(model, model_dir), expected, **close)
    served = [version.serve(export) for version in (first, second)]
    assert served[0] and served[0].keys() == served[1].keys()
    for name in served[0]:
        np.testing.assert_allclose(served[1][name], served[0][name], err_msg=name, **close)

    # After a warm start without learning, the model has the same predictions as its parent.
    warm = tmp_path / "warm"
    still = [f"--model_params={param}" for param in STILL[model]]
    second.train(model, warm, 1, f"--warm_start_from={model_dir}", *still)
    np.testing.assert_allclose(second.predict(model, warm), expected, **close)

    export = second.train(model, model_dir, 40)
    expected = second.predict(model, model_dir)
    np.testing.assert_allclose(first.predict(model, model_dir), expected, **close)
    for name, value in first.serve(export).items():
        np.testing.assert_allclose(second.serve(export)[name], value, err_msg=name, **close)
    first.train(model, model_dir, 60)
