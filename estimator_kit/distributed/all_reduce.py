"""Training on several devices that each have all variables: mirrored, multi_worker_mirrored.

TensorFlow's strategies average the gradients of the devices. Each device takes a batch of
--batch_size rows. The gradients of CPU devices are summed on one of them, because TensorFlow's
default hangs on CPUs.

With multi_worker_mirrored, TensorFlow's distribute coordinator runs each task. The kit starts the
server itself, to restrict it to its address. It makes the strategy in a graph, because an eager
strategy cannot be copied. Every step needs all tasks. When one task is lost, the remaining tasks
cannot go on, and they cannot let it join again, because TensorFlow's collectives remember the lost
task. So they end with the exit status of a temporary error. Then all tasks are started again, from
the last checkpoint.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent import futures
from typing import Any, Optional

import tensorflow as tf

from estimator_kit import exit_codes
from estimator_kit.config import cluster
from estimator_kit.config.areas.cluster import Cluster
from estimator_kit.config.areas.program import Program
from estimator_kit.config.cluster import ClusterView
from estimator_kit.config.modes import Train
from estimator_kit.distributed import servers
from estimator_kit.distributed.chief import Chief
from estimator_kit.distributed.lost_tasks import leave
from estimator_kit.distributed.sessions import ClusterSession
from estimator_kit.distributed.waiting import Mark, reachable, wait_for
from estimator_kit.distributed.worker import Worker
from estimator_kit.errors import ConfigError
from estimator_kit.model.model_fn import ModelFn
from estimator_kit.optimizers.combining import Uncertainty, Weights
from estimator_kit.tf_estimator import estimator
from estimator_kit.training.hooks.stop import SaverHook, StopRequest
from estimator_kit.training.run_config import make_estimator, make_run_config, session_config
from estimator_kit.training.source import TrainingInput
from estimator_kit.training.team import Team
from estimator_kit.training.trainer import Alone, Steps
from feature_specs.spec import FeatureSpec
from input_pipelines.eager import as_written

_log = logging.getLogger("estimator_kit")

# Optimizers that also change rows outside the batch if the gradient is dense. (FTRL sets rows to
# zero that have another initial value.)
_ROW_BY_ROW = {"adadelta", "adamw", "ftrl", "lazy_adam", "momentum", "rmsprop"}


def devices(cluster: Cluster) -> list[str]:
    """The devices of this machine that train: its GPUs, or else CPUs (one by default).

    Raises:
      ConfigError: this machine has fewer GPUs than --mirrored_devices.
    """
    gpus = len(tf.config.list_physical_devices("GPU"))
    count = cluster.mirrored_devices or max(1, gpus)
    if 0 < gpus < count:
        raise ConfigError(
            f"--mirrored_devices: expected at most {gpus}, the GPUs of this machine, got {count}"
        )
    return [f"/{'gpu' if gpus else 'cpu'}:{i}" for i in range(count)]


class Mirrored(Alone):
    """One process that trains on several devices.

    Raises:
      ConfigError: this machine has fewer GPUs than --mirrored_devices.
    """

    def __init__(self, command: Train, request: StopRequest):
        self._devices = devices(command.cluster)
        team = Team(batches_a_step=len(self._devices), ends_together=True)
        super().__init__(command, request, team=team)

    def estimator(self, model: ModelFn) -> Any:
        on_cpu = self._devices[0].startswith("/cpu")
        reduction = tf.distribute.ReductionToOneDevice() if on_cpu else None
        with tf.Graph().as_default():  # In eager mode the strategy would use the devices at once.
            strategy = tf.distribute.MirroredStrategy(self._devices, cross_device_ops=reduction)
        return make_estimator(self._command, model, train_distribute=strategy)


def check_model(cluster: Cluster, model: ModelFn) -> None:
    """Raises ConfigError for parameters that would give another result on several devices."""
    p = model.params
    wrong = {
        "accumulate": p.accumulate > 1,
        "moving_average": p.moving_average is not None,
        "clip_norm": p.clip_norm is not None,
        "clip_value": p.clip_value is not None,
    }
    for name, is_set in wrong.items():
        if is_set:
            raise ConfigError(
                f"the model parameter {name} does not work with --strategy={cluster.strategy}: it "
                "would apply to the gradients of each device separately. Remove it."
            )
    if not isinstance(model.combination, (Weights, Uncertainty)):
        raise ConfigError(
            f"the model parameter combine={p.combine} does not work with "
            f"--strategy={cluster.strategy}: each device would compare the gradients of its "
            "batch, and learn other weights. Use uncertainty, or remove it."
        )
    for name, entry in model.spec.objectives.items():
        if entry.reduction == "sum":
            raise ConfigError(
                f"objectives.{name}: reduction: sum does not work with "
                f"--strategy={cluster.strategy}: TensorFlow would divide this loss by the number "
                "of devices. Use another reduction, or train in one process."
            )
    named = {_name(choice) for choice in (p.optimizers or {}).values()}
    if p.optimizer != "lazy_adam" or "optimizer" in p.model_fields_set:
        named.add(_name(p.optimizer))
    elif cluster.strategy == "multi_worker_mirrored":
        _log.info(
            "--strategy=multi_worker_mirrored: the default optimizer lazy_adam makes the steps of "
            "adam, because the gradients of tables are dense there"
        )
    # With FTRL, rows without gradients stay at 0. It is the default of a linear part.
    named |= {_name(getattr(p, "linear_optimizer", "ftrl"))} - {"ftrl"}
    other = sorted(named & _ROW_BY_ROW) if cluster.strategy == "multi_worker_mirrored" else []
    if other:
        raise ConfigError(
            f"the optimizer {other[0]} does not work with --strategy=multi_worker_mirrored: the "
            "gradients of tables are dense there, so it would change rows that are in no batch. "
            "Use one of: adagrad, adam, sgd."
        )


def _name(choice: Any) -> str:
    return choice if isinstance(choice, str) else next(iter(choice))


# Seconds between two looks at the other tasks. A task is lost if it was unreachable for _LOST.
_LOOK, _LOST = 2.0, 12.0


class AllReduceChief(Chief):
    """The chief. It computes the number of steps, and saves checkpoints."""

    _strategy: Any  # Set by start_server.

    def devices_of(self, cluster: Cluster) -> int:
        return len(devices(cluster))

    def start_server(self) -> None:
        if not reachable(self._view.chief):  # Otherwise this is a second chief, by mistake.
            self._marks.remove("ready")
        self._strategy = start_server(self._command.program, self._command.cluster, self._view)

    def make_steps(self, steps: Steps) -> None:
        self._marks.write("ready", max_steps=steps.max_steps)
        saver = SaverHook(make_run_config(self._command), list(steps.saving_listeners))
        train(
            self._command,
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

    def __init__(self, command: Train, spec: FeatureSpec, model: ModelFn, view: ClusterView):
        super().__init__(command, spec, model, view, devices=len(devices(command.cluster)))

    def start_server(self) -> None:
        self._strategy = start_server(self._command.program, self._command.cluster, self._view)

    def check_restarted_chief(self) -> None:
        raise tf.errors.UnavailableError(
            None, None, f"{self._view.name}: chief:0 was started again. Start all tasks again."
        )

    def make_steps(self, source: TrainingInput, ready: Mark, hooks: list[Any]) -> Optional[str]:
        assert ready.max_steps is not None  # All tasks end at the step that the chief has computed.
        train(
            self._command,
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


def start_server(program: Program, cluster_settings: Cluster, view: ClusterView) -> Any:
    """Starts the server of this task, and returns its strategy."""
    on_cpu = devices(cluster_settings)[0].startswith("/cpu")
    communication = tf.distribute.experimental.CommunicationImplementation
    with tf.Graph().as_default(), cluster.set_tf_config(view):
        strategy = tf.distribute.MultiWorkerMirroredStrategy(
            communication_options=tf.distribute.experimental.CommunicationOptions(
                implementation=communication.RING if on_cpu else communication.AUTO
            )
        )
    # So that the coordinator does not start a server.
    strategy.extended._std_server_started = True
    servers.start(
        program,
        cluster_settings,
        view,
        strategy.update_config_proto(session_config(program, cluster_settings)),
    )
    return strategy


@as_written
def train(
    command: Train,
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
    if not wait_for(
        others, this=view.name, seconds=command.cluster.cluster_timeout_secs, over=over
    ):
        return
    with (
        tf.Graph().as_default(),
        cluster.set_tf_config(view),
        _noticing_losses(view, others, ended),
    ):
        trained = estimator.Estimator(
            model, config=make_run_config(command, view, train_distribute=strategy), params={}
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
        averages = [
            v.name.partition(":")[0]
            for v in tf.compat.v1.global_variables()
            if getattr(v, "synchronization", None) == on_read
        ]
        if averages:
            raise ConfigError(
                f"the variable {averages[0]} is an average of the batches of each task, as of "
                "batch normalization, which cannot be saved with "
                "--strategy=multi_worker_mirrored. Use "
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
            answered = looks.map(reachable, [address for _, address in others])
            seen.update(
                {
                    name: time.monotonic()
                    for (name, _), is_reachable in zip(others, answered)
                    if is_reachable
                }
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
