"""Which settings go together in a cluster or on several devices. Imports no TensorFlow."""

from __future__ import annotations

import re
from typing import Optional

from estimator_kit.config.cluster import JOBS, ClusterView
from estimator_kit.config.modes import TRAINING_MODES
from estimator_kit.config.settings import AllSettings

WITH_PS = ("parameter_server", "sync_replicas")
ALL_REDUCE = ("mirrored", "multi_worker_mirrored")
# A step of a cluster takes the batches of all tasks that train.
TOGETHER = ("sync_replicas", "multi_worker_mirrored")


def problems(config: AllSettings) -> list[str]:
    """What does not go together, whatever TF_CONFIG says."""
    found = []
    by_hand = {name: getattr(config, name) for name in ("ps_hosts", "worker_hosts")}
    if config.job_name is None:
        found += [
            f"--{name} is for a cluster whose tasks you start by hand. Use --job_name to say which "
            "task this process is."
            for name, value in by_hand.items()
            if value
        ]
        if config.task_index:
            found.append("--job_name is missing. --task_index is the number of a task in a job.")
    elif not config.worker_hosts:
        found.append(
            "--worker_hosts is missing. With --job_name, list the tasks that train, with the chief "
            "first."
        )
    if config.backup_workers and config.strategy != "sync_replicas":
        found.append("--backup_workers is only for --strategy=sync_replicas. Remove it.")
    if config.mirrored_devices and config.strategy not in ALL_REDUCE:
        found.append(
            "--mirrored_devices is only for --strategy=mirrored and "
            "--strategy=multi_worker_mirrored. Remove it."
        )
    if config.partition_mib and config.warm_start_from:
        found.append(
            "--partition_mib does not go with --warm_start_from, which moves whole tables. Start "
            "without --partition_mib, and add it when training continues from the first checkpoint."
        )
    if config.launch_local:
        try:
            jobs = local_jobs(config.launch_local)
        except ValueError as error:
            found.append(f"--launch_local: {error}")
        else:
            if config.job_name is not None:
                found.append("--launch_local and --job_name do not go together. Give one of them.")
            found += _shape_problems(config, {job: n for job, n in jobs.items() if n})
    if config.mode in TRAINING_MODES and config.strategy is not None:
        found += unfit(config, f"--strategy={config.strategy}")
    return found


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


def strategy_of(config: AllSettings, view: Optional[ClusterView]) -> Optional[str]:
    """The strategy to use: the one that is set, or parameter_server in a cluster with ps."""
    if config.strategy is not None or view is None:
        return config.strategy
    return "parameter_server" if view.ps else None


def view_problems(config: AllSettings, view: Optional[ClusterView]) -> list[str]:
    """What does not go together with the cluster of this process, or with being in none."""
    if config.mode not in TRAINING_MODES:
        if view is None:
            return []
        return [
            f"TF_CONFIG describes a cluster of {len(view.tasks())} tasks, but --mode={config.mode} "
            "runs in one process. Unset TF_CONFIG."
        ]
    if config.partition_mib and (view is None or not view.ps):
        return [
            "--partition_mib is only for a cluster with ps tasks, which share the pieces of a "
            "table. Remove it, or add a ps."
        ]
    if view is None:
        if config.strategy in (None, "mirrored"):
            return []
        return [
            f"--strategy={config.strategy} needs a cluster, but this process is in none. Set "
            "TF_CONFIG or --job_name, or try it on this machine with "
            "--launch_local=chief:1,worker:1,"
            f"{'ps:1,' if config.strategy in WITH_PS else ''}evaluator:1"
        ]
    counts = {"chief": 1, "worker": len(view.workers), "ps": len(view.ps)}
    found = _shape_problems(config, {job: n for job, n in counts.items() if n})
    if view.task_type == "evaluator" and config.mode == "train":
        found.append(
            "--mode=train does not evaluate, but this task is an evaluator. Do not start it, or "
            "use --mode=train_and_evaluate."
        )
    return found + unfit(config, "a cluster")


def _shape_problems(config: AllSettings, jobs: dict[str, int]) -> list[str]:
    """Jobs that a strategy needs and the cluster lacks, or that the strategy cannot use."""
    strategy = config.strategy or ("parameter_server" if "ps" in jobs else None)
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
    if strategy == "sync_replicas" and config.backup_workers >= trainers:
        return [
            f"--backup_workers: expected less than {trainers}, the number of tasks that train, "
            f"got {config.backup_workers}."
        ]
    return []


def unfit(config: AllSettings, what: str) -> list[str]:
    """Settings that need one process with one device."""
    found = []
    if config.data_service is not None:
        found.append(
            f"--data_service does not go with {what}, where each task that trains reads its own "
            "share of the files. Remove one of the two."
        )
    if config.deterministic:
        found.append(
            f"--deterministic does not go with {what}, where sums depend on which task is first. "
            "Remove one of the two."
        )
    for flag in ("profile", "profile_input", "timeline"):
        if getattr(config, flag):
            found.append(
                f"--{flag} does not go with {what}. Profile a run in one process, which reads its "
                "input in the same way."
            )
    if config.xla == "on":
        found.append(
            f"--xla=on does not go with {what}: it is for a training in one process with one "
            "device. Remove one of the two."
        )
    if config.input_cache_dir:
        found.append(f"--input_cache_dir does not go with {what}. Remove one of the two.")
    if config.train_mix:
        found.append(
            f"--train_mix does not go with {what}, because one process must read all parts of a "
            "mix to keep their shares. Use --train_files."
        )
    return found
