"""A model_dir that two TensorFlow versions train in turn.

OTHER_PYTHON names the Python of the other TensorFlow's environment, for instance of 2.15:

    OTHER_PYTHON=/path/to/venv215/bin/python pytest tests/estimator_kit/compat
"""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from tests.estimator_kit.compat.support import LIMIT_S, TASKS, environment

OTHER = os.environ.get("OTHER_PYTHON")

pytestmark = pytest.mark.skipif(not OTHER, reason="OTHER_PYTHON is not set")


def turn(python, model, model_dir, steps, output):
    done = subprocess.run(
        [python, "-m", f"{TASKS}.take_turns", model, str(model_dir), str(steps), str(output)],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(output.read_text())


@pytest.mark.parametrize("model", ["custom", "linear", "dnn", "combined"])
def test_model_dir_trained_in_turn(model, tmp_path):
    pythons = [OTHER, sys.executable]
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
