"""Training on several processes, machines or devices."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Optional

from pydantic import Field

from estimator_kit.config.settings.base import MOST_DEVICES, Count, Settings, setting
from feature_specs.entry import PositiveFloat

Strategy = Literal["parameter_server", "sync_replicas", "mirrored", "multi_worker_mirrored"]


class ClusterSettings(Settings):
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
        "before it exits with status 75.",
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
