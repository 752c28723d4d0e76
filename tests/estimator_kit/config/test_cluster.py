"""TF_CONFIG and the flags in its place: what they describe, and what is said of wrong ones."""

from __future__ import annotations

import json
import os

import pytest

import estimator_kit as ek
from estimator_kit.config import cluster
from estimator_kit.config.cluster import ClusterView, strategy_of, view_problems
from estimator_kit.training.team import Team

pytestmark = pytest.mark.no_tensorflow

HOSTS = {"chief": ["a:1"], "worker": ["b:2", "c:3"], "ps": ["d:4"]}
TRAINING = {
    "spec": "spec.yaml", "model_dir": "run", "train_files": ("a",), "eval_files": ("b",),
    "max_steps": 1,
}  # fmt: skip
EXAMPLE = (
    ' An example is {"cluster": {"chief": ["host0:2222"], "worker": ["host1:2222"], '
    '"ps": ["host2:2222"]}, "task": {"type": "worker", "index": 0}}'
)


def config(**changes) -> ek.ExperimentConfig:
    return ek.ExperimentConfig(**{**TRAINING, **changes})


def text(hosts=HOSTS, **task) -> str:
    return json.dumps({"cluster": hosts, "task": task})


def test_a_view_of_a_cluster():
    view = cluster.parse(text(type="worker", index=1))
    assert view == ClusterView("a:1", ("b:2", "c:3"), ("d:4",), (), "worker", 1)
    assert (view.trainers, view.trainer_index, view.address) == (3, 2, "c:3")
    assert view.text() == (
        "this is worker:1 of a cluster of 4 servers:\n"
        "  chief:0     a:1\n"
        "  worker:0    b:2\n"
        "  worker:1    c:3  <- this task\n"
        "  ps:0        d:4\n"
        "  it reads shard 3 of 3"
    )
    assert cluster.parse(view.tf_config()) == view


def test_an_evaluator_may_be_named_and_is_no_member():
    named = cluster.parse(text({**HOSTS, "evaluator": ["e:5"]}, type="evaluator", index=0))
    unnamed = cluster.parse(text(type="evaluator"))
    assert (named.evaluators, unnamed.evaluators) == (("e:5",), ())
    assert named.cluster_dict() == unnamed.cluster_dict() == HOSTS
    assert named.address is None
    by_hand = config(job_name="evaluator", worker_hosts=("a:1", "b:2", "c:3"), ps_hosts=("d:4",))
    described = text({**HOSTS, "evaluator": ["e:5"]}, type="evaluator", index=0)
    assert cluster.view_of(by_hand, {"TF_CONFIG": described}) == named


def test_only_grpc_is_a_layer_for_calls():
    document = {**json.loads(text(type="chief")), "rpc_layer": "grpc"}
    assert cluster.parse(json.dumps(document)) == cluster.parse(text(type="chief"))
    with pytest.raises(ek.ConfigError, match=r"rpc_layer: expected grpc, got 'grpc[+]verbs'. An"):
        cluster.parse(json.dumps({**document, "rpc_layer": "grpc+verbs"}))


def test_configs_without_a_cluster():
    assert cluster.parse("{}") is None
    assert cluster.parse('{"cluster": {}, "task": {"type": "worker", "index": 0}}') is None
    assert cluster.parse(text({"chief": ["a:1"]}, type="chief", index=0)) is None
    assert cluster.view_of(config(), {}) is None


@pytest.mark.parametrize("task", ["master", "worker", "ps", "evaluator"])
def test_a_master_is_the_chief(task):
    hosts = {**HOSTS, "master": HOSTS["chief"]}
    del hosts["chief"]
    by_name = cluster.parse(text(type="chief" if task == "master" else task, index=0))
    assert cluster.parse(text(hosts, type=task, index=0)) == by_name
    assert by_name.chief == "a:1"


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        (("worker", 0), ("chief", 0)),
        (("worker", 1), ("worker", 0)),
        (("worker", "2"), ("worker", 1)),
        (("ps", 0), ("ps", 0)),
        (("evaluator", 0), ("evaluator", 0)),
    ],
)
def test_of_workers_alone_the_first_is_the_chief(place, expected):
    hosts = {"worker": ["a:1", "b:2", "c:3"], "ps": ["d:4"]}
    view = cluster.parse(text(hosts, type=place[0], index=place[1]))
    assert view == ClusterView("a:1", ("b:2", "c:3"), ("d:4",), (), *expected)
    assert cluster.parse(text({**hosts, "chief": []}, type=place[0], index=place[1])) == view
    assert cluster.parse(view.tf_config()) == view


@pytest.mark.parametrize("job", ["master", "worker"])
def test_a_lone_leader_trains_alone(job):
    assert cluster.parse(text({job: ["a:1"]}, type=job, index=0)) is None
    assert cluster.parse(text({}, type=job, index=0)) is None


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], "TF_CONFIG: expected an object with cluster, task, got []."),
        (
            {"cluster": []},
            "TF_CONFIG.cluster: expected an object with chief, worker, ps, evaluator, got [].",
        ),
        (
            {"task": {"type": "worker", "index": 3}},
            "TF_CONFIG.cluster: expected the cluster of the task worker 3, got none.",
        ),
        (
            {"cluster": {"chief": ["a:1"]}, "task": {"type": "evaluator"}},
            "TF_CONFIG.cluster: expected a worker or a ps too; a chief that trains alone evaluates "
            "its own checkpoints, without an evaluator, got only a chief.",
        ),
        ({"clusters": {}}, "TF_CONFIG: expected the names cluster, task, got the name 'clusters'."),
        (
            {"cluster": {"master": ["a:1", "b:1"]}, "task": {"type": "master"}},
            "TF_CONFIG.cluster.master: expected one address, of the task that saves checkpoints, "
            "got 2 addresses.",
        ),
        (
            {"cluster": {"master": ["a:1"], "chief": ["b:1"]}, "task": {"type": "chief"}},
            "TF_CONFIG.cluster: expected one of the two, got a chief and a master.",
        ),
        (
            {"cluster": HOSTS, "task": {"type": "master"}},
            "TF_CONFIG.task.index: expected a task of the cluster, which has no master, got 0.",
        ),
        (
            {"cluster": {"chief": "a:1"}},
            'TF_CONFIG.cluster.chief: expected a list of addresses, such as ["host0:2222"], got '
            "'a:1'.",
        ),
        (
            {"cluster": {"chief": ["a"]}},
            "TF_CONFIG.cluster.chief[0]: expected an address such as host0:2222, got 'a'.",
        ),
        (
            {"cluster": {"worker": ["a:1", "b:65536"]}},
            "TF_CONFIG.cluster.worker[1]: expected an address such as host0:2222, got 'b:65536'.",
        ),
        (
            {"cluster": {"ps": ["a:1", "b:1"]}, "task": {"type": "ps", "index": 0}},
            "TF_CONFIG.cluster.chief: expected one address, of the task that saves checkpoints, "
            "got 0 addresses.",
        ),
        (
            {"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "chief", "index": 0}},
            "TF_CONFIG.task.index: expected a task of the cluster, which has no chief, got 0.",
        ),
        (
            {"cluster": {"chief": ["a:1"], "ps": ["a:1"]}},
            "TF_CONFIG.cluster: expected an address for each task, got a:1 twice.",
        ),
        (
            {"cluster": {"chief": ["localhost:1"], "worker": ["127.0.0.1:1"]}},
            "TF_CONFIG.cluster: expected an address for each task, got localhost:1 and "
            "127.0.0.1:1, which are the same address.",
        ),
        (
            {"cluster": {"chief": ["host:1"], "worker": ["HOST:1"]}},
            "TF_CONFIG.cluster: expected an address for each task, got host:1 and HOST:1, which "
            "are the same address.",
        ),
        (
            {"cluster": HOSTS, "task": {"type": "server"}},
            "TF_CONFIG.task.type: expected one of chief, worker, ps, evaluator, got 'server'.",
        ),
        (
            {"cluster": HOSTS, "task": {"type": "worker", "index": 2}},
            "TF_CONFIG.task.index: expected a number below 2, the number of worker tasks, got 2.",
        ),
        (
            {"cluster": {"chief": ["a:1"], "ps": ["b:1"]}, "task": {"type": "worker"}},
            "TF_CONFIG.task.index: expected a task of the cluster, which has no worker, got 0.",
        ),
        (
            {"task": {"type": "evaluator"}},
            "TF_CONFIG.cluster: expected the cluster of the task evaluator 0, got none.",
        ),
    ],
)
def test_a_wrong_tf_config_says_which_part(document, message):
    with pytest.raises(ek.ConfigError) as error:
        cluster.parse(json.dumps(document))
    assert str(error.value) == message + EXAMPLE


@pytest.mark.parametrize(
    ("text", "reason"),
    [("{chief", "Expecting property name"), ("[" * 200_000, "maximum recursion depth exceeded")],
)
def test_text_that_is_not_json(text, reason):
    with pytest.raises(ek.ConfigError) as error:
        cluster.parse(text)
    assert str(error.value).startswith(f"TF_CONFIG is not JSON: {reason}")


def test_flags_make_the_same_cluster():
    hosts = {"worker_hosts": ("a:1", "b:2", "c:3"), "ps_hosts": ("d:4",)}
    chief = cluster.view_of(config(job_name="chief", **hosts), {})
    assert chief == cluster.parse(text(type="chief"))
    assert cluster.view_of(config(job_name="worker", task_index=0, **hosts), {}) == chief
    worker = cluster.view_of(config(job_name="worker", task_index=2, **hosts), {})
    assert worker == cluster.parse(text(type="worker", index=1))
    assert (
        cluster.view_of(
            config(job_name="worker", task_index=2, **hosts),
            {"TF_CONFIG": text(type="worker", index=1)},
        )
        == worker
    )
    with pytest.raises(ek.ConfigError, match="describe another cluster than TF_CONFIG, which has"):
        cluster.view_of(
            config(job_name="chief", **hosts), {"TF_CONFIG": text(type="worker", index=1)}
        )
    with pytest.raises(ek.ConfigError) as error:
        cluster.view_of(config(job_name="ps", task_index=1, **hosts), {})
    assert str(error.value) == (
        "--task_index: expected a number below 1, got 1: --ps_hosts has 1 of them."
    )


def test_a_lone_chief_by_flags_trains_alone():
    assert cluster.view_of(config(job_name="worker", worker_hosts=("a:1",)), {}) is None
    with pytest.raises(ek.ConfigError, match="--worker_hosts: got only a chief, expected a wor"):
        cluster.view_of(config(job_name="evaluator", worker_hosts=("a:1",)), {})


def test_an_address_is_of_one_task():
    with pytest.raises(ek.ConfigError) as error:
        cluster.view_of(config(job_name="ps", worker_hosts=("a:1",), ps_hosts=("a:1",)), {})
    assert str(error.value) == (
        "--worker_hosts, --ps_hosts: got a:1 twice, expected a different address for each task."
    )

    with pytest.raises(ek.ConfigError, match=r"localhost:1 and \[::1\]:1, which are the same"):
        cluster.view_of(config(job_name="ps", worker_hosts="localhost:1", ps_hosts="[::1]:1"), {})


def test_tf_config_is_what_a_block_says():
    environment = {"TF_CONFIG": "outer"}
    view = cluster.parse(text(type="ps"))
    with cluster.set_tf_config(view, environment):
        assert json.loads(environment["TF_CONFIG"])["task"] == {"type": "ps", "index": 0}
    with cluster.set_tf_config(None, environment):
        assert environment == {}
    assert environment == {"TF_CONFIG": "outer"}
    assert os.environ.get("TF_CONFIG") is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"worker_hosts": ("a:1",)},
            "--worker_hosts is for a cluster whose tasks you start by hand. Use --job_name to say "
            "which task this process is.",
        ),
        (
            {"job_name": "ps"},
            "--worker_hosts is missing. With --job_name, list the tasks that train, with the chief "
            "first.",
        ),
        (
            {"backup_workers": 1},
            "--backup_workers is only for --strategy=sync_replicas. Remove it.",
        ),
        (
            {"launch_local": "chief:1,workers:2"},
            "--launch_local: expected job:number, such as chief:1,worker:2,ps:1,evaluator:1, got "
            "'workers:2'",
        ),
        (
            {"launch_local": "worker:2"},
            "--launch_local: expected one chief and at most one evaluator, got 'worker:2'",
        ),
        (
            {"launch_local": "chief:1,evaluator:1"},
            "--launch_local: expected a worker or a ps with the evaluator, got "
            "'chief:1,evaluator:1'. Remove the evaluator: a chief that trains alone evaluates its "
            "own checkpoints.",
        ),
        (
            {"launch_local": "chief:1,worker:1"},
            "2 tasks train, and the cluster has no ps. Use --strategy=multi_worker_mirrored, or "
            "add a ps for --strategy=parameter_server.",
        ),
        (
            {"launch_local": "chief:1,ps:1", "strategy": "multi_worker_mirrored"},
            "--strategy=multi_worker_mirrored uses no ps, because each worker keeps all variables. "
            "Remove the ps from the cluster.",
        ),
        (
            {"strategy": "parameter_server", "deterministic": True},
            "--deterministic does not go with --strategy=parameter_server, where sums depend on "
            "which task is first. Remove one of the two.",
        ),
        (
            {"task_index": 2},
            "--job_name is missing. --task_index is the number of a task in a job.",
        ),
        (
            {"mirrored_devices": 2, "strategy": "sync_replicas"},
            "--mirrored_devices is only for --strategy=mirrored and "
            "--strategy=multi_worker_mirrored. Remove it.",
        ),
        (
            {"partition_mib": 64, "warm_start_from": "old"},
            "--partition_mib does not go with --warm_start_from, which moves whole tables. "
            "Start without --partition_mib, and add it when training continues from the first "
            "checkpoint.",
        ),
        (
            {"launch_local": "chief:1,ps:1", "job_name": "ps", "worker_hosts": ("a:1",)},
            "--launch_local and --job_name do not go together. Give one of them.",
        ),
        (
            {"launch_local": "chief:1,worker:1", "strategy": "sync_replicas"},
            "--strategy=sync_replicas needs a ps, which keeps the variables, but the cluster has "
            "none. Add a ps.",
        ),
        (
            {
                "launch_local": "chief:1,worker:1,ps:1", "strategy": "sync_replicas",
                "backup_workers": 2,
            },
            "--backup_workers: expected less than 2, the number of tasks that train, got 2.",
        ),
        (
            {"strategy": "mirrored", "profile": "10..12", "max_steps": 20},
            "--profile does not go with --strategy=mirrored. Profile a run in one process, which "
            "reads its input in the same way.",
        ),
        (
            {"strategy": "mirrored", "xla": "on"},
            "--xla=on does not go with --strategy=mirrored: it is for a training in one process "
            "with one device. Remove one of the two.",
        ),
        (
            {"strategy": "mirrored", "input_cache_dir": "cache"},
            "--input_cache_dir does not go with --strategy=mirrored. Remove one of the two.",
        ),
        (
            {"strategy": "mirrored", "train_files": (), "train_mix": ("a=1", "b=1")},
            "--train_mix does not go with --strategy=mirrored, because one process must read all "
            "parts of a mix to keep their shares. Use --train_files.",
        ),
    ],
)  # fmt: skip
def test_flags_that_do_not_go_together(changes, message):
    with pytest.raises(ek.ConfigError) as error:
        config(**changes)
    assert str(error.value) == message


def test_what_does_not_go_with_a_cluster():
    view = cluster.parse(text(type="chief"))
    assert view_problems(config(), view) == []
    assert strategy_of(config(), view) == "parameter_server"
    assert view_problems(config(strategy="mirrored"), view) == [
        "--strategy=mirrored is for the devices of one machine, not for a cluster. Use "
        "--strategy=multi_worker_mirrored."
    ]
    (problem,) = view_problems(config(data_service="grpc://host:1"), view)
    assert problem.startswith(
        "--data_service does not go with a cluster, where each task that trains reads "
    )
    (problem,) = view_problems(config(strategy="sync_replicas"), None)
    assert problem == (
        "--strategy=sync_replicas needs a cluster, but this process is in none. Set TF_CONFIG or "
        "--job_name, or try it on this machine with "
        "--launch_local=chief:1,worker:1,ps:1,evaluator:1"
    )
    with_partitions = config(partition_mib=64)
    assert view_problems(with_partitions, view) == []
    (problem,) = view_problems(with_partitions, None)
    assert problem == (
        "--partition_mib is only for a cluster with ps tasks, which share the pieces of a table. "
        "Remove it, or add a ps."
    )
    evaluator = cluster.parse(text(type="evaluator"))
    assert view_problems(config(), evaluator) == []
    (problem,) = view_problems(config(mode="train", eval_files=()), evaluator)
    assert problem == (
        "--mode=train does not evaluate, but this task is an evaluator. Do not start it, or use "
        "--mode=train_and_evaluate."
    )


def test_a_team_and_its_steps():
    view = cluster.parse(text(type="worker", index=0))
    team = Team.of(config(), view)
    assert team == Team(size=3, index=1)
    # 10 steps of all are 3 of each, as far as they tell.
    assert team.own_rows(10, batch_size=50) == 150 and not team.pads
    assert team.steps_of([150, 130, 1], batch_size=100) == 2 + 2 + 1
    sync = Team.of(config(strategy="sync_replicas", backup_workers=1), view)
    assert sync == Team(size=3, index=1, batches_a_step=2, ends_together=True)
    # 9 steps of 2 batches are 18, of which each has read 6.
    assert sync.own_rows(9, batch_size=50) == 300 and not sync.pads
    assert sync.steps_of([150, 130, 1], batch_size=100) == 3
    mirrored = Team.of(config(strategy="multi_worker_mirrored"), view, devices=2)
    assert mirrored == Team(size=3, index=1, batches_a_step=6, ends_together=True)
    # The largest shard has 5 batches, of which each machine takes 2 a step.
    assert mirrored.pads and mirrored.steps_of([450, 130, 1], batch_size=100) == 3
    assert mirrored.own_rows(2, batch_size=100) == 400
