"""Loses every task of a cluster in every way, with every strategy: all tasks end, with a status.

    pytest tests/integration/test_cluster_faults.py -s | grep '^|'

prints the table: exit statuses of the tasks, and seconds from the fault to the end of the last.
"""

from __future__ import annotations

import json
import pathlib
import signal
import time
from collections.abc import Iterator

import pytest

from estimator_kit.result import read_result
from input_pipelines.record_files import writing
from tests.conftest import DOCUMENT, make_rows
from tests.integration.clusters import Cluster, until

pytestmark = pytest.mark.nightly

TASKS = {
    "parameter_server": ("ps:0", "worker:0", "chief:0", "evaluator:0"),
    "sync_replicas": ("ps:0", "worker:0", "chief:0", "evaluator:0"),
    "multi_worker_mirrored": ("worker:0", "chief:0", "evaluator:0"),
}
FAULTS = ("killed and back", "killed for good", "SIGTERM")

# Seconds of --cluster_timeout_secs. A loaded machine can take 20 to make the first session.
TIMEOUT = 40


def expected(strategy: str, task: str, fault: str) -> dict[str, set[int]]:
    """The exit statuses that each task may have, except a task that was killed permanently."""
    done, again = {0}, {75}
    others = done
    together = strategy != "parameter_server"
    if task == "evaluator:0":
        others = done  # The chief scores and exports itself.
    elif strategy == "multi_worker_mirrored":
        others = again  # The collectives do not let a lost task join again.
    elif fault != "killed and back":
        others = done if task == "worker:0" and not together else again
    result = dict.fromkeys(TASKS[strategy], others)
    if fault == "SIGTERM":
        result[task] = {143}
    elif strategy == "multi_worker_mirrored" and task != "evaluator:0":
        result[task] = again  # After a restart it waits for tasks that have left.
    return result


@pytest.fixture(scope="module")
def rows(tmp_path_factory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("rows")
    (folder / "spec.yaml").write_text(json.dumps(DOCUMENT))
    for i in range(2):
        writing.write_examples(f"{folder}/train-{i}.tfrecord", make_rows(1000, seed=i))
    writing.write_examples(f"{folder}/eval.tfrecord", make_rows(100, seed=9))
    return folder


@pytest.fixture
def cluster(request, rows, tmp_path) -> Iterator[tuple[Cluster, pathlib.Path]]:
    strategy, task, fault = map(request.getfixturevalue, ("strategy", "task", "fault"))
    # A training that cannot go on must not reach its end while a task that was told to end still
    # serves it.
    to_the_end = 0 in expected(strategy, task, fault)["chief:0"]
    made = Cluster(
        tmp_path / "logs", f"--strategy={strategy}", f"--spec={rows}/spec.yaml",
        "--model=wide_deep", f"--train_files={rows}/train-*", f"--eval_files={rows}/eval.tfrecord",
        f"--model_dir={tmp_path}/model", "--batch_size=50",
        f"--max_steps={1500 if to_the_end else 1_000_000}", "--save_checkpoints_steps=100",
        f"--cluster_timeout_secs={TIMEOUT}", "--log_every_secs=0.5", "--exporters=final",
        ps=0 if strategy == "multi_worker_mirrored" else 1,
    )  # fmt: skip
    yield made, tmp_path / "model"
    made.close()


@pytest.mark.parametrize(
    ("strategy", "task", "fault"),
    [(s, task, fault) for s, tasks in TASKS.items() for task in tasks for fault in FAULTS],
)
def test_all_end_after_a_fault(cluster, strategy, task, fault):
    made, model_dir = cluster
    made.start(*TASKS[strategy])
    until(lambda: any(model_dir.glob("model.ckpt-[1-9]*.index")), "checkpoint")
    made.kill(task, signal.SIGTERM if fault == "SIGTERM" else signal.SIGKILL)
    since = time.monotonic()
    if fault == "killed and back":
        made.start(task)
    elif fault == "killed for good":
        del made.processes[task]
    codes = made.codes()
    seconds = time.monotonic() - since
    shown = ", ".join(f"{name} {code}" for name, code in sorted(codes.items()))
    print(f"\n| {strategy} | {task} | {fault} | {shown} | {seconds:.0f} |")
    allowed = expected(strategy, task, fault)
    assert {name: code for name, code in codes.items() if code not in allowed[name]} == {}
    if codes.get("chief:0") == 0:
        assert read_result(model_dir).status == "done"
    else:  # All tasks end after the cluster timeout.
        assert seconds < 2 * (TIMEOUT + 30)
