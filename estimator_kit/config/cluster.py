"""Reads TF_CONFIG: the tasks of a cluster, and the task of this process.

    view = cluster.view_of(config, os.environ)     # None: this process trains alone

TF_CONFIG describes the cluster. For processes that are started by hand, `--job_name`,
`--task_index`, `--ps_hosts` and `--worker_hosts` describe the same. No other module of the kit
reads TF_CONFIG. Roles come from this module, and not from a RunConfig, which calls every task of an
all-reduce the chief.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from typing import Any, Optional

from estimator_kit.config.areas import AllSettings
from estimator_kit.config.areas.cluster import CHIEF as CHIEF
from estimator_kit.config.areas.cluster import EVALUATOR as EVALUATOR
from estimator_kit.config.areas.cluster import JOBS, WITH_PS, Cluster, shape_problems
from estimator_kit.config.areas.cluster import PS as PS
from estimator_kit.config.areas.cluster import WORKER as WORKER
from estimator_kit.config.areas.program import TRAINING_MODES
from estimator_kit.config.rules import unfit
from estimator_kit.errors import ConfigError

# The name of the chief in a TF_CONFIG of TensorFlow 1.
MASTER = "master"

_VARIABLE = "TF_CONFIG"
_EXAMPLE = (
    '{"cluster": {"chief": ["host0:2222"], "worker": ["host1:2222"], "ps": ["host2:2222"]}, '
    '"task": {"type": "worker", "index": 0}}'
)

# Cluster managers add these keys to cluster and task; the kit ignores them.
_IGNORED = ("environment", "job")
_IGNORED_OF_TASK = ("trial", "cloud")

# What messages expect if only a chief is named.
_MORE_THAN_A_CHIEF = (
    "a worker or a ps too; a chief that trains alone evaluates its own checkpoints, without an "
    "evaluator"
)

_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s:/\[\]]+):([1-9]\d{0,4})")

# TensorFlow's server takes its port on all interfaces, so these are the same address.
_LOOPBACK = re.compile(r"localhost|127(\.\d+){3}|\[::1\]")


@dataclasses.dataclass(frozen=True)
class ClusterView:
    """A task's view of its cluster.

    Attributes:
      chief, workers, ps, evaluators: addresses, as host:port. The evaluator may be missing, because
        it is outside the cluster and no task connects to it.
      task_type: `chief`, `worker`, `ps` or `evaluator`.
      task_index: the number of the task among the tasks of its type.
    """

    chief: str
    workers: tuple[str, ...] = ()
    ps: tuple[str, ...] = ()
    evaluators: tuple[str, ...] = ()
    task_type: str = CHIEF
    task_index: int = 0

    @property
    def name(self) -> str:
        """The name in messages, such as `worker:0`."""
        return f"{self.task_type}:{self.task_index}"

    @property
    def is_chief(self) -> bool:
        return self.task_type == CHIEF

    @property
    def trains(self) -> bool:
        return self.task_type in (CHIEF, WORKER)

    @property
    def trainers(self) -> int:
        """How many processes train: the chief and the workers."""
        return 1 + len(self.workers)

    @property
    def trainer_index(self) -> int:
        """The number of this task among those that train: the chief is 0, the first worker 1."""
        assert self.trains
        return 0 if self.is_chief else 1 + self.task_index

    @property
    def address(self) -> Optional[str]:
        """The address of this task; None for an evaluator, which has no server."""
        return None if self.task_type == EVALUATOR else dict(self.tasks())[self.name]

    def tasks(self) -> list[tuple[str, str]]:
        """(name, address) of the tasks that have a server: chief, workers, ps."""
        jobs = ((CHIEF, (self.chief,)), (WORKER, self.workers), (PS, self.ps))
        return [(f"{job}:{i}", host) for job, hosts in jobs for i, host in enumerate(hosts)]

    def cluster_dict(self) -> dict[str, list[str]]:
        """The cluster in TensorFlow's form, without the evaluator, which is outside of it."""
        jobs = {CHIEF: [self.chief], WORKER: list(self.workers), PS: list(self.ps)}
        return {job: hosts for job, hosts in jobs.items() if hosts}

    def tf_config(self, *, with_evaluators: bool = False) -> str:
        """The TF_CONFIG of this task; TensorFlow accepts no evaluator in it."""
        task = {"type": self.task_type, "index": self.task_index}
        jobs = self.cluster_dict()
        if with_evaluators and self.evaluators:
            jobs[EVALUATOR] = list(self.evaluators)
        return json.dumps({"cluster": jobs, "task": task})

    def text(self) -> str:
        """The text that each task prints when it starts."""
        lines = [f"this is {self.name} of a cluster of {len(self.tasks())} servers:"]
        for name, address in self.tasks():
            mark = "  <- this task" if name == self.name else ""
            lines.append(f"  {name:<12}{address}{mark}")
        if self.trains:
            lines.append(f"  it reads shard {self.trainer_index + 1} of {self.trainers}")
        return "\n".join(lines)


def view_of(config: AllSettings, environment: Mapping[str, str]) -> Optional[ClusterView]:
    """This task's view of its cluster, or None for a process that is alone.

    Modes that do not train look only at TF_CONFIG, to refuse a cluster.

    Raises:
      ConfigError: TF_CONFIG is malformed, or contradicts the flags; the message names the part and
        its expected form.
    """
    from_flags = _from_flags(config) if config.mode in TRAINING_MODES else None
    text = environment.get(_VARIABLE, "").strip()
    view = parse(text) if text else None
    # Flags cannot name an evaluator.
    comparable = view and dataclasses.replace(view, evaluators=())
    if from_flags is not None and view is not None and from_flags != comparable:
        raise ConfigError(
            "--job_name, --task_index, --ps_hosts and --worker_hosts describe another cluster than "
            f"TF_CONFIG, which has {view.tf_config()}. Unset TF_CONFIG, or remove the flags."
        )
    return view or from_flags


def parse(text: str) -> Optional[ClusterView]:
    """The view that a TF_CONFIG describes; None if it has only one task or no cluster.

    As in TensorFlow, a `master` is the chief. If there are workers and no chief, the first worker
    is the chief, and worker 1 of TF_CONFIG is `worker:0` here.

    Raises:
      ConfigError: a part of it is wrong.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"TF_CONFIG is not JSON: {error}. An example is {_EXAMPLE}") from error
    _check_mapping("TF_CONFIG", document, ("cluster", "task"), (*_IGNORED, "rpc_layer"))
    if document.get("rpc_layer", "grpc") != "grpc":
        raise _wrong("TF_CONFIG.rpc_layer", f"got {document['rpc_layer']!r}", "grpc")
    cluster = document.get("cluster", {})
    _check_mapping("TF_CONFIG.cluster", cluster, JOBS, (MASTER,))
    named = {job: _addresses(f"TF_CONFIG.cluster.{job}", hosts) for job, hosts in cluster.items()}
    task = document.get("task") or {}  # A cluster manager may write null for no task.
    _check_mapping("TF_CONFIG.task", task, ("type", "index"), _IGNORED_OF_TASK)
    servers = [host for job, hosts in named.items() if job != EVALUATOR for host in hosts]
    if not servers:
        task_type, index = task.get("type"), task.get("index", 0)
        if task_type in (None, CHIEF, MASTER, WORKER) and index in (0, "0"):
            return None
        raise _wrong(
            "TF_CONFIG.cluster", "got none", f"the cluster of the task {task_type} {index}"
        )
    problem = _equal_addresses(servers)
    if problem is not None:
        raise _wrong("TF_CONFIG.cluster", problem, "an address for each task")
    task_type, index = _checked_task(task, named)
    jobs, task_type, index = _with_chief(named, task_type, index)
    if len(servers) == 1:
        if task_type == CHIEF:
            return None
        raise _wrong("TF_CONFIG.cluster", "got only a chief", _MORE_THAN_A_CHIEF)
    return ClusterView(
        chief=jobs[CHIEF][0],
        workers=jobs.get(WORKER, ()),
        ps=jobs.get(PS, ()),
        evaluators=jobs.get(EVALUATOR, ()),
        task_type=task_type,
        task_index=index,
    )


def _checked_task(task: Mapping[str, Any], jobs: Mapping[str, tuple[str, ...]]) -> tuple[str, int]:
    """The type and the index of the task of this process, which the cluster must have."""
    task_type, index = task.get("type"), task.get("index", 0)
    if task_type not in (*JOBS, MASTER):
        raise _wrong("TF_CONFIG.task.type", f"got {task_type!r}", f"one of {', '.join(JOBS)}")
    number = int(index) if isinstance(index, str) and index.isdecimal() else index
    count = 1 if task_type == EVALUATOR else len(jobs.get(task_type, ()))
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < count:
        expected = (
            f"a number below {count}, the number of {task_type} tasks"
            if count
            else f"a task of the cluster, which has no {task_type}"
        )
        raise _wrong("TF_CONFIG.task.index", f"got {number!r}", expected)
    return task_type, number


def _with_chief(
    jobs: dict[str, tuple[str, ...]], task_type: str, index: int
) -> tuple[dict[str, tuple[str, ...]], str, int]:
    """The jobs and the place of this task, with the chief under the name `chief`."""
    leader = CHIEF
    if MASTER in jobs:
        if jobs.get(CHIEF):
            raise _wrong("TF_CONFIG.cluster", "got a chief and a master", "one of the two")
        leader = MASTER
        jobs = {**jobs, CHIEF: jobs[MASTER]}
        task_type = CHIEF if task_type == MASTER else task_type
    elif not jobs.get(CHIEF) and jobs.get(WORKER):
        jobs = {**jobs, CHIEF: jobs[WORKER][:1], WORKER: jobs[WORKER][1:]}
        if task_type == WORKER:
            task_type, index = (WORKER, index - 1) if index else (CHIEF, 0)
    if len(jobs.get(CHIEF, ())) != 1:
        raise _wrong(
            f"TF_CONFIG.cluster.{leader}",
            f"got {len(jobs.get(CHIEF, ()))} addresses",
            "one address, of the task that saves checkpoints",
        )
    return jobs, task_type, index


def _equal_addresses(hosts: Sequence[str]) -> Optional[str]:
    """Which two tasks have the same address, for a message; None if all addresses differ."""
    seen: dict[str, str] = {}
    for address in hosts:
        name, _, port = address.lower().rpartition(":")
        key = f"{'localhost' if _LOOPBACK.fullmatch(name) else name}:{port}"
        before = seen.get(key)
        if before == address:
            return f"got {address} twice"
        if before is not None:
            return f"got {before} and {address}, which are the same address"
        seen[key] = address
    return None


def _from_flags(config: Cluster) -> Optional[ClusterView]:
    """The view that the flags describe: the first of --worker_hosts is the chief."""
    if config.job_name is None:
        return None
    workers = _addresses("--worker_hosts", list(config.worker_hosts))
    ps = _addresses("--ps_hosts", list(config.ps_hosts))
    hosts = [*workers, *ps]
    problem = _equal_addresses(hosts)
    if problem is not None:
        raise ConfigError(
            f"--worker_hosts, --ps_hosts: {problem}, expected a different address for each task."
        )
    job: str = config.job_name
    index = config.task_index
    count = {WORKER: len(workers), PS: len(ps)}.get(job, 1)
    if index >= count:
        flag = "--ps_hosts" if job == PS else "--worker_hosts"
        reason = (
            f"{flag} has {count} of them"
            if job in (WORKER, PS)
            else f"--job_name={job} has only task 0"
        )
        raise ConfigError(f"--task_index: expected a number below {count}, got {index}: {reason}.")
    if job == WORKER:
        job, index = (WORKER, index - 1) if index else (CHIEF, 0)
    if len(hosts) == 1:
        if job == CHIEF:
            return None
        raise ConfigError(f"--worker_hosts: got only a chief, expected {_MORE_THAN_A_CHIEF}.")
    return ClusterView(
        chief=workers[0],
        workers=workers[1:],
        ps=ps,
        evaluators=(),
        task_type=job,
        task_index=index,
    )


def _check_mapping(
    part: str, value: Any, names: tuple[str, ...], ignored: tuple[str, ...] = ()
) -> None:
    if not isinstance(value, dict):
        raise _wrong(part, f"got {value!r}", f"an object with {', '.join(names)}")
    for name in value:
        if name not in names and name not in ignored:
            raise _wrong(part, f"got the name {name!r}", f"the names {', '.join(names)}")


def _addresses(part: str, hosts: Any) -> tuple[str, ...]:
    if isinstance(hosts, dict):  # TensorFlow also takes {"0": "host:port"}.
        ordered = [hosts.get(str(i)) for i in range(len(hosts))]
        hosts = ordered if None not in ordered else hosts
    if not isinstance(hosts, list):
        raise _wrong(part, f"got {hosts!r}", 'a list of addresses, such as ["host0:2222"]')
    for i, host in enumerate(hosts):
        match = _ADDRESS.fullmatch(host) if isinstance(host, str) else None
        if match is None or int(match[2]) > 65535:
            raise _wrong(f"{part}[{i}]", f"got {host!r}", "an address such as host0:2222")
    return tuple(hosts)


def _wrong(part: str, got: str, expected: str) -> ConfigError:
    tail = f" An example is {_EXAMPLE}" if part.startswith("TF_CONFIG") else ""
    return ConfigError(f"{part}: expected {expected}, {got}.{tail}")


def strategy_of(config: Cluster, view: Optional[ClusterView]) -> Optional[str]:
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
    problems = shape_problems(config, {job: n for job, n in counts.items() if n})
    if view.task_type == "evaluator" and config.mode == "train":
        problems.append(
            "--mode=train does not evaluate, but this task is an evaluator. Do not start it, or "
            "use --mode=train_and_evaluate."
        )
    return problems + unfit(config, "a cluster")


@contextlib.contextmanager
def set_tf_config(
    view: Optional[ClusterView], environment: MutableMapping[str, str] = os.environ
) -> Iterator[None]:
    """Sets TF_CONFIG for TensorFlow to one task, or to none, while the block runs."""
    before = environment.pop(_VARIABLE, None)
    if view is not None:
        environment[_VARIABLE] = view.tf_config()
    try:
        yield
    finally:
        environment.pop(_VARIABLE, None)
        if before is not None:
            environment[_VARIABLE] = before
