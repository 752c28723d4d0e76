"""A model_dir that two TensorFlow versions train in turn.

OTHER_PYTHON names the Python of the other TensorFlow's environment, for instance of 2.15:

    OTHER_PYTHON=/path/to/venv215/bin/python pytest tests/estimator_kit/compat
"""

import json
import os
import sys

import numpy as np
import pytest

from tests.estimator_kit.compat.support import TASKS, environment
from tests.resident import Resident

OTHER = os.environ.get("OTHER_PYTHON")

pytestmark = [
    pytest.mark.ci,
    pytest.mark.skipif(not OTHER, reason="OTHER_PYTHON is not set"),
]


@pytest.fixture(scope="module")
def pythons():
    """A process of each TensorFlow."""
    made = [Resident(python, environment()) for python in (OTHER, sys.executable)]
    yield made
    for python in made:
        python.close()


def turn(python, model, model_dir, steps, output):
    python.call(f"{TASKS}.take_turns:run", model, model_dir, steps, output)
    return json.loads(output.read_text())


@pytest.mark.parametrize(
    "model",
    [
        pytest.param("custom", marks=pytest.mark.nightly),
        pytest.param("linear", marks=pytest.mark.nightly),
        pytest.param("dnn", marks=pytest.mark.nightly),
        "combined",
    ],
)
def test_model_dir_trained_in_turn(pythons, model, tmp_path):
    model_dir = tmp_path / "model"
    seen = []
    for round_ in range(2):
        for number, python in enumerate(pythons):
            output = tmp_path / f"{round_}-{number}.json"
            trained = turn(python, model, model_dir, 10, output)
            read = turn(pythons[1 - number], model, model_dir, 0, output)
            assert read["tensorflow"] != trained["tensorflow"]
            assert read["variables"] == trained["variables"]
            ours, theirs = (np.array(run["predictions"]) for run in (read, trained))
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-6)
            assert read["loss"] == pytest.approx(trained["loss"], rel=1e-6)
            seen.append(trained)
    assert [run["step"] for run in seen] == [10, 20, 30, 40]
    assert len({json.dumps(run["variables"], sort_keys=True) for run in seen}) == 1
    losses = [run["loss"] for run in seen]
    assert losses == sorted(losses, reverse=True)
