"""Replaces `tensorflow.python.distribute.estimator_training`, removed in TensorFlow 2.16.

tensorflow-estimator calls five of its functions if a RunConfig has a distribution strategy. They
pass the work to TensorFlow's distribute coordinator, which is the same file from 2.15 to 2.21:

- Without a cluster, with a `master` task, or without a strategy for training, the coordinator is
  not used. The RunConfig is filled from TF_CONFIG as for any Estimator ("classic").
- With a cluster in TF_CONFIG, every task runs itself (INDEPENDENT_WORKER).
- With `experimental_distribute.remote_cluster`, one client drives all tasks (STANDALONE_CLIENT).

In each task the coordinator calls back with the strategy of that task. A copy of the Estimator gets
that strategy and its place in the cluster, and trains or evaluates.

This module never starts servers, and never reads the environment itself.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, Optional

import tensorflow as tf
from tensorflow.python.distribute import (
    distribute_coordinator,
    distribute_coordinator_context,
    multi_worker_util,
)

_Mode = distribute_coordinator.CoordinatorMode
_CHIEF, _WORKER, _PS, _EVALUATOR = "chief", "worker", "ps", "evaluator"


def init_run_config(config: Any, tf_config: dict[str, Any]) -> None:
    """Fills the distributed part of a RunConfig that has a distribution strategy.

    Args:
      config: a `tf.estimator.RunConfig` under construction; changed in place.
      tf_config: the parsed TF_CONFIG; {} if it is not set.

    Raises:
      ValueError: a strategy or a cluster is given twice.
    """
    experimental = config._experimental_distribute
    for field in ("train_distribute", "eval_distribute"):
        strategy = getattr(experimental, field, None)
        if not strategy:
            continue
        if getattr(config, f"_{field}"):
            raise ValueError(
                f"{field}: expected it once, got it both in RunConfig and in its "
                "experimental_distribute. Remove one of them."
            )
        setattr(config, f"_{field}", strategy)

    cluster = tf.train.ClusterSpec(tf_config.get("cluster", {}))
    remote_cluster = getattr(experimental, "remote_cluster", None)
    config._init_distributed_setting_from_environment_var({})

    if config._train_distribute and remote_cluster:
        if cluster:
            raise ValueError(
                "cluster: expected it once, got it both in TF_CONFIG and as "
                "experimental_distribute.remote_cluster. Remove one of them."
            )
        mode, config._cluster_spec = _Mode.STANDALONE_CLIENT, remote_cluster
    elif config._train_distribute and cluster and "master" not in cluster.jobs:
        # The coordinator sets the task later, in `_take_place`.
        mode, config._cluster_spec = _Mode.INDEPENDENT_WORKER, cluster
    else:
        mode = None
        config._init_distributed_setting_from_environment_var(tf_config)
        config._maybe_overwrite_session_config_for_distributed_training()
    config._distribute_coordinator_mode = mode
    tf.compat.v1.logging.info("RunConfig: distribute coordinator mode %s.", mode or "none")


def should_run_distribute_coordinator(config: Any) -> bool:
    """Whether `tf.estimator.train_and_evaluate` goes through the coordinator."""
    mode = getattr(config, "_distribute_coordinator_mode", None)
    if mode is None:
        return False
    if mode not in (_Mode.STANDALONE_CLIENT, _Mode.INDEPENDENT_WORKER):
        tf.compat.v1.logging.warning("RunConfig: unknown distribute coordinator mode %r.", mode)
        return False
    if not config.cluster_spec:
        tf.compat.v1.logging.warning("RunConfig: no cluster, so %s mode is ignored.", mode)
        return False
    return True


def train_and_evaluate(
    estimator: Any, train_spec: Any, eval_spec: Any, executor_cls: Callable[..., Any]
) -> None:
    """Trains in the workers of the cluster, and evaluates in its evaluator.

    Args:
      estimator: never changed; each task works on a copy.
      train_spec: a `tf.estimator.TrainSpec`.
      eval_spec: a `tf.estimator.EvalSpec`.
      executor_cls: tensorflow-estimator's executor, which runs the evaluator's loop.
    """
    config = estimator.config
    mode = config._distribute_coordinator_mode
    if not mode:
        raise ValueError("RunConfig: expected a distribute coordinator mode, got none")

    def train(strategy: Any) -> None:
        task, context = _copy_for_task(estimator, "train", strategy)
        # One client for all tasks has one screen, and a hook's tensors belong to one graph.
        with_hooks = mode == _Mode.INDEPENDENT_WORKER or context.is_chief
        task.train(
            input_fn=train_spec.input_fn,
            max_steps=train_spec.max_steps,
            hooks=list(train_spec.hooks) if with_hooks else [],
        )

    def evaluate(strategy: Any) -> None:
        task, _ = _copy_for_task(estimator, "eval", strategy)
        executor_cls(task, train_spec, eval_spec)._start_continuous_evaluation()

    distribute_coordinator.run_distribute_coordinator(
        train,
        config.train_distribute,
        evaluate,
        config.eval_distribute,
        mode=mode,
        # An independent worker takes the cluster from TF_CONFIG.
        cluster_spec=config.cluster_spec if mode == _Mode.STANDALONE_CLIENT else None,
        session_config=config.session_config,
    )


def estimator_train(
    estimator: Any, train_distributed_fn: Callable[..., Any], hooks: Sequence[Any]
) -> Any:
    """Runs `Estimator.train` in each worker of a remote cluster."""
    return _run_from_client(estimator, "train", train_distributed_fn, hooks)


def estimator_evaluate(
    estimator: Any, evaluate_distributed_fn: Callable[..., Any], hooks: Sequence[Any]
) -> Any:
    """Runs `Estimator.evaluate` in each worker of a remote cluster; returns the metrics."""
    return _run_from_client(estimator, "eval", evaluate_distributed_fn, hooks)


def _run_from_client(
    estimator: Any, kind: str, run: Callable[..., Any], hooks: Sequence[Any]
) -> Any:
    config = estimator._config
    strategy = getattr(config, f"_{kind}_distribute")
    cluster = multi_worker_util.normalize_cluster_spec(config.cluster_spec)
    method = {"train": "Estimator.train", "eval": "Estimator.evaluate"}[kind]
    if _EVALUATOR in cluster.jobs:
        raise ValueError(
            f"{method}: the cluster has an evaluator. Use tf.estimator.train_and_evaluate."
        )
    if config._distribute_coordinator_mode != _Mode.STANDALONE_CLIENT:
        raise ValueError(
            f"{method}: TF_CONFIG has a cluster, and RunConfig has a distribution strategy. Use "
            "tf.estimator.train_and_evaluate."
        )
    if strategy.extended.experimental_between_graph:
        raise ValueError(
            f"{method}: one client cannot drive {type(strategy).__name__}. Use "
            "tf.estimator.train_and_evaluate in every task."
        )

    def run_task(task_strategy: Any) -> Any:
        task, context = _copy_for_task(estimator, kind, task_strategy)
        result = run(task, task_strategy, list(hooks or ()) if context.is_chief else [])
        return task if kind == "train" else result

    return distribute_coordinator.run_distribute_coordinator(
        run_task,
        strategy,
        mode=_Mode.STANDALONE_CLIENT,
        cluster_spec=cluster,
        session_config=config.session_config,
    )


def _copy_for_task(estimator: Any, kind: str, strategy: Any) -> tuple[Any, Any]:
    """A copy of the Estimator for the coordinator's current task, and the task's context.

    Args:
      estimator: the Estimator.
      kind: "train" or "eval", the use of `strategy`.
      strategy: the strategy of the task.
    """
    context = distribute_coordinator_context.get_current_worker_context()
    task = copy.deepcopy(estimator)
    setattr(task, f"_{kind}_distribution", strategy)
    setattr(task._config, f"_{kind}_distribute", strategy)
    _take_place(task._config, context)
    # The copy's train() and evaluate() must not call the coordinator again.
    task._config._distribute_coordinator_mode = None
    tf.compat.v1.logging.info("Running as %s %s.", context.task_type, context.task_id)
    return task, context


def _take_place(config: Any, context: Any) -> None:
    """Sets the fields of a RunConfig that say which task of which cluster it is in."""
    cluster = context.cluster_spec
    config._service = None
    config._cluster_spec = cluster
    config._task_type = context.task_type
    config._task_id = context.task_id
    config._master = config._evaluation_master = context.master_target
    config._is_chief = context.is_chief
    if not cluster:
        config._global_id_in_cluster = 0
        config._num_ps_replicas, config._num_worker_replicas = 0, 1
    elif context.task_type == _EVALUATOR:
        # The evaluator does not belong to the training cluster.
        config._cluster_spec = tf.train.ClusterSpec({})
        config._global_id_in_cluster = None
        config._num_ps_replicas, config._num_worker_replicas = 0, 0
    else:
        tasks = {job: len(cluster.job_tasks(job)) for job in cluster.jobs}
        config._num_ps_replicas = tasks.get(_PS, 0)
        config._num_worker_replicas = tasks.get(_WORKER, 0) + tasks.get(_CHIEF, 0)
        config._global_id_in_cluster = _global_id(tasks, context.task_type, context.task_id)


def _global_id(tasks: dict[str, int], task_type: Optional[str], task_id: int) -> int:
    """The task's number in the cluster: first the chief, then the other jobs by name, then the ps.

    For example, with {"ps": 1, "chief": 1, "worker": 2} the second worker has the number 2, and the
    ps has the number 3.
    """
    if not task_type:
        return 0
    order = sorted(tasks, key=lambda job: (job == _PS, job != _CHIEF, job))
    return sum(tasks[job] for job in order[: order.index(task_type)]) + task_id
