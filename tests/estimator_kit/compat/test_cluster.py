"""Clusters of real processes on the loopback interface, each with a time limit."""

import json
import time

import pytest

from tests.estimator_kit.compat.support import LIMIT_S, free_ports, steps_of, tasks


def tf_config(cluster, task_type, index):
    task = {"type": task_type, "index": index}
    return {"TF_CONFIG": json.dumps({"cluster": cluster, "task": task})}


def addresses(**counts):
    ports = iter(free_ports(sum(counts.values())))
    return {
        job: [f"127.0.0.1:{next(ports)}" for _ in range(count)] for job, count in counts.items()
    }


def train(start, model_dir, cluster, task_type, *, index=0, steps, strategy="none"):
    """Starts one task of the cluster."""
    return start(
        f"{task_type}-{index}",
        "train_and_evaluate",
        model_dir,
        steps,
        strategy,
        variables=tf_config(cluster, task_type, index),
    )


def exports(model_dir):
    return list((model_dir / "export" / "final").glob("*/saved_model.pb"))


@pytest.mark.ci
def test_parameter_servers_with_an_evaluator(tmp_path):
    cluster = addresses(chief=1, worker=1, ps=2)
    model_dir = tmp_path / "model"
    deadline = time.monotonic() + LIMIT_S
    with tasks(tmp_path) as start:
        servers = [train(start, model_dir, cluster, "ps", index=i, steps=300) for i in (0, 1)]
        chief, worker, evaluator = (
            train(start, model_dir, cluster, task_type, steps=300)
            for task_type in ("chief", "worker", "evaluator")
        )
        for task in (chief, worker, evaluator):
            task.wait(deadline)
        # A parameter server does not end by itself.
        assert [server.process.poll() for server in servers] == [None, None]
    assert steps_of(model_dir) >= 300
    assert len(exports(model_dir)) == 1
    assert "Saving dict for global step" in evaluator.log.read_text()


@pytest.mark.nightly
def test_v1_parameter_server_strategy(tmp_path):
    cluster = addresses(chief=1, worker=1, ps=1)
    model_dir = tmp_path / "model"
    deadline = time.monotonic() + LIMIT_S
    with tasks(tmp_path) as start:
        strategy = "parameter_server_graph"
        server, chief, worker = (
            train(start, model_dir, cluster, task_type, steps=300, strategy=strategy)
            for task_type in ("ps", "chief", "worker")
        )
        chief.wait(deadline)
        worker.wait(deadline)
        assert server.process.poll() is None
    assert steps_of(model_dir) >= 300


@pytest.mark.nightly
@pytest.mark.parametrize("strategy", ["multi_worker", "multi_worker_graph"])
def test_multi_worker_mirrored_with_an_evaluator(strategy, tmp_path):
    cluster = addresses(chief=1, worker=1)
    model_dir = tmp_path / "model"
    deadline = time.monotonic() + LIMIT_S
    with tasks(tmp_path) as start:
        workers = [
            train(start, model_dir, cluster, task_type, steps=50, strategy=strategy)
            for task_type in ("chief", "worker")
        ]
        # An evaluator cannot make a strategy, not even with TensorFlow 2.15.
        evaluator = train(start, model_dir, cluster, "evaluator", steps=50)
        for task in (*workers, evaluator):
            task.wait(deadline)
    assert steps_of(model_dir) == 50
    assert len(exports(model_dir)) == 1
    for task in workers:
        assert "num_workers = 2" in task.log.read_text()
