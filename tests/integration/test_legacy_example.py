"""The example in plain tf.estimator style runs, learns, exports, and resumes."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
import tensorflow as tf

from tests.conftest import ROOT


def run(*arguments):
    done = subprocess.run(
        [sys.executable, "examples/legacy_estimator/ratings.py", *arguments],
        cwd=ROOT, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.nightly
def test_the_legacy_example_trains_exports_and_resumes(tmp_path):
    printed = run(f"--model_dir={tmp_path}")
    pattern = r"TensorFlow (\S+): step (\d+), auc (0\.\d{4})\nSavedModel: (.*)\n"
    version, step, auc, export = re.fullmatch(pattern, printed).groups()
    assert version == tf.__version__
    assert step == "600"
    # The best possible is 0.84, and age alone gives 0.56.
    assert 0.80 < float(auc) < 0.86
    assert tf.saved_model.load(export).signatures["serving_default"] is not None
    assert "nothing to do: trained to step 600" in run(f"--model_dir={tmp_path}")
    assert "step 650, auc" in run(f"--model_dir={tmp_path}", "--max_steps=650")
