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
        "How several processes or devices train one model. parameter_server: asynchronous, with "
        "the variables on the ps tasks; the one that is taken where TF_CONFIG has ps. "
        "sync_replicas: the same cluster, where a step is one batch of each task that trains. "
        "mirrored: all devices of this machine. multi_worker_mirrored: several machines, each "
        "with all variables. docs/guides/distributed.md says when to take which. Not given: this "
        "process alone.",
    )
    job_name: Optional[Literal["chief", "worker", "ps", "evaluator"]] = setting(
        None,
        "Which task of a cluster this process is, in the place of TF_CONFIG, together with "
        "--task_index, --worker_hosts and --ps_hosts.",
    )
    task_index: Count = setting(
        0,
        "The number of the task among those of its job, from 0. The worker 0 is the chief.",
    )
    worker_hosts: tuple[str, ...] = setting(
        (),
        "With --job_name: host:port of all tasks that train, the first of them the chief's, the "
        "same list in each task.",
    )
    ps_hosts: tuple[str, ...] = setting(
        (),
        "With --job_name: host:port of all parameter servers.",
    )
    launch_local: Optional[str] = setting(
        None,
        "Start a cluster on this machine, as in chief:1,worker:2,ps:1,evaluator:1: real "
        "processes with free ports, whose lines come with their names. SIGTERM and Ctrl-C are "
        "passed on; the exit status is the chief's, or that of a task that failed. For "
        "development.",
    )
    cluster_timeout_secs: PositiveFloat = setting(
        600.0,
        "Seconds that a task waits for others that it cannot reach, at the start and later, "
        "before it gives up with exit status 75.",
    )
    listen_on_all_interfaces: bool = setting(
        False,
        "Let the servers of a cluster take connections on every network of the machine, and not "
        "at their address in TF_CONFIG alone. Whoever reaches them can run programs there.",
    )
    mirrored_devices: Optional[Annotated[int, Field(ge=1, le=MOST_DEVICES, strict=True)]] = setting(
        None,
        "With --strategy=mirrored or multi_worker_mirrored: devices of this machine that train; "
        "all GPUs when not given, or one CPU.",
    )
    backup_workers: Count = setting(
        0,
        "With --strategy=sync_replicas: tasks that a step does not wait for; the slowest "
        "batches of each step are dropped.",
    )
    partition_mib: Optional[PositiveFloat] = setting(
        None,
        "With ps tasks: embedding tables above so many MiB are cut into pieces of that size at "
        "most, spread over the ps. The checkpoint has them whole.",
    )
