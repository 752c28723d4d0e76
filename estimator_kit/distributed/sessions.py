"""What chief and workers with a ps share: they train in one session after another until the end.

This is TensorFlow's classic between-graph replication. Each process has its own graph and session,
the variables are on the ps, and only the chief initializes and saves them. When a ps or the chief
is lost, TensorFlow would make a new session, but that session would read the input from the row
where the process started. So here a lost session ends the attempt, and the next attempt starts at
the position of the last checkpoint. A worker notices a lost ps itself. The mark `ready` tells it
that the chief has restored the variables from the last checkpoint.

Every trainer builds the same graph and places its variables in the order in which they are made. So
all trainers place them the same way: a variable goes to the server with the fewest bytes so far,
and TensorFlow places the slots of an optimizer on the server of their variable.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any, Optional

import tensorflow as tf

from estimator_kit.config.areas.cluster import Cluster
from estimator_kit.config.cluster import ClusterView
from estimator_kit.config.modes import Train
from estimator_kit.distributed.waiting import wait_for
from estimator_kit.embeddings import growing_ids, table_memory
from estimator_kit.errors import ConfigError, SessionLost
from estimator_kit.model.model_fn import ModelFn
from estimator_kit.optimizers.sync_replicas import Synchronous
from estimator_kit.training.run_config import make_estimator, session_config
from estimator_kit.training.team import Team
from feature_specs.heads import NextItem
from feature_specs.heads.next_item import SampledSoftmax


class LeastLoaded:
    """A greedy `ps_strategy` by size, for `tf.compat.v1.train.replica_device_setter`.

    For example, with two servers and variables of 4, 3 and 2 MiB, the first server gets the
    variable of 4 MiB and the second server gets the other two.

    Args:
      servers: the number of servers.
    """

    def __init__(self, servers: int):
        self.bytes = [0] * servers

    def __call__(self, op: Any) -> int:
        server = self.bytes.index(min(self.bytes))
        self.bytes[server] += size_of(op)
        return server


def size_of(op: Any) -> int:
    """The size in bytes of the variable that an op makes. An axis of unknown length counts as 1.

    The size of a hash table is 1, because it has no shape until it is filled.
    """
    if "shape" not in op.node_def.attr:
        return 1
    dims = [dim.size if dim.size > 0 else 1 for dim in op.get_attr("shape").dim]
    count = 1
    for dim in dims:
        count *= dim
    return max(1, count * (tf.as_dtype(op.get_attr("dtype")).size or 1))


def device_fn(view: ClusterView) -> Callable[[Any], Any]:
    """Places the variables of a training graph on the ps, and all other ops in this process.

    Make a new function for each graph, because it counts the bytes that it has placed.
    """
    setter = tf.compat.v1.train.replica_device_setter(
        ps_tasks=len(view.ps),
        worker_device=f"/job:{view.task_type}/task:{view.task_index}",
        ps_strategy=LeastLoaded(len(view.ps)),
    )

    def place(op: Any) -> Any:
        return setter(op)

    return place


def device_filters(view: ClusterView) -> list[str]:
    """The tasks that a session talks to: the ps and its own task. Other tasks may come and go."""
    return ["/job:ps", f"/job:{view.task_type}/task:{view.task_index}"]


_log = logging.getLogger("estimator_kit")

# How often, in seconds, a worker checks whether the chief has initialized the variables.
_LOOK = 1

# How often in a row a session may be lost without a step before that is an error.
_TRIES = 30


class ClusterSession(tf.compat.v1.train.SessionRunHook):
    """Raises SessionLost instead of making a second session. Ends an outdated session.

    Args:
      ready: returns the id of the chief's session, or None if it cannot be read now. Only for
        workers.

    Attributes:
      steps: how many steps were made.
      of: the id of the chief's session in which this session trains.
      taken_back: whether the chief has made a new session since then.
    """

    def __init__(self, ready: Optional[Callable[[], Optional[str]]] = None) -> None:
        self.steps = 0
        self.of: Optional[str] = None
        self.taken_back = False
        self._ready = ready
        self._has_session = False
        self._closed = threading.Event()

    def after_create_session(self, session: Any, coord: Any) -> None:
        if self._has_session:
            raise SessionLost("a server of the cluster was started again")
        self._has_session = True
        if self._ready is not None:
            self.of = self._ready()
            threading.Thread(target=self._look, args=(session, self._ready), daemon=True).start()

    def _look(self, session: Any, ready: Callable[[], Optional[str]]) -> None:
        while not self._closed.wait(_LOOK):
            current = ready()
            self.of = current if self.of is None else self.of
            if current is not None and current != self.of:
                self.taken_back = True
                session.close()  # A step that waits for other tasks would not end by itself.
                break

    def close(self) -> None:
        """Stops watching the chief's session."""
        self._closed.set()

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self.steps += 1


def cluster_estimator(command: Train, model: ModelFn, view: ClusterView) -> Any:
    """The Estimator for one attempt of a task. Its `device_fn` allows only one graph."""
    model.together = _together(command.cluster, view)
    session = session_config(command.program, command.cluster)
    session.device_filters.extend(device_filters(view))
    return make_estimator(
        command,
        model,
        view,
        device_fn=device_fn(view),
        session_config=session,
        session_creation_timeout_secs=max(1, int(command.cluster.cluster_timeout_secs)),
    )


def _together(cluster: Cluster, view: ClusterView) -> Optional[Synchronous]:
    team = Team.of(cluster, view)
    if not team.ends_together:
        return None
    return Synchronous(team.size, team.batches_a_step, view.is_chief)


def check_model(cluster: Cluster, model: ModelFn, view: ClusterView) -> None:
    """Raises ConfigError for a model that cannot train in a cluster."""
    wrong = ["accumulate"] if model.params.accumulate > 1 else []
    if Team.of(cluster, view).ends_together:
        for name, entry in model.spec.objectives.items():
            loss = entry.loss if isinstance(entry, NextItem) else None
            if isinstance(loss, SampledSoftmax) and loss.sampled_softmax.negatives == "mixed":
                raise ConfigError(
                    f"objectives.{name}: negatives: mixed does not work with "
                    "--strategy=sync_replicas: the frequencies of items count steps, but several "
                    "tasks each have a batch in a step. Use in_batch, or another --strategy."
                )
        wrong += ["moving_average"] if model.params.moving_average is not None else []
        if type(model).train_op is not ModelFn.train_op:
            raise ConfigError(
                f"{type(model).__name__} overrides train_op, so it would not step together with "
                "the other tasks of --strategy=sync_replicas. Use another --strategy, or remove "
                "the method."
            )
    if cluster.partition_mib is not None and model.params.moving_average is not None:
        raise ConfigError(
            "the model parameter moving_average does not work with --partition_mib: the averages "
            "of pieces would not be saved as whole tables. Remove one of them."
        )
    if wrong:
        raise ConfigError(
            f"the model parameter {wrong[0]} does not work in a cluster, where steps of other "
            "tasks come in between. Remove it, or train in one process."
        )


def keep_training(
    cluster: Cluster,
    view: ClusterView,
    attempt: Callable[[ClusterSession], None],
    over: Callable[[], bool],
    ready: Optional[Callable[[], Optional[str]]] = None,
) -> Optional[ClusterSession]:
    """Trains until an attempt succeeds, with a new attempt whenever a server is lost.

    Args:
      cluster: its `cluster_timeout_secs` limits the wait for lost servers.
      view: the task that trains.
      attempt: trains from the last checkpoint on, with the given hook among its hooks.
      over: whether the training is over, so no further attempt is needed.
      ready: see `ClusterSession`.

    Returns:
      The session of the attempt that succeeded; None if the training is over.
    """
    fruitless = 0
    ps = [task for task in view.tasks() if task[0].startswith("ps:")]
    while not over() and wait_for(
        ps, this=view.name, seconds=cluster.cluster_timeout_secs, over=over
    ):
        session = ClusterSession(ready)
        try:
            with (
                _quick_sessions(),
                table_memory.split_above(cluster.partition_mib),
                growing_ids.of_task(writes=view.is_chief),
            ):
                attempt(session)
            return session
        except Exception as error:
            if not (is_lost(error) or session.taken_back):
                raise
            if over():
                return None
            fruitless = 0 if session.steps else fruitless + 1
            if fruitless >= _TRIES:
                raise
            reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
            if session.taken_back:
                reason = "chief:0 has gone back to the last checkpoint"
            _log.warning("%s: the session was lost (%s); starting a new one", view.name, reason)
            threading.Event().wait(_LOOK)
        finally:
            session.close()
    return None


def is_lost(error: BaseException) -> bool:
    """Whether an error of a session means that a server is lost or was started again."""
    if isinstance(error, (SessionLost, tf.errors.AbortedError, tf.errors.UnavailableError)):
        return True
    # From a server that was started again, before the chief has initialized its variables.
    text = str(error)
    if isinstance(error, tf.errors.FailedPreconditionError):
        return "uninitialized" in text or "Could not find variable" in text
    return isinstance(error, tf.errors.NotFoundError) and "Resource" in text


@contextlib.contextmanager
def _quick_sessions() -> Iterator[None]:
    """Makes a worker check every second, not every 30, whether the variables have values.

    tf.estimator makes the SessionManager itself and has no argument for this interval.
    """
    manager = tf.compat.v1.train.SessionManager
    original = manager.__init__

    @functools.wraps(original)
    def quicker(self: Any, *arguments: Any, **named: Any) -> None:
        original(self, *arguments, **{"recovery_wait_secs": _LOOK, **named})

    manager.__init__ = quicker
    try:
        yield
    finally:
        manager.__init__ = original
