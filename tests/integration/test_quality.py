"""benchmarks/quality.py runs, and its models reach a coarse minimum on real data."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.conftest import ROOT

# The folders of the UCI files: next to the checkout, or given by environment variables.
DATA = ROOT.parent / "shared" / "data"
ADULT = os.environ.get("ESTIMATOR_KIT_ADULT", str(DATA / "adult"))
BIKES = os.environ.get("ESTIMATOR_KIT_BIKES", str(DATA / "bike_sharing"))

RIVALS = (
    "mmoe, only purchase, rate 0.2", "dnn, only purchase, rate 0.1",
    "dnn, only purchase, rate 0.2",
)  # fmt: skip


def python(*arguments):
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT, check=True, timeout=600, stdout=subprocess.PIPE, text=True,
    ).stdout  # fmt: skip


@pytest.mark.nightly
def test_a_tiny_run_prints_its_lines_writes_the_report_and_repeats_nothing(tmp_path):
    command = ("benchmarks/quality.py", "--only=ads", "--tiny", "--seeds=1",
               f"--work={tmp_path}/work", f"--report={tmp_path}/quality.md")  # fmt: skip
    kept = [
        {"part": "ads", "name": name, "seed": 1, "seconds": 1.0,
         "metrics": {"auc/purchase": auc, "bayes_auc/purchase": 0.9, "loss/purchase": 0.3}}
        for name, auc in zip(RIVALS, (0.25, 0.125, 0.5))
    ]  # fmt: skip
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "lines.jsonl").write_text("".join(json.dumps(k) + "\n" for k in kept))
    (line,) = map(json.loads, python(*command).splitlines())
    assert (line["part"], line["name"], line["seed"]) == ("ads", "mmoe, click and purchase", 1)
    auc, best = line["metrics"]["auc/purchase"], line["metrics"]["bayes_auc/purchase"]
    report = (tmp_path / "quality.md").read_text()
    assert f"| 1 | {best:.4f} | {auc:.4f} | 0.5000 | {auc - 0.5:+.4f} |" in report
    assert "| dnn, only purchase, rate 0.1 | 0.1250 | 0.1250 | 0.1250 | 0.1250 |" in report
    assert not list((tmp_path / "work" / "models").iterdir())


@pytest.mark.nightly
@pytest.mark.skipif(not os.path.isdir(ADULT), reason=f"no UCI Adult in {ADULT}")
@pytest.mark.parametrize("model", ["deepfm", "dcn"])
def test_adult(model, tmp_path):
    python("examples/adult/prepare.py", f"--data_dir={ADULT}", f"--out_dir={tmp_path}")
    python(
        "run.py", f"--flagfile=examples/adult/{model}.flags", f"--model_dir={tmp_path}/model",
        f"--train_files={tmp_path}/train.tfrecord", f"--eval_files={tmp_path}/test.tfrecord",
    )  # fmt: skip
    metrics = json.loads((tmp_path / "model" / "result.json").read_text())["metrics"]
    assert metrics["auc/income"] > 0.905 and metrics["accuracy/income"] > 0.85


@pytest.mark.nightly
@pytest.mark.skipif(not os.path.isdir(BIKES), reason=f"no UCI Bike Sharing in {BIKES}")
def test_bike_sharing_is_learned_better_than_by_a_linear_model(tmp_path):
    python("examples/bike_sharing/prepare.py", f"--data_dir={BIKES}", f"--out_dir={tmp_path}")

    def train(name, *arguments):
        python(
            "run.py", "--flagfile=examples/bike_sharing/bike_sharing.flags",
            f"--model_dir={tmp_path}/{name}", f"--train_files={tmp_path}/train.tfrecord",
            f"--eval_files={tmp_path}/test.tfrecord", *arguments,
        )  # fmt: skip
        return json.loads((tmp_path / name / "result.json").read_text())

    deep = train("deep")
    linear = train(
        "linear", "--model=linear", "--model_params=", "--model_params=group=linear",
        "--model_params=optimizer=adam", "--model_params=learning_rate=0.05",
        "--model_params=schedule={cosine: {decay_steps: 1275}}",
    )  # fmt: skip
    assert (deep["rows_trained"], deep["rows_evaluated"]) == (15 * 10886, 6493)
    for label, share in (("casual", 0.97), ("registered", 0.75)):
        metric = f"root_mean_squared_error/{label}"
        assert deep["metrics"][metric] < share * linear["metrics"][metric]
        assert deep["metrics"][f"loss/{label}"] < linear["metrics"][f"loss/{label}"]
