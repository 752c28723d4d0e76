"""multi_worker_mirrored: chief and workers step together, and each has all variables.

TensorFlow's distribute coordinator runs each task. The kit starts the server itself, to restrict it
to its address. It makes the strategy in a graph, because an eager strategy cannot be copied.

Every step needs all tasks. When one task is lost, the remaining tasks cannot go on, and they cannot
let it join again, because TensorFlow's collectives remember the lost task. So they end with the
exit status of a temporary error. Then all tasks are started again, from the last checkpoint.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent import futures
from typing import Any, Optional

import tensorflow as tf

from estimator_kit import exit_codes
from estimator_kit.compat.tf_estimator import estimator
from estimator_kit.config import cluster
from estimator_kit.config.cluster import ClusterView
from estimator_kit.config.mode_configs import ModelDirConfig
from estimator_kit.distributed import servers
from estimator_kit.distributed.all_reduce import devices
from estimator_kit.distributed.chief import Chief
from estimator_kit.distributed.lost_tasks import leave
from estimator_kit.distributed.marks import Mark
from estimator_kit.distributed.sessions import ClusterSession
from estimator_kit.distributed.waiting import reachable, wait_for
from estimator_kit.distributed.worker import Worker
from estimator_kit.errors import ConfigError
from estimator_kit.model.model_fn import ModelFn
from estimator_kit.training.hooks.stop import SaverHook
from estimator_kit.training.run_config import make_run_config, session_config
from estimator_kit.training.source import TrainingInput
from estimator_kit.training.trainer import Steps
from feature_specs.spec import FeatureSpec
from input_pipelines.eager import as_written

# Seconds between two looks at the other tasks. A task is lost if it was unreachable for _LOST.
_LOOK, _LOST = 2.0, 12.0


class AllReduceChief(Chief):
    """The chief. It computes the number of steps, and saves checkpoints."""

    _strategy: Any  # Set by start_server.

    def devices_of(self, config: ModelDirConfig) -> int:
        return len(devices(config))

    def start_server(self) -> None:
        if not reachable(self._view.chief):  # Otherwise this is a second chief, by mistake.
            self._marks.remove("ready")
        self._strategy = start_server(self._config, self._view)

    def make_steps(self, steps: Steps) -> None:
        self._marks.write("ready", max_steps=steps.max_steps)
        saver = SaverHook(make_run_config(self._config), list(steps.saving_listeners))
        train(
            self._config,
            self._view,
            self._strategy,
            steps.model,
            steps.make_input(),
            max_steps=steps.max_steps,
            hooks=[ClusterSession(), saver, *steps.hooks],
            over=lambda: self.request.reason is not None,
        )


class AllReduceWorker(Worker):
    """A worker that steps together with the chief."""

    _strategy: Any  # Set by start_server.

    def __init__(
        self, config: ModelDirConfig, spec: FeatureSpec, model: ModelFn, view: ClusterView
    ):
        super().__init__(config, spec, model, view, devices=len(devices(config)))

    def start_server(self) -> None:
        self._strategy = start_server(self._config, self._view)

    def check_restarted_chief(self) -> None:
        raise tf.errors.UnavailableError(
            None, None, f"{self._view.name}: chief:0 was started again. Start all tasks again."
        )

    def make_steps(self, source: TrainingInput, ready: Mark, hooks: list[Any]) -> Optional[str]:
        assert ready.max_steps is not None  # All tasks end at the step that the chief has computed.
        train(
            self._config,
            self._view,
            self._strategy,
            self._model,
            self.input_from_checkpoint(source),
            max_steps=ready.max_steps,
            hooks=[*hooks, ClusterSession()],
            over=self.is_over,
            ended=self._watch.over,
        )
        return ready.id


def start_server(config: ModelDirConfig, view: ClusterView) -> Any:
    """Starts the server of this task, and returns its strategy."""
    on_cpu = devices(config)[0].startswith("/cpu")
    communication = tf.distribute.experimental.CommunicationImplementation
    with tf.Graph().as_default(), cluster.visible(view):
        strategy = tf.distribute.MultiWorkerMirroredStrategy(
            communication_options=tf.distribute.experimental.CommunicationOptions(
                implementation=communication.RING if on_cpu else communication.AUTO
            )
        )
    # So that the coordinator does not start a server.
    strategy.extended._std_server_started = True
    servers.start(config, view, strategy.update_config_proto(session_config(config)))
    return strategy


@as_written
def train(
    config: ModelDirConfig,
    view: ClusterView,
    strategy: Any,
    model: ModelFn,
    input_fn: Any,
    *,
    max_steps: int,
    hooks: Sequence[Any],
    over: Callable[[], bool],
    ended: Callable[[], bool] = lambda: False,
) -> None:
    """Trains this task's part of all steps. Does nothing if `over` becomes true while it waits.

    Once `ended` returns True, training is over, and a task that leaves does not count as lost. If a
    step still waits for it, the `Watch` ends the process.

    Raises:
      tf.errors.UnavailableError: another task did not start in time.
    """
    others = [(name, host) for name, host in view.tasks() if name != view.name]
    if not wait_for(others, this=view.name, seconds=config.cluster_timeout_secs, over=over):
        return
    with tf.Graph().as_default(), cluster.visible(view), _noticing_losses(view, others, ended):
        trained = estimator.Estimator(
            model, config=make_run_config(config, view, train_distribute=strategy), params={}
        )
        estimator.train_and_evaluate(
            trained,
            estimator.TrainSpec(input_fn, max_steps=max_steps, hooks=[_NoAverages(), *hooks]),
            # Not used, because the evaluator does not belong to the coordinator's cluster.
            estimator.EvalSpec(input_fn),
        )


class _NoAverages(tf.compat.v1.train.SessionRunHook):
    """Refuses variables that differ on each task, such as the averages of batch normalization.

    To save them, all tasks must take part. The chief saves at other steps than TensorFlow's own
    hook of the workers, so the first save would never end.
    """

    def begin(self) -> None:
        on_read = tf.VariableSynchronization.ON_READ
        found = [
            v.name.partition(":")[0]
            for v in tf.compat.v1.global_variables()
            if getattr(v, "synchronization", None) == on_read
        ]
        if found:
            raise ConfigError(
                f"the variable {found[0]} is an average of the batches of each task, as of batch "
                "normalization, which cannot be saved with --strategy=multi_worker_mirrored. Use "
                "layer_norm, or another --strategy."
            )


@contextlib.contextmanager
def _noticing_losses(
    view: ClusterView, others: Sequence[tuple[str, str]], ended: Callable[[], bool]
) -> Iterator[None]:
    """Ends the process if another task is lost while the block runs.

    A collective that waits for the lost task cannot be interrupted.
    """
    closed = threading.Event()
    # In parallel, because each task that does not answer takes a second.
    looks = futures.ThreadPoolExecutor(min(len(others), 32))

    def look() -> None:
        seen = {name: time.monotonic() for name, _ in others}
        while not closed.wait(_LOOK):
            there = looks.map(reachable, [address for _, address in others])
            seen.update(
                {name: time.monotonic() for (name, _), is_there in zip(others, there) if is_there}
            )
            gone = [name for name, when in seen.items() if time.monotonic() - when > _LOST]
            if gone and not closed.is_set() and not ended():
                leave(
                    f"{view.name}: {', '.join(gone)} is lost, but every step needs all tasks. "
                    "Start all tasks again to go on from the last checkpoint.",
                    exit_codes.TEMPORARY,
                )

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield
    finally:
        closed.set()
        thread.join()
        looks.shutdown()
