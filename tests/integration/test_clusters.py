"""Trainings of several processes on loopback: they start, recover from kill -9, and end."""

from __future__ import annotations

import functools
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest
import tensorflow as tf

import estimator_kit as ek
from estimator_kit.result import read_result
from tests.conftest import DOCUMENT, ROOT, make_rows
from tests.integration.clusters import LIMIT, Cluster, until
from tests.programs import run

TASKS = ("ps:0", "worker:0", "chief:0", "evaluator:0")
OWN_MODEL = "--model=tests.integration.own_model:MissedClicks"


@pytest.fixture(scope="module")
def rows(tmp_path_factory) -> pathlib.Path:
    """A folder with a spec, six files of 1,000 rows and one to score."""
    folder = tmp_path_factory.mktemp("rows")
    (folder / "spec.yaml").write_text(json.dumps(DOCUMENT))
    for i in range(6):
        ek.write_examples(f"{folder}/train-{i}.tfrecord", make_rows(1000, seed=i))
    ek.write_examples(f"{folder}/eval.tfrecord", make_rows(500, seed=99))
    return folder


def flags(rows: pathlib.Path, model_dir: pathlib.Path, *more: str) -> list[str]:
    return [
        f"--spec={rows}/spec.yaml", "--model=wide_deep", f"--train_files={rows}/train-*",
        f"--eval_files={rows}/eval.tfrecord", f"--model_dir={model_dir}", "--batch_size=100",
        "--log_every_secs=0.2", "--cluster_timeout_secs=90", *more,
    ]  # fmt: skip


@pytest.fixture
def made(tmp_path, rows) -> Iterator:
    clusters = []

    def make(*more: str, **shape: int) -> tuple[Cluster, pathlib.Path]:
        model_dir = tmp_path / "model"
        clusters.append(Cluster(tmp_path / "logs", *flags(rows, model_dir, *more), **shape))
        return clusters[-1], model_dir

    yield make
    for cluster in clusters:
        cluster.close()


def exports(model_dir: pathlib.Path) -> list[pathlib.Path]:
    return list((model_dir / "export" / "final").glob("[0-9]*"))


def checkpoint_after(model_dir: pathlib.Path, step: int) -> bool:
    found = (re.search(r"ckpt-(\d+)\.index$", str(p)) for p in model_dir.glob("model.ckpt-*"))
    return any(int(match[1]) >= step for match in found if match)


def check_end(cluster: Cluster, model_dir: pathlib.Path, steps: int, beyond: int = 2) -> dict:
    """Checks that all tasks succeeded, and the steps, the checkpoint and its export."""
    assert set(cluster.codes().values()) == {0}, cluster.codes()
    result = read_result(model_dir)
    assert (result.status, result.rows_evaluated) == ("done", 500)
    # Both trainers may have started a step before they saw the last one.
    assert steps <= result.global_step <= steps + beyond
    latest = tf.train.latest_checkpoint(str(model_dir))
    assert tf.train.load_variable(latest, "global_step") == result.global_step
    assert [str(path) for path in exports(model_dir)] == [result.exports["final"]]
    for port in cluster.ports:
        # Another test may hold it for a moment, since the task has left it.
        until(functools.partial(is_free, port), f"end of the server at port {port}")
    return result


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


@pytest.mark.ci
def test_asynchronous_workers_read_each_row_once_an_epoch(made):
    cluster, model_dir = made(
        "--epochs=2", "--save_checkpoints_steps=40", "--partition_mib=0.0002", workers=2, ps=2
    )
    # In any order; the chief comes last.
    cluster.start("worker:1", "worker:0", "ps:1", "ps:0", "evaluator:0", "chief:0")
    codes = cluster.codes()
    assert set(codes.values()) == {0}
    trained = {}
    for name in ("chief:0", "worker:0", "worker:1"):
        found = re.search(r"trained on ([\d,]+) rows", cluster.log(name).read_text())
        trained[name] = int(found[1].replace(",", ""))
    # The chief says it of all.
    assert trained == {"chief:0": 2 * 6 * 1000, "worker:0": 4000, "worker:1": 4000}
    result = check_end(cluster, model_dir, steps=120, beyond=0)
    assert (result.stop_reason, result.task) == ("input_exhausted", "chief:0")
    assert "worker:1 waits for " in cluster.log("worker:1").read_text()


def cells(every: list, chosen: set) -> list:
    """Parameters of a matrix. Parameters that are not chosen run only nightly."""
    return [p if p in chosen else pytest.param(*p, marks=pytest.mark.nightly) for p in every]


WHEN = ("before the first checkpoint", "between", "at the end")


@pytest.mark.ci
@pytest.mark.parametrize(
    ("victim", "when"),
    cells(
        [(victim, when) for victim in TASKS for when in WHEN],
        {("ps:0", WHEN[0])},  # The chief is killed in a test below.
    ),
)
def test_a_task_that_is_killed_comes_back(made, victim, when):
    cluster, model_dir = made("--max_steps=600", "--save_checkpoints_steps=100")
    cluster.start(*TASKS)
    conditions = {
        "before the first checkpoint": lambda: (model_dir / "input.json").exists(),
        "between": lambda: checkpoint_after(model_dir, 200),
        "at the end": lambda: checkpoint_after(model_dir, 600),
    }
    until(conditions[when], when)
    cluster.kill(victim)
    cluster.start(victim)
    check_end(cluster, model_dir, 600)


@pytest.mark.nightly
@pytest.mark.parametrize("victim", TASKS)
def test_a_task_that_is_killed_while_a_checkpoint_is_saved_comes_back(made, victim, tmp_path):
    cluster, model_dir = made(
        "--max_steps=600", "--save_checkpoints_steps=100",
        "--model=tests.integration.saving_model:SavingModel",
    )  # fmt: skip
    (tmp_path / "pause").write_text("101")
    cluster.start(*TASKS)
    until((tmp_path / "paused").exists, "saving")
    cluster.kill(victim)
    (tmp_path / "pause").unlink()
    cluster.start(victim)
    check_end(cluster, model_dir, 600)


@pytest.mark.nightly
def test_rows_of_a_worker_that_has_ended_are_read_again_when_the_chief_is_lost(made, tmp_path):
    """The chief is killed while it saves its own first steps and the worker's last steps."""
    for i, count in enumerate((2000, 300)):  # Shared row by row: 12 batches for each task.
        ek.write_examples(f"{tmp_path}/uneven-{i}.tfrecord", make_rows(count, seed=i))
    cluster, model_dir = made(
        f"--train_files={tmp_path}/uneven-*", "--epochs=1", "--save_checkpoints_steps=5",
        "--model=tests.integration.saving_model:SavingModel",
    )  # fmt: skip
    (tmp_path / "pause").write_text("5")
    cluster.start(*TASKS)
    until((model_dir / "cluster" / "ended-worker-0.json").exists, "end of the worker's shard")
    until((tmp_path / "paused").exists, "saving")
    cluster.kill("chief:0")
    (tmp_path / "pause").unlink()
    cluster.start("chief:0")
    check_end(cluster, model_dir, 12 + 12, beyond=0)


@pytest.mark.nightly
def test_sigterm_of_the_chief_ends_all_and_the_same_command_goes_on(made):
    cluster, model_dir = made("--max_steps=2000", "--save_checkpoints_secs=600")
    cluster.start(*TASKS)
    cluster.wait_for("worker:0", r"step [1-9]\d")
    cluster.kill("chief:0", signal.SIGTERM)
    codes = cluster.codes()
    assert codes.pop("chief:0") == 143 and set(codes.values()) == {75}
    stopped = read_result(model_dir)
    assert stopped.status == "stopped" and stopped.rows_evaluated == 500
    assert 0 < stopped.global_step < 2000
    cluster.start(*TASKS)
    check_end(cluster, model_dir, 2000)


@pytest.mark.nightly
def test_sigterm_of_all_at_once_loses_no_step(made):
    cluster, model_dir = made("--max_steps=2000", "--save_checkpoints_secs=600")
    cluster.start(*TASKS)
    cluster.wait_for("worker:0", r"step [1-9]\d")
    for task in TASKS:  # The ps first: the chief has still to save what it holds.
        cluster.kill(task, signal.SIGTERM)
    codes = cluster.codes()
    assert codes["chief:0"] == codes["ps:0"] == 143 and set(codes.values()) <= {75, 143}
    saved = tf.train.load_variable(tf.train.latest_checkpoint(str(model_dir)), "global_step")
    assert 10 <= saved < 2000
    assert "is lost" not in cluster.log("chief:0").read_text()


@pytest.mark.ci
@pytest.mark.parametrize(
    "strategy", ["multi_worker_mirrored", pytest.param("sync_replicas", marks=pytest.mark.nightly)]
)
def test_sigterm_of_all_who_step_together_is_answered_by_each(made, strategy):
    """The other tasks need the part of the first task that leaves for their last step."""
    cluster, model_dir = made(
        f"--strategy={strategy}", "--max_steps=20000", "--save_checkpoints_secs=600",
        ps=1 if strategy == "sync_replicas" else 0,
    )  # fmt: skip
    tasks = [task for task in TASKS if task != "ps:0" or strategy == "sync_replicas"]
    cluster.start(*tasks)
    cluster.wait_for("worker:0", r"step [1-9]\d")
    for task in tasks:
        cluster.kill(task, signal.SIGTERM)
    assert set(cluster.codes().values()) == {143}
    saved = tf.train.load_variable(tf.train.latest_checkpoint(str(model_dir)), "global_step")
    assert 10 <= saved < 20000
    assert read_result(model_dir).status == "stopped"


def start_and_lose(cluster: Cluster, model_dir: pathlib.Path, task: str) -> None:
    """Starts all tasks, and after a checkpoint kills one that does not come back."""
    cluster.start(*TASKS)
    until(lambda: checkpoint_after(model_dir, 100), "checkpoint")
    cluster.kill(task)
    del cluster.processes[task]


@pytest.mark.nightly
def test_a_worker_that_fails_for_good_leaves_the_others(made):
    cluster, model_dir = made("--max_steps=400", "--save_checkpoints_steps=100")
    start_and_lose(cluster, model_dir, "worker:0")
    check_end(cluster, model_dir, 400)


@pytest.mark.nightly
@pytest.mark.parametrize("strategy", ["parameter_server", "sync_replicas"])
def test_a_ps_that_is_gone_for_good_ends_all(made, strategy):
    """TensorFlow waits for it without end when it closes a session, and answers no signal."""
    cluster, model_dir = made(
        "--max_steps=100000", "--save_checkpoints_steps=100", f"--strategy={strategy}",
        "--cluster_timeout_secs=20",
    )  # fmt: skip
    start_and_lose(cluster, model_dir, "ps:0")
    assert set(cluster.codes(limit=20 + 30 + 10).values()) == {75}
    assert read_result(model_dir).status == "failed"


@pytest.mark.nightly
def test_sigterm_is_answered_without_a_ps(made):
    cluster, model_dir = made("--max_steps=100000", "--save_checkpoints_steps=100")
    start_and_lose(cluster, model_dir, "ps:0")
    for task in cluster.processes:
        cluster.kill(task, signal.SIGTERM)
    assert set(cluster.codes(limit=25).values()) == {143}


@pytest.mark.nightly
def test_synchronous_steps_and_their_backup_worker(made):
    cluster, model_dir = made(
        "--strategy=sync_replicas", "--backup_workers=1", "--epochs=4", OWN_MODEL, workers=2
    )
    cluster.start("worker:1", *TASKS)
    # 240 batches, two for each step. A task finishes a batch that it started before the last step.
    result = check_end(cluster, model_dir, 120, beyond=2)
    check_own_methods(cluster, result)


def check_own_methods(cluster: Cluster, result: dict) -> None:
    """Checks that losses, metrics and hooks of the model are in effect in each task."""
    found = result.metrics
    parts = found["example_loss/click"] + 0.5 * found["loss/buy"]
    assert found["loss"] == pytest.approx(parts, rel=1e-5) and 0 < found["missed"] < 1
    assert found["example_loss/click"] > found["loss/click"]
    for name in ("chief:0", "worker:0"):
        assert re.search(r"own hook: \d+ steps of train", cluster.log(name).read_text()), name
    assert "own hook: 1 steps of eval" in cluster.log("evaluator:0").read_text()


@pytest.mark.nightly
def test_a_cluster_stops_early_by_the_losses_of_the_model(made):
    cluster, model_dir = made(
        "--max_steps=100000", "--save_checkpoints_steps=500", "--keep_checkpoint_max=100",
        "--early_stopping_metric=loss", "--early_stopping_patience=1", OWN_MODEL,
        "--model_params=optimizer=sgd", "--model_params=learning_rate=3",
    )  # fmt: skip
    cluster.start(*TASKS)
    assert set(cluster.codes().values()) == {0}
    result = read_result(model_dir)
    assert result.stop_reason == "early_stopped" and result.global_step < 100000
    check_own_methods(cluster, result)


@pytest.mark.nightly
def test_a_chief_of_synchronous_steps_that_is_killed_comes_back(made):
    """The worker waits in a step for gradients that were lost with the chief."""
    cluster, model_dir = made(
        "--strategy=sync_replicas", "--max_steps=300", "--save_checkpoints_steps=50"
    )
    cluster.start(*TASKS)
    until(lambda: checkpoint_after(model_dir, 100), "checkpoint")
    cluster.kill("chief:0")
    cluster.start("chief:0")
    check_end(cluster, model_dir, 300, beyond=2)
    said = cluster.log("worker:0").read_text()
    assert "chief:0 has gone back to the last checkpoint" in said


@pytest.mark.nightly
def test_next_items_with_a_table_in_pieces_on_two_servers(tmp_path):
    """The table that reads and scores items is split, and its items are sampled."""
    items, rng = 200, np.random.default_rng(1)
    after = rng.permutation(items)  # The item that follows each item.
    for name, count in (*((f"train-{i}", 500) for i in range(4)), ("eval", 500)):
        steps = [rng.integers(0, items, count)]
        for _ in range(6):
            steps.append(after[steps[-1]])
        rows = np.stack(steps, axis=1).tolist()
        ek.write_examples(
            f"{tmp_path}/{name}.tfrecord",
            [{"item_id": row[:-1], "next_item_id": row[1:]} for row in rows],
        )
    (tmp_path / "spec.yaml").write_text(
        """
features: {item_id: {dtype: int64, shape: variable}}
columns:
  item: {identity: item_id, size: 200, sequence: true}
  item_emb: {embedding: item, dimension: 16}
groups: {steps: [item_emb]}
labels: {next_item_id: {dtype: int64, shape: variable}}
objectives:
  next: {head: next_item, label: next_item_id, items: item,
         loss: {sampled_softmax: {samples: 60, negatives: mixed}}}
"""
    )
    model_dir = tmp_path / "model"
    cluster = Cluster(
        tmp_path / "logs", f"--spec={tmp_path}/spec.yaml", "--model=sasrec",
        "--model_params=learning_rate=0.01", "--model_params=max_steps=6",
        f"--train_files={tmp_path}/train-*", f"--eval_files={tmp_path}/eval.tfrecord",
        f"--model_dir={model_dir}", "--batch_size=50", "--epochs=10", "--partition_mib=0.005",
        "--cluster_timeout_secs=90", workers=2, ps=2,
    )  # fmt: skip
    try:
        cluster.start("ps:0", "ps:1", "worker:0", "worker:1", "chief:0", "evaluator:0")
        # Each of the three shards may end with a smaller batch.
        result = check_end(cluster, model_dir, steps=400, beyond=3)
    finally:
        cluster.close()
    assert result.metrics["recall_at_10/next"] > 0.95
    tables = {
        node.name: node.device
        for path in model_dir.glob("events.*")
        for event in tf.compat.v1.train.summary_iterator(str(path))
        for node in tf.compat.v1.GraphDef.FromString(event.graph_def).node
        if re.search(r"embedding_weights/part_\d$", node.name)
    }
    assert len(tables) == 3 and set(tables.values()) == {"/job:ps/task:0", "/job:ps/task:1"}
    saved = dict(tf.train.list_variables(str(model_dir)))
    (shape,) = (shape for name, shape in saved.items() if name.endswith("embedding_weights"))
    assert shape == [items, 16]
    assert saved["objectives/next/item_frequency/gap"] == [items + 1]


def launched(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, str(ROOT / "run.py"), *arguments], cwd=ROOT, timeout=LIMIT, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, check=False,
    )  # fmt: skip


def running(folder: pathlib.Path) -> bytes:
    """The processes with a path in a folder in their command lines."""
    return subprocess.run(["pgrep", "-f", str(folder)], capture_output=True, check=False).stdout


@pytest.fixture(scope="module")
def alone(rows, tmp_path_factory):
    """The AUC that one process reaches."""
    model_dir = tmp_path_factory.mktemp("alone") / "model"
    done = run(ROOT, *flags(rows, model_dir, "--epochs=20", "--exporters=final"))
    assert done.returncode == 0, done.stderr
    return read_result(model_dir).metrics["auc/click"]


@pytest.mark.nightly
@pytest.mark.parametrize(
    "more",
    [
        ("--launch_local=chief:1,worker:2,ps:2,evaluator:1", "--partition_mib=0.0002"),
        ("--strategy=sync_replicas", "--launch_local=chief:1,worker:1,ps:1,evaluator:1"),
        ("--strategy=mirrored", "--mirrored_devices=2"),
        ("--strategy=multi_worker_mirrored", "--launch_local=chief:1,worker:1,evaluator:1"),
    ],
)
def test_each_mode_learns_what_one_process_does(rows, alone, tmp_path, more):
    together = flags(rows, tmp_path / "model", "--epochs=30", "--exporters=final", *more)
    done = launched(*together)
    assert done.returncode == 0, done.stdout
    assert not running(tmp_path)
    assert abs(alone - read_result(tmp_path / "model").metrics["auc/click"]) <= 0.01
    flagfile = tmp_path / "run.flags"
    flagfile.write_text("\n".join(flags(rows, tmp_path / "model")) + "\n")
    for name in ("evaluate", "export"):
        assert run(ROOT, name, f"--flagfile={flagfile}").returncode == 0


@pytest.mark.nightly
def test_two_machines_step_as_one_with_twice_the_batch(rows, tmp_path, document):
    """The machines share one file row by row, so two batches of 50 equal one batch of 100.

    The rows have no weights, because a loss is divided by the weights of a batch.
    """
    del document["labels"]["buy"]["weight"]
    spec = tmp_path / "spec.json"
    spec.write_text(json.dumps(document))
    common = [
        f"--spec={spec}", f"--train_files={rows}/train-0.tfrecord", "--noshuffle",
        "--epochs=3", "--model=dnn", "--mode=train", "--model_params=hidden_units=[8]",
        "--save_checkpoints_steps=1", "--keep_checkpoint_max=40", "--cluster_timeout_secs=90",
    ]  # fmt: skip
    one, two = tmp_path / "one", tmp_path / "two"
    done = run(ROOT, *common, f"--model_dir={one}", "--batch_size=100")
    assert done.returncode == 0, done.stderr
    done = launched(
        *common, f"--model_dir={two}", "--batch_size=50", "--strategy=multi_worker_mirrored",
        "--launch_local=chief:1,worker:1",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    losses = [
        [evaluated(rows, spec, folder, step) for step in range(5, 31, 5)] for folder in (one, two)
    ]
    assert losses[0] == pytest.approx(losses[1], abs=1e-4)
    assert losses[0][0] - losses[0][-1] > 0.01


def evaluated(rows: pathlib.Path, spec: pathlib.Path, model_dir: pathlib.Path, step: int) -> float:
    """The loss at a step, from its checkpoint."""
    (model_dir / "checkpoint").write_text(f'model_checkpoint_path: "model.ckpt-{step}"\n')
    result = ek.run(
        ek.ExperimentConfig(
            mode="evaluate", spec=str(spec), model="dnn", model_dir=str(model_dir),
            model_params={"hidden_units": [8]}, eval_files=(f"{rows}/eval.tfrecord",),
        )
    )  # fmt: skip
    return result.metrics["loss"]


@pytest.mark.nightly
def test_ten_clusters_leave_nothing_behind(rows, tmp_path):
    before = set(os.listdir(tmp_path))
    for i in range(10):
        done = launched(
            *flags(rows, tmp_path / "model", f"--max_steps={20 * (i + 1)}"),
            "--launch_local=chief:1,worker:2,ps:1,evaluator:1",
        )
        assert done.returncode == 0, done.stdout
        assert not running(tmp_path)
    assert set(os.listdir(tmp_path)) - before == {"model"}
    assert len(exports(tmp_path / "model")) == 10
    assert not [p for p in (tmp_path / "model").rglob("*") if "temp" in p.name or "tmp" in p.name]


@pytest.mark.nightly
def test_the_launcher_passes_sigterm_on(rows, tmp_path):
    with subprocess.Popen(
        [sys.executable, str(ROOT / "run.py"), *flags(rows, tmp_path / "model"),
         "--max_steps=100000", "--launch_local=chief:1,worker:1,ps:1"],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    ) as process:  # fmt: skip
        lines = []
        for line in process.stdout:
            lines.append(line)
            if re.match(r"\[worker:0\] .* step [1-9]\d", line):
                process.send_signal(signal.SIGTERM)
                break
        rest = process.stdout.read()
        assert process.wait(LIMIT) == 143, "".join(lines) + rest
    assert "[worker:0] exit status 75" in rest and "[ps:0    ] exit status 75" in rest
    assert read_result(tmp_path / "model").status == "stopped"
