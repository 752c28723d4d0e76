"""The flags of training on several processes, machines or devices."""

from __future__ import annotations

from estimator_kit.config.cluster_rules import STRATEGIES
from estimator_kit.config.flags.definer import Definer


def define_flags(define: Definer) -> None:
    define.choice(
        "strategy",
        STRATEGIES,
        "How several processes or devices train one model. parameter_server: asynchronous, with "
        "the variables on the ps tasks; the one that is taken where TF_CONFIG has ps. "
        "sync_replicas: the same cluster, where a step is one batch of each task that trains. "
        "mirrored: all devices of this machine. multi_worker_mirrored: several machines, each with "
        "all variables. docs/distributed.md says when to take which. Not given: this process "
        "alone.",
    )
    define.choice(
        "job_name",
        ("chief", "worker", "ps", "evaluator"),
        "Which task of a cluster this process is, in the place of TF_CONFIG, together with "
        "--task_index, --worker_hosts and --ps_hosts.",
    )
    define.integer(
        "task_index",
        "The number of the task among those of its job, from 0. The worker 0 is the chief.",
    )
    define.listing(
        "worker_hosts",
        "With --job_name: host:port of all tasks that train, the first of them the chief's, the "
        "same list in each task.",
    )
    define.listing(
        "ps_hosts",
        "With --job_name: host:port of all parameter servers.",
    )
    define.text(
        "launch_local",
        "Start a cluster on this machine, as in chief:1,worker:2,ps:1,evaluator:1: real processes "
        "with free ports, whose lines come with their names. SIGTERM and Ctrl-C are passed on; the "
        "exit status is the chief's, or that of a task that failed. For development.",
    )
    define.number(
        "cluster_timeout_secs",
        "Seconds that a task waits for others that it cannot reach, at the start and later, before "
        "it gives up with exit status 75.",
    )
    define.switch(
        "listen_on_all_interfaces",
        "Let the servers of a cluster take connections on every network of the machine, and not "
        "at their address in TF_CONFIG alone. Whoever reaches them can run programs there.",
    )
    define.integer(
        "mirrored_devices",
        "With --strategy=mirrored or multi_worker_mirrored: devices of this machine that train; "
        "all GPUs when not given, or one CPU.",
    )
    define.integer(
        "backup_workers",
        "With --strategy=sync_replicas: tasks that a step does not wait for; the slowest batches "
        "of each step are dropped.",
    )
    define.number(
        "partition_mib",
        "With ps tasks: embedding tables above so many MiB are cut into pieces of that size at "
        "most, spread over the ps. The checkpoint has them whole.",
    )
    define.switch(
        "memory_growth",
        "Take memory of a GPU as it is needed, and not all of it at once.",
    )
