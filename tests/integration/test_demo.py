"""The demo reaches its stated AUC: near the best possible one, and well above a linear model."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.conftest import ROOT


@pytest.fixture(scope="module")
def train(tmp_path_factory):
    """A function (name, flags) -> metrics for trainings on the same generated data."""
    folder = tmp_path_factory.mktemp("demo")

    def metrics(name, *arguments):
        subprocess.run(
            [sys.executable, "run.py", "--flagfile=exp.flags", f"--model_dir={folder}/{name}",
             f"--generate_default_data={folder}/ads",
             f"--train_files={folder}/ads/dt=2026-01-0[1-7]/*.tfrecord",
             f"--eval_files={folder}/ads/dt=2026-01-08/*.tfrecord", *arguments],
            cwd=ROOT, check=True, timeout=900,
        )  # fmt: skip
        return json.loads((folder / name / "result.json").read_text())["metrics"]

    return metrics


@pytest.fixture(scope="module")
def demo(train):
    return train("demo")


@pytest.mark.ci
def test_it_is_near_the_best_possible(demo):
    assert demo["bayes_auc/click"] > 0.7
    assert demo["bayes_auc/click"] - demo["auc/click"] <= 0.015


@pytest.mark.nightly
def test_it_is_above_a_linear_model(train, demo):
    linear = train(
        "linear", "--model=linear", "--model_params=", "--model_params=group=linear",
        "--exporters=", "--best_metric=loss",
    )  # fmt: skip
    assert demo["bayes_auc/click"] == linear["bayes_auc/click"]
    assert demo["auc/click"] - linear["auc/click"] >= 0.01
