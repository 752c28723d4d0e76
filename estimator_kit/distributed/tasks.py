"""`train`: runs this process's task in a training: alone, chief, worker, ps or evaluator.

Only this module chooses the task. `training.run` runs a process without a cluster, and the chief.
"""

from __future__ import annotations

from typing import Optional

from estimator_kit.config.areas.cluster import ALL_REDUCE
from estimator_kit.config.cluster import EVALUATOR, PS, ClusterView, strategy_of
from estimator_kit.config.modes import Train
from estimator_kit.distributed import all_reduce, evaluation, servers, sessions
from estimator_kit.distributed.all_reduce import AllReduceChief, AllReduceWorker, Mirrored
from estimator_kit.distributed.chief import Chief
from estimator_kit.distributed.parameter_server import ParameterServerChief, ParameterServerWorker
from estimator_kit.distributed.waiting import goal_of
from estimator_kit.distributed.worker import Worker
from estimator_kit.embeddings import growing_ids
from estimator_kit.model.model_fn import ModelFn
from estimator_kit.result import RunResult
from estimator_kit.training.hooks.stop import StopRequest
from estimator_kit.training.preparation import prepared
from estimator_kit.training.run import Training
from estimator_kit.training.trainer import Alone, Trainer
from feature_specs.spec import FeatureSpec

# The trainer of a process without a cluster, by --strategy.
_ALONE: dict[Optional[str], type[Alone]] = {None: Alone, "mirrored": Mirrored}

# Chief and worker of each strategy of a cluster.
_CLUSTERS: dict[Optional[str], tuple[type[Chief], type[Worker]]] = {
    "parameter_server": (ParameterServerChief, ParameterServerWorker),
    "sync_replicas": (ParameterServerChief, ParameterServerWorker),
    "multi_worker_mirrored": (AllReduceChief, AllReduceWorker),
}


def train(command: Train, spec: Optional[FeatureSpec] = None) -> RunResult:
    """Runs `train` or `train_and_evaluate`, as the task that TF_CONFIG names or alone.

    Args:
      command: the training.
      spec: the spec of `--spec`, if it is already read.

    Raises:
      SpecError, ConfigError: the config or the spec cannot be used. Nothing was written.
      NothingToDo, Stopped, DataError, LossError, CheckpointError, tf.errors.UnavailableError: see
        `Training.run` and `Worker.run`.
    """
    with prepared(command, spec) as run:
        return _live(command, run.spec, run.model, run.view)


def _live(
    command: Train, spec: FeatureSpec, model: ModelFn, view: Optional[ClusterView]
) -> RunResult:
    growing_ids.check_strategy(spec, command.cluster.strategy)
    if view is not None and view.task_type == PS:
        return servers.run_ps(command, spec, view)
    if view is not None and view.task_type == EVALUATOR:
        return evaluation.run_evaluator(command, spec, model, view)
    if command.cluster.strategy in ALL_REDUCE:
        all_reduce.check_model(command.cluster, model)
    elif view is not None:
        sessions.check_model(command.cluster, model, view)
    if view is None or view.is_chief:
        return Training(command, spec, model, trainer_of(command, spec, view)).run()
    _, worker = _CLUSTERS[strategy_of(command.cluster, view)]
    return worker(command, spec, model, view).run()


def trainer_of(command: Train, spec: FeatureSpec, view: Optional[ClusterView]) -> Trainer:
    """The trainer of the chief, or of a process without a cluster."""
    request = StopRequest()
    if view is None:
        return _ALONE[command.cluster.strategy](command, request)
    chief, _ = _CLUSTERS[strategy_of(command.cluster, view)]
    return chief(command, view, request, goal_of(command.settings, spec))
