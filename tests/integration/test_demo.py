"""The demo learns what it claims: near the best possible AUC, and well above a linear model."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.conftest import ROOT


@pytest.mark.long
def test_the_demo_is_near_the_best_possible_and_above_a_linear_model(tmp_path):
    def train(name, *arguments):
        subprocess.run(
            [sys.executable, "run.py", "--flagfile=exp.flags", f"--model_dir={tmp_path}/{name}",
             f"--generate_default_data={tmp_path}/ads",
             f"--train_files={tmp_path}/ads/dt=2026-01-0[1-7]/*.tfrecord",
             f"--eval_files={tmp_path}/ads/dt=2026-01-08/*.tfrecord", *arguments],
            cwd=ROOT, check=True, timeout=900,
        )  # fmt: skip
        return json.loads((tmp_path / name / "result.json").read_text())["metrics"]

    demo = train("demo")
    linear = train(
        "linear", "--model=linear", "--model_params=", "--model_params=group=linear",
        "--exporters=", "--best_metric=loss",
    )  # fmt: skip
    assert demo["bayes_auc/click"] == linear["bayes_auc/click"] > 0.7
    assert demo["bayes_auc/click"] - demo["auc/click"] <= 0.015
    assert demo["auc/click"] - linear["auc/click"] >= 0.01
