"""TensorFlow's gRPC server of a task, and a parameter server from start to end.

A `tf.distribute.Server` cannot be stopped; it ends with its process. So a ps does not call `join`.
It waits until training is over and the trainers have left, and then ends.

The traffic is neither authenticated nor encrypted; `listening` restricts who can connect.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

import tensorflow as tf

from estimator_kit.config.cluster import ClusterView
from estimator_kit.config.mode_configs import ModelDirConfig
from estimator_kit.distributed import listening
from estimator_kit.distributed.lost_tasks import Watch
from estimator_kit.distributed.marks import Marks, goal_of
from estimator_kit.distributed.waiting import reachable
from estimator_kit.errors import ConfigError, Stopped
from estimator_kit.result import SIGTERM, RunResult
from estimator_kit.training.hooks.stop import StopRequest, stop_on_sigterm
from estimator_kit.training.run_config import session_config
from estimator_kit.training.team import needs_all_workers
from feature_specs.spec import FeatureSpec

_log = logging.getLogger("estimator_kit")

# Seconds that a ps waits, after the training, for trainers that have not left yet.
_LAST_GUESTS = 15.0

# Seconds that a ps waits, after SIGTERM, for trainers that may still save its variables.
_LAST_SAVES = 20.0

# Seconds that the host name of a task has to become known.
_NAME = 30.0

# Keeps the servers alive until the process ends; a garbage-collected server would stop.
STARTED: list[Any] = []


def start(config: ModelDirConfig, view: ClusterView, session: Any = None) -> Any:
    """Starts the server of this task, and restricts it to its address.

    Args:
      config: the experiment.
      view: this task in its cluster.
      session: the ConfigProto of its sessions; by default the one from the flags.

    Raises:
      ConfigError: the port is in use, or the address does not belong to this machine.
    """
    assert view.address is not None
    only: list[listening.Address] = []
    if not config.listen_on_all_interfaces:
        only = _own_addresses(view, min(_NAME, config.cluster_timeout_secs))
    session = session if session is not None else session_config(config)
    if view.task_type == "ps":
        session.device_count["GPU"] = 0  # A ps stores variables in memory and needs no GPU.
    try:
        server = tf.distribute.Server(
            tf.train.ClusterSpec(view.cluster_dict()),
            job_name=view.task_type,
            task_index=view.task_index,
            config=session,
        )
    except tf.errors.OpError as error:
        raise ConfigError(
            f"{view.name} cannot listen at its address {view.address} "
            f"({str(error).splitlines()[0]}). Check whether another process uses the port."
        ) from error
    if only:
        listening.keep_to(only, int(view.address.rpartition(":")[2]))
    STARTED.append(server)
    return server


def _own_addresses(view: ClusterView, seconds: float) -> list[listening.Address]:
    """The addresses of this task. Waits for its host name, since a pod's name may come late."""
    assert view.address is not None
    end, said = time.monotonic() + seconds, False
    while True:
        try:
            return listening.own_addresses(view.address, [host for _, host in view.tasks()])
        except ConfigError as error:
            if listening.is_number(view.address) or time.monotonic() >= end:
                raise
            if not said:
                said = True
                _log.warning("%s; trying again for %g seconds", error, seconds)
            threading.Event().wait(1)


def run_ps(config: ModelDirConfig, spec: FeatureSpec, view: ClusterView) -> RunResult:
    """Serves its variables until training is over.

    Raises:
      Stopped: the process received SIGTERM.
      tf.errors.UnavailableError: the chief was stopped, or could not be reached for
        --cluster_timeout_secs.
    """
    request = StopRequest()
    start(config, view)
    with (
        stop_on_sigterm(request),
        Watch(
            view,
            Marks(config.model_dir),
            seconds=config.cluster_timeout_secs,
            goal=goal_of(config, spec),
            workers_needed=needs_all_workers(config),
        ) as watch,
    ):
        trainers = [host for name, host in view.tasks() if not name.startswith("ps:")]
        while not watch.over() and request.reason != SIGTERM:
            threading.Event().wait(0.5)
        end = time.monotonic() + (_LAST_GUESTS if watch.over() else _LAST_SAVES)
        while time.monotonic() < end and any(reachable(host) for host in trainers):
            if watch.over() and request.reason == SIGTERM:
                break
            threading.Event().wait(0.5)
    if request.reason == SIGTERM:
        raise Stopped(f"{view.name} was stopped by SIGTERM")
    watch.check()
    return RunResult(mode=config.mode, task=view.name)
