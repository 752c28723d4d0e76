"""Training on several processes, machines or devices, and the servers of a tf.data service.

Imports no TensorFlow.
"""

from __future__ import annotations

import re
from typing import Annotated, ClassVar, Literal, Optional

from pydantic import Field

from estimator_kit.config.areas.base import MOST_DEVICES, Count, Settings, setting
from estimator_kit.config.areas.program import Program
from estimator_kit.config.areas.training import WarmStart
from feature_specs.entry import PositiveFloat

CHIEF, WORKER, PS, EVALUATOR = "chief", "worker", "ps", "evaluator"
JOBS = (CHIEF, WORKER, PS, EVALUATOR)

Strategy = Literal["parameter_server", "sync_replicas", "mirrored", "multi_worker_mirrored"]
WITH_PS = ("parameter_server", "sync_replicas")
ALL_REDUCE = ("mirrored", "multi_worker_mirrored")
# A step of a cluster takes the batches of all tasks that train.
TOGETHER = ("sync_replicas", "multi_worker_mirrored")


class Cluster(Settings):
    """Training on several processes, machines or devices."""

    heading: ClassVar[str] = "Clusters and devices"

    strategy: Optional[Strategy] = setting(
        None,
        "How several processes or devices train one model. parameter_server: asynchronous, "
        "with the variables on the ps tasks; the default if TF_CONFIG has ps tasks. "
        "sync_replicas: the same cluster, but each step uses one batch from every task that "
        "trains. mirrored: all devices of this machine. multi_worker_mirrored: several "
        "machines, each with all variables. docs/guides/distributed.md compares them. By default "
        "this process trains alone.",
        changes="training",
    )
    job_name: Optional[Literal["chief", "worker", "ps", "evaluator"]] = setting(
        None,
        "The job of this process in a cluster, instead of TF_CONFIG. Give --task_index, "
        "--worker_hosts and --ps_hosts too.",
        changes="rows",
        named=True,
    )
    task_index: Count = setting(
        0,
        "The number of this task in its job, from 0. Worker 0 is the chief.",
        changes="rows",
        named=True,
    )
    worker_hosts: tuple[str, ...] = setting(
        (),
        "With --job_name: host:port of all tasks that train, the chief first. Every task needs "
        "the same list.",
        changes="rows",
        named=True,
    )
    ps_hosts: tuple[str, ...] = setting(
        (),
        "With --job_name: host:port of all parameter servers.",
        changes="nothing",
    )
    launch_local: Optional[str] = setting(
        None,
        "Start a cluster on this machine, such as chief:1,worker:2,ps:1,evaluator:1, for "
        "development. The tasks are real processes on free ports, and their names stand before "
        "their lines of output. SIGTERM and Ctrl-C are passed on. The launcher exits with the "
        "status of the chief, or of a task that failed.",
        changes="rows",
        named=True,
    )
    cluster_timeout_secs: PositiveFloat = setting(
        600.0,
        "Seconds that a task waits for tasks that it cannot reach, at the start and later, "
        "before it exits with status 75. With --data_service: for the dispatcher and a first "
        "worker, and for rows that are missing at the end, before they count as lost with a "
        "worker. A step may take three times as long.",
        changes="nothing",
    )
    listen_on_all_interfaces: bool = setting(
        False,
        "Let the servers of a cluster listen on every network of the machine, and not only on "
        "their address in TF_CONFIG. Everyone who reaches them can run programs there.",
        changes="nothing",
    )
    mirrored_devices: Optional[Annotated[int, Field(ge=1, le=MOST_DEVICES, strict=True)]] = setting(
        None,
        "With --strategy=mirrored or multi_worker_mirrored: how many devices of this machine "
        "train; by default all GPUs, or one CPU.",
        changes="training",
    )
    backup_workers: Count = setting(
        0,
        "With --strategy=sync_replicas: how many tasks a step does not wait for. The slowest "
        "batches of each step are dropped.",
        changes="training",
    )
    partition_mib: Optional[PositiveFloat] = setting(
        None,
        "With ps tasks: cut embedding tables that are larger than this many MiB into pieces of "
        "at most this size, and spread them over the ps tasks. The checkpoint has whole "
        "tables.",
        changes="nothing",
    )


def problems(cluster: Cluster, warm_start: WarmStart) -> list[str]:
    """What does not go together, whatever TF_CONFIG says."""
    lines = []
    by_hand = {name: getattr(cluster, name) for name in ("ps_hosts", "worker_hosts")}
    if cluster.job_name is None:
        lines += [
            f"--{name} is for a cluster whose tasks you start by hand. Use --job_name to say which "
            "task this process is."
            for name, value in by_hand.items()
            if value
        ]
        if cluster.task_index:
            lines.append("--job_name is missing. --task_index is the number of a task in a job.")
    elif not cluster.worker_hosts:
        lines.append(
            "--worker_hosts is missing. With --job_name, list the tasks that train, with the chief "
            "first."
        )
    if cluster.backup_workers and cluster.strategy != "sync_replicas":
        lines.append("--backup_workers is only for --strategy=sync_replicas. Remove it.")
    if cluster.mirrored_devices and cluster.strategy not in ALL_REDUCE:
        lines.append(
            "--mirrored_devices is only for --strategy=mirrored and "
            "--strategy=multi_worker_mirrored. Remove it."
        )
    if cluster.partition_mib and warm_start.warm_start_from:
        lines.append(
            "--partition_mib does not go with --warm_start_from, which moves whole tables. Start "
            "without --partition_mib, and add it when training continues from the first checkpoint."
        )
    if cluster.launch_local:
        try:
            jobs = local_jobs(cluster.launch_local)
        except ValueError as error:
            lines.append(f"--launch_local: {error}")
        else:
            if cluster.job_name is not None:
                lines.append("--launch_local and --job_name do not go together. Give one of them.")
            lines += shape_problems(cluster, {job: n for job, n in jobs.items() if n})
    return lines


def local_jobs(text: str) -> dict[str, int]:
    """How many tasks of each job `--launch_local` starts.

    Raises:
      ValueError: the text is not a list of jobs that can train together.
    """
    jobs = dict.fromkeys(JOBS, 0)
    for entry in text.split(","):
        match = re.fullmatch(r"\s*(\w+):(\d{1,3})\s*", entry)
        if match is None or match[1] not in jobs:
            raise ValueError(
                f"expected job:number, such as chief:1,worker:2,ps:1,evaluator:1, got {entry!r}"
            )
        jobs[match[1]] = int(match[2])
    if jobs["chief"] != 1 or jobs["evaluator"] > 1:
        raise ValueError(f"expected one chief and at most one evaluator, got {text!r}")
    if jobs["evaluator"] and not jobs["worker"] and not jobs["ps"]:
        raise ValueError(
            f"expected a worker or a ps with the evaluator, got {text!r}. Remove the evaluator: a "
            "chief that trains alone evaluates its own checkpoints."
        )
    return jobs


def shape_problems(cluster: Cluster, jobs: dict[str, int]) -> list[str]:
    """Jobs that a strategy needs and the cluster lacks, or that the strategy cannot use."""
    strategy = cluster.strategy or ("parameter_server" if "ps" in jobs else None)
    trainers = 1 + jobs.get("worker", 0)
    if strategy is None:
        if trainers == 1:
            return []
        return [
            f"{trainers} tasks train, and the cluster has no ps. Use "
            "--strategy=multi_worker_mirrored, or add a ps for --strategy=parameter_server."
        ]
    if strategy == "mirrored":
        return [
            "--strategy=mirrored is for the devices of one machine, not for a cluster. Use "
            "--strategy=multi_worker_mirrored."
        ]
    if strategy in WITH_PS and "ps" not in jobs:
        return [
            f"--strategy={strategy} needs a ps, which keeps the variables, but the cluster has "
            "none. Add a ps."
        ]
    if strategy == "multi_worker_mirrored" and "ps" in jobs:
        return [
            "--strategy=multi_worker_mirrored uses no ps, because each worker keeps all variables. "
            "Remove the ps from the cluster."
        ]
    if strategy == "sync_replicas" and cluster.backup_workers >= trainers:
        return [
            f"--backup_workers: expected less than {trainers}, the number of tasks that train, "
            f"got {cluster.backup_workers}."
        ]
    return []


_ADDRESS = re.compile(r"grpc://(\[[0-9A-Fa-f:.]+\]|[^\s:/\[\]]+):([1-9]\d{0,4})")


class DataService(Settings):
    """Batches from a tf.data service, and the servers of one."""

    heading: ClassVar[str] = "tf.data service"

    data_service: Optional[str] = setting(
        None,
        "grpc://host:port of the dispatcher of a tf.data service. The workers of the service "
        "then read, shuffle, parse and transform the training rows on other machines, which "
        "must reach the files by the same paths. Each row is read once an epoch, in no fixed "
        "order. If a worker is lost, the rows that it holds are lost too. With "
        "--mode=data_service, this process becomes a worker of this dispatcher; without the flag, "
        "it becomes a dispatcher.",
        changes="rows",
    )
    data_service_port: Annotated[int, Field(ge=0, le=65535)] = setting(
        0,
        "The port to listen on; 0 takes a free port, and a line of output says which.",
        changes="nothing",
    )
    data_service_host: Optional[str] = setting(
        None,
        "The name by which other machines reach this one; by default its host name (localhost "
        "for a worker whose dispatcher is on localhost).",
        changes="nothing",
    )
    data_service_dir: Optional[str] = setting(
        None,
        "A folder for the state of the dispatcher. If you start it again with the same folder, "
        "it continues its trainings on the same port.",
        changes="nothing",
    )


def data_service_problems(service: DataService, program: Program) -> list[str]:
    """What does not go together with `--data_service`."""
    lines = []
    if service.data_service is not None:
        address = _ADDRESS.fullmatch(service.data_service)
        if address is None or int(address[2]) > 65535:
            lines.append(
                "--data_service: expected the address of a dispatcher, such as "
                f"grpc://host:5000, got {service.data_service!r}."
            )
    if program.mode == "data_service" and service.data_service and service.data_service_dir:
        lines.append(
            "--data_service_dir is the state of a dispatcher, but --data_service makes this "
            "process a worker. Remove one of the two."
        )
    return lines


def kept_together_problem(service: DataService, name: Optional[str]) -> Optional[str]:
    """The problem of rows that must stay together in a batch, or None."""
    if service.data_service is None or name is None:
        return None
    return (
        f"--data_service does not go with the head ranking, which needs all rows of one {name!r} "
        "in one batch: the last batches of the workers are joined and cut again, row by row. "
        "Remove --data_service."
    )
