"""The `tf.estimator.Estimator` of an experiment, and its RunConfig."""

from __future__ import annotations

from typing import Any, Optional

import tensorflow as tf

from estimator_kit.compat.tf_estimator import estimator
from estimator_kit.config import cluster
from estimator_kit.config.cluster import ClusterView
from estimator_kit.config.mode_configs import ModelDirConfig
from estimator_kit.config.modes import TRAINING_MODES
from estimator_kit.model.model_fn import ModelFn

_DEFAULT_CHECKPOINT_SECS = 600


def session_config(config: ModelDirConfig) -> Any:
    """Threads and memory as the flags say."""
    session = tf.compat.v1.ConfigProto(
        allow_soft_placement=True,
        intra_op_parallelism_threads=config.intra_op_threads,
        inter_op_parallelism_threads=config.inter_op_threads,
    )
    session.gpu_options.allow_growth = config.memory_growth
    if config.mirrored_devices:
        session.device_count["CPU"] = config.mirrored_devices
    return session


def make_run_config(config: ModelDirConfig, view: Optional[ClusterView] = None, **more: Any) -> Any:
    """Checkpoints, seed and threads as the flags say; TensorFlow's own step log is off.

    Args:
      config: the experiment.
      view: the task of a cluster that trains; None for a process that trains, evaluates or exports
        by itself, whatever TF_CONFIG says.
      more: further arguments of the RunConfig, or others in the place of these.
    """
    arguments = {
        "model_dir": config.model_dir,
        "tf_random_seed": config.seed,
        "session_config": session_config(config),
        # Progress is `hooks.progress`; TensorFlow's line would repeat it.
        "log_step_count_steps": None,
        **(_saving(config) if config.mode in TRAINING_MODES else {}),
        **more,
    }
    with cluster.visible(view):
        return estimator.RunConfig(**arguments)


def _saving(config: ModelDirConfig) -> dict[str, Any]:
    """When checkpoints are saved, and how many are kept."""
    seconds = config.save_checkpoints_secs
    if config.save_checkpoints_steps is None and seconds is None:
        seconds = _DEFAULT_CHECKPOINT_SECS
    return {
        "save_checkpoints_steps": config.save_checkpoints_steps,
        "save_checkpoints_secs": seconds,
        "keep_checkpoint_max": config.keep_checkpoint_max,
    }


def make_estimator(
    config: ModelDirConfig, model: ModelFn, view: Optional[ClusterView] = None, **more: Any
) -> Any:
    """The Estimator of a model in its model directory; arguments are those of `make_run_config`."""
    return estimator.Estimator(
        model,
        config=make_run_config(config, view, **more),
        params={},  # None would warn; the model has its own.
    )
