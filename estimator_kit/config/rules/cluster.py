"""Which flags go with a cluster, and which could not be kept there. No TensorFlow."""

from __future__ import annotations

import re
from typing import Optional

from estimator_kit.config.cluster import ClusterView
from estimator_kit.config.settings import AllSettings

STRATEGIES = ("parameter_server", "sync_replicas", "mirrored", "multi_worker_mirrored")
WITH_PS = ("parameter_server", "sync_replicas")
ALL_REDUCE = ("mirrored", "multi_worker_mirrored")

_LOCAL_JOBS = ("chief", "worker", "ps", "evaluator")


def problems(config: AllSettings) -> list[str]:
    """What of the flags of a cluster does not go together, whatever TF_CONFIG says."""
    found = []
    trains = config.mode in ("train", "train_and_evaluate")
    by_hand = {name: getattr(config, name) for name in ("ps_hosts", "worker_hosts")}
    if config.job_name is None:
        found += [
            f"--{name} is of a cluster whose tasks are started by hand; say which one this is "
            "with --job_name"
            for name, value in by_hand.items()
            if value
        ]
        if config.task_index:
            found.append("--job_name is missing; --task_index is the number of a task of a job")
    elif not config.worker_hosts:
        found.append(
            "--worker_hosts is missing; with --job_name it lists the tasks that train, the chief "
            "first"
        )
    if config.backup_workers and config.strategy != "sync_replicas":
        found.append("--backup_workers is for --strategy=sync_replicas")
    if config.mirrored_devices and config.strategy not in ALL_REDUCE:
        found.append(
            "--mirrored_devices is for --strategy=mirrored and --strategy=multi_worker_mirrored"
        )
    if config.partition_mib and config.warm_start_from:
        found.append(
            "--partition_mib does not go with --warm_start_from, which moves whole tables; start "
            "without pieces, and give --partition_mib when going on from the first checkpoint"
        )
    if config.launch_local:
        try:
            jobs = local_jobs(config.launch_local)
        except ValueError as error:
            found.append(f"--launch_local: {error}")
        else:
            if config.job_name is not None:
                found.append("give --launch_local or --job_name, not both")
            found += _shape_problems(config, {job: n for job, n in jobs.items() if n})
        if not trains:
            found.append(f"--launch_local starts a training, not --mode={config.mode}")
    if trains and config.strategy is not None:
        found += unfit(config, f"--strategy={config.strategy}")
    return found


def local_jobs(text: str) -> dict[str, int]:
    """How many tasks of each job `--launch_local` starts.

    Raises:
      ValueError: the text is none of that kind.
    """
    jobs = dict.fromkeys(_LOCAL_JOBS, 0)
    for entry in text.split(","):
        match = re.fullmatch(r"\s*(\w+):(\d{1,3})\s*", entry)
        if match is None or match[1] not in jobs:
            raise ValueError(
                f"got {entry!r}, expected job:number, as in chief:1,worker:2,ps:1,evaluator:1"
            )
        jobs[match[1]] = int(match[2])
    if jobs["chief"] != 1 or jobs["evaluator"] > 1:
        raise ValueError(f"got {text!r}, expected one chief, and one evaluator at most")
    if jobs["evaluator"] and not jobs["worker"] and not jobs["ps"]:
        raise ValueError(
            f"got {text!r}, expected a worker or a ps beside the evaluator; a chief that trains "
            "alone scores its checkpoints itself"
        )
    return jobs


def strategy_of(config: AllSettings, view: Optional[ClusterView]) -> Optional[str]:
    """The strategy that is used: the one that is asked for, or that of a cluster with ps."""
    if config.strategy is not None or view is None:
        return config.strategy
    return "parameter_server" if view.ps else None


def view_problems(config: AllSettings, view: Optional[ClusterView]) -> list[str]:
    """What does not go together with the cluster that this process is in, or with none."""
    trains = config.mode in ("train", "train_and_evaluate")
    if trains and config.partition_mib and (view is None or not view.ps):
        return ["--partition_mib is for a cluster with ps tasks, over which tables are spread"]
    if view is None:
        if config.strategy in (None, "mirrored"):
            return []
        return [
            f"--strategy={config.strategy} is for a cluster, and there is none: set TF_CONFIG or "
            "--job_name, or try it on this machine with --launch_local=chief:1,worker:1,"
            f"{'ps:1,' if config.strategy in WITH_PS else ''}evaluator:1"
        ]
    if config.mode not in ("train", "train_and_evaluate"):
        return [
            f"TF_CONFIG names a cluster of {len(view.tasks())} tasks, and --mode={config.mode} "
            "runs in one process; unset TF_CONFIG"
        ]
    counts = {"chief": 1, "worker": len(view.workers), "ps": len(view.ps)}
    found = _shape_problems(config, {job: n for job, n in counts.items() if n})
    if view.task_type == "evaluator" and config.mode == "train":
        found.append("--mode=train needs no evaluator; start none, or say train_and_evaluate")
    return found + unfit(config, "a cluster")


def _shape_problems(config: AllSettings, jobs: dict[str, int]) -> list[str]:
    """What a strategy misses in the jobs of a cluster, or finds too many of."""
    strategy = config.strategy or ("parameter_server" if "ps" in jobs else None)
    trainers = 1 + jobs.get("worker", 0)
    if strategy is None:
        if trainers == 1:
            return []
        return [
            f"{trainers} tasks train and none is a ps: say --strategy=multi_worker_mirrored, or "
            "add a ps, which makes it parameter_server"
        ]
    if strategy == "mirrored":
        return [
            "--strategy=mirrored is for the devices of one machine, not for a cluster; say "
            "--strategy=multi_worker_mirrored"
        ]
    if strategy in WITH_PS and "ps" not in jobs:
        return [f"--strategy={strategy} needs a ps in the cluster, which keeps the variables"]
    if strategy == "multi_worker_mirrored" and "ps" in jobs:
        return [
            "--strategy=multi_worker_mirrored has no ps: each worker keeps all variables; take "
            "the ps out of the cluster"
        ]
    if strategy == "sync_replicas" and config.backup_workers >= trainers:
        return [
            f"--backup_workers: got {config.backup_workers}, expected less than the {trainers} "
            "tasks that train, chief included"
        ]
    return []


def unfit(config: AllSettings, what: str) -> list[str]:
    """Flags of one process that several, or several devices, do not keep."""
    found = []
    if config.data_service is not None:
        found.append(
            f"--data_service does not go with {what}: there the files are dealt out to the tasks "
            "that train, each of which reads its shard; drop one of the two"
        )
    if config.deterministic:
        found.append(
            f"--deterministic does not go with {what}, where sums depend on who comes first; drop "
            "one of the two"
        )
    if config.profile_input:
        found.append(
            f"--profile_input does not go with {what}; profile a run in one process, which reads "
            "the same way"
        )
    if config.input_cache_dir:
        found.append(f"--input_cache_dir does not go with {what}; drop one of the two")
    if config.train_mix:
        found.append(
            f"--train_mix does not go with {what}: the shares of a mix are kept by one process "
            "that reads all its parts; give --train_files"
        )
    return found
