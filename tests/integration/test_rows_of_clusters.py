"""Every strategy trains on each row once an epoch, even if its files differ in size."""

from __future__ import annotations

import collections
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys

import pytest

from estimator_kit.result import read_result
from input_pipelines.record_files import writing
from tests.conftest import ROOT
from tests.integration.clusters import LIMIT
from tests.integration.logging_model import EVALUATED, FOLDER

SPEC = {
    "features": {"x": {"dtype": "int64"}},
    "columns": {"x": {"identity": "x", "size": 10}, "hot": {"indicator": "x"}},
    "groups": {"deep": ["hot"]},
    "labels": {"row": {"dtype": "float32"}},
    "objectives": {"row": {"head": "regression"}},
}


def write(folder: pathlib.Path, sizes: list[int]) -> None:
    (folder / "spec.json").write_text(json.dumps(SPEC))
    first = 0
    for i, size in enumerate(sizes):
        rows = [{"x": n % 10, "row": float(n)} for n in range(first, first + size)]
        writing.write_examples(f"{folder}/train-{i}.tfrecord", rows)
        first += size
    rows = [{"x": n % 10, "row": float(EVALUATED + n)} for n in range(20)]
    writing.write_examples(f"{folder}/eval.tfrecord", rows)


def start(folder: pathlib.Path, *more: str) -> subprocess.Popen:
    os.makedirs(folder / "seen", exist_ok=True)
    return subprocess.Popen(
        [
            sys.executable, str(ROOT / "run.py"), f"--spec={folder}/spec.json",
            f"--train_files={folder}/train-*", f"--eval_files={folder}/eval.tfrecord",
            f"--model_dir={folder}/model", "--batch_size=32", "--exporters=",
            "--model=tests.integration.logging_model:LoggingModel",
            "--model_params=hidden_units=[2]", "--model_params=learning_rate=1e-9",
            "--cluster_timeout_secs=90", "--log_every_secs=0.1", *more,
        ],
        env={**os.environ, FOLDER: str(folder / "seen"), "PYTHONPATH": str(ROOT)},
        cwd=ROOT, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )  # fmt: skip


def train(folder: pathlib.Path, *more: str) -> str:
    with start(folder, *more) as process:
        printed, _ = process.communicate(timeout=LIMIT)
    assert process.returncode == 0, printed
    return printed


def seen(folder: pathlib.Path) -> collections.Counter:
    files = (folder / "seen").glob("*.rows")
    return collections.Counter(int(n) for path in files for n in path.read_text().split())


MODES = {
    "parameter_server": ("--launch_local=chief:1,worker:1,ps:1",),
    "sync_replicas": ("--strategy=sync_replicas", "--launch_local=chief:1,worker:1,ps:1"),
    "multi_worker_mirrored": (
        "--strategy=multi_worker_mirrored", "--launch_local=chief:1,worker:1",
    ),
    "mirrored": ("--strategy=mirrored", "--mirrored_devices=2"),
    "alone": (),
}  # fmt: skip


@pytest.mark.ci
@pytest.mark.parametrize(
    ("mode", "sizes"),
    [
        ("sync_replicas", [700, 133]),
        ("multi_worker_mirrored", [700, 133]),
        pytest.param("multi_worker_mirrored", [100, 100, 100], marks=pytest.mark.nightly),
        pytest.param("multi_worker_mirrored", [300, 310, 290, 20], marks=pytest.mark.nightly),
        pytest.param("sync_replicas", [50, 40, 45], marks=pytest.mark.nightly),
        pytest.param("parameter_server", [700, 133], marks=pytest.mark.nightly),
        pytest.param("mirrored", [200, 133], marks=pytest.mark.nightly),
    ],
)  # fmt: skip
def test_each_row_is_trained_on_once_an_epoch(mode, sizes, tmp_path):
    write(tmp_path, sizes)
    train(tmp_path, "--epochs=2", *MODES[mode])
    assert seen(tmp_path) == dict.fromkeys(range(sum(sizes)), 2)
    result = read_result(tmp_path / "model")
    assert (result.stop_reason, result.rows_trained) == ("input_exhausted", 2 * sum(sizes))
    assert result.rows_lost == 0


@pytest.mark.nightly
@pytest.mark.parametrize("mode", MODES)
def test_a_training_that_was_stopped_goes_on_behind_the_rows_that_it_read(mode, tmp_path):
    """Each task may have started a batch of a step after the last checkpoint."""
    write(tmp_path, [200, 133])
    arguments = ("--epochs=60", *MODES[mode])
    with start(tmp_path, *arguments) as process:
        for line in process.stdout:
            if re.search(r"step [2-9]\d", line):
                process.send_signal(signal.SIGTERM)
                break
        rest, _ = process.communicate(timeout=LIMIT)
        assert process.returncode == 143, rest
    train(tmp_path, *arguments)
    found = seen(tmp_path)
    assert set(found) == set(range(333))
    if mode == "parameter_server":  # Tasks differ in speed, and the step tells only the sum.
        assert abs(sum(found.values()) - 60 * 333) <= 10 * 32
        return
    assert min(found.values()) == 60
    assert sum(found.values()) - 60 * 333 <= 2 * 32


@pytest.mark.ci
@pytest.mark.parametrize(
    "mode",
    [name if name == "alone" else pytest.param(name, marks=pytest.mark.nightly) for name in MODES],
)
def test_rows_in_another_order_are_all_read_again(mode, tmp_path):
    """A file is replaced by one of the same size while a training is stopped."""
    write(tmp_path, [60, 40])
    train(tmp_path, "--max_steps=2", *MODES[mode])
    path = tmp_path / "train-1.tfrecord"
    size, name = path.stat().st_size, str(path)
    rows = [{"x": n % 10, "row": float(n)} for n in range(99, 59, -1)]
    writing.write_examples(name, rows)
    assert path.stat().st_size == size
    shutil.rmtree(tmp_path / "seen")
    printed = train(tmp_path, "--epochs=1", *MODES[mode])
    assert "the input changed since step" in printed
    assert f"(files: 1 with other content: {name}), so counting its rows" in printed
    assert seen(tmp_path) == dict.fromkeys(range(100), 1)
