"""The catalog's spec and the example's flagfile reach their stated metrics on UCI Adult."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.conftest import ROOT

# The folder of the UCI files: next to the checkout, or given by the environment variable.
DATA = os.environ.get("ESTIMATOR_KIT_ADULT", str(ROOT.parent / "shared" / "data" / "adult"))

# A hand-tuned tf.estimator.DNNLinearCombinedClassifier, 10 epochs at batch 128, on adult.test.
HAND_TUNED = {"accuracy/income": 0.8538, "auc/income": 0.9064}
REQUIRED = {"accuracy/income": 0.853, "auc/income": 0.908}


@pytest.mark.nightly
@pytest.mark.skipif(
    not os.path.exists(f"{DATA}/adult.test.gz"),
    reason=f"UCI Adult is not in {DATA}; set ESTIMATOR_KIT_ADULT to the folder of adult.data.gz",
)
def test_adult_is_at_or_above_the_hand_tuned_estimator(tmp_path):
    def python(*arguments):
        subprocess.run([sys.executable, *arguments], cwd=ROOT, check=True, timeout=600)

    python("examples/adult/prepare.py", f"--data_dir={DATA}", f"--out_dir={tmp_path}/data")
    python(
        "run.py", "--flagfile=examples/adult/adult.flags", f"--model_dir={tmp_path}/model",
        f"--train_files={tmp_path}/data/train.tfrecord",
        f"--eval_files={tmp_path}/data/test.tfrecord",
    )  # fmt: skip
    result = json.loads((tmp_path / "model" / "result.json").read_text())
    assert result["rows_trained"] == 10 * 32561 and result["rows_evaluated"] == 16281
    assert result["metrics"]["label_mean/income"] == pytest.approx(3846 / 16281, abs=1e-9)
    for metric, required in REQUIRED.items():
        assert result["metrics"][metric] >= max(required, HAND_TUNED[metric])
