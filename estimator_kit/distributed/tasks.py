"""Which life a process of a training leads: alone, chief, worker, ps or evaluator."""

from __future__ import annotations

from typing import Optional

from estimator_kit.config.cluster import EVALUATOR, PS, ClusterView
from estimator_kit.config.experiment_config import ExperimentConfig
from estimator_kit.config.of_modes import ModelDirConfig
from estimator_kit.distributed import all_reduce, evaluation, servers, trainer, worker
from estimator_kit.embeddings import dynamic_problems
from estimator_kit.model.model_fn import ModelFn
from estimator_kit.result import RunResult
from estimator_kit.training import run
from estimator_kit.training.preparation import prepared
from feature_specs.spec import FeatureSpec


def train(config: ModelDirConfig) -> RunResult:
    """Trains as `config` says, in the modes `train` and `train_and_evaluate`.

    Raises:
      SpecError, ConfigError: see `preparation.prepared`.
      DataError, LossError, NothingToDo, Stopped: see `training.run.run_training`.
    """
    with prepared(config) as made:
        return run_task(config, made.spec, made.model, made.view)


def run_task(
    config: ExperimentConfig, spec: FeatureSpec, model: ModelFn, view: Optional[ClusterView]
) -> RunResult:
    """Runs `train` or `train_and_evaluate` as this task of its cluster, or alone."""
    dynamic_problems.check_strategy(spec, config.strategy)
    if view is not None and view.trains:
        if config.strategy == "multi_worker_mirrored":
            all_reduce.check_model(config, model)
        else:
            trainer.check_model(config, model, view)
    if view is None or view.is_chief:
        return run.run_training(config, spec, model, view)
    if view.task_type == PS:
        return servers.run_ps(config, view)
    if view.task_type == EVALUATOR:
        return evaluation.run_evaluator(config, spec, model, view)
    return worker.run_worker(config, spec, model, view)
