"""The `tf.estimator.Estimator` of an experiment, and its RunConfig."""

from __future__ import annotations

from typing import Any, Optional

import tensorflow as tf
from tensorflow.core.protobuf.rewriter_config_pb2 import RewriterConfig

from estimator_kit.compat.tf_estimator import estimator
from estimator_kit.config import cluster
from estimator_kit.config.cluster import ClusterView
from estimator_kit.config.mode_configs import ModelDirConfig
from estimator_kit.config.modes import TRAINING_MODES
from estimator_kit.model.model_fn import ModelFn
from estimator_kit.training import eval_loss

_DEFAULT_CHECKPOINT_SECS = 600


def session_config(config: ModelDirConfig) -> Any:
    """The session settings for threads, memory and devices from the flags."""
    session = tf.compat.v1.ConfigProto(
        allow_soft_placement=True,
        intra_op_parallelism_threads=config.intra_op_threads,
        inter_op_parallelism_threads=config.inter_op_threads,
    )
    # TensorFlow would optimize a graph twice. The second time finds next to nothing, and takes a
    # tenth of a short run with 400 columns.
    session.graph_options.rewrite_options.meta_optimizer_iterations = RewriterConfig.ONE
    session.gpu_options.allow_growth = config.memory_growth
    if config.mode in TRAINING_MODES and config.mirrored_devices:
        session.device_count["CPU"] = config.mirrored_devices
    return session


def make_run_config(config: ModelDirConfig, view: Optional[ClusterView] = None, **more: Any) -> Any:
    """The RunConfig with checkpoints, seed and threads from the flags, without the step log.

    Args:
      config: the experiment.
      view: the cluster task of this process. With None the process trains, evaluates or exports
        alone, and TF_CONFIG is ignored.
      more: more arguments of the RunConfig. They replace the arguments from the flags.
    """
    arguments = {
        "model_dir": config.model_dir,
        "tf_random_seed": config.seed,
        "session_config": session_config(config),
        # `hooks.progress` shows the progress; TensorFlow's step log would repeat it.
        "log_step_count_steps": None,
        **(_saving(config) if config.mode in TRAINING_MODES else {}),
        **more,
    }
    with cluster.set_tf_config(view):
        return estimator.RunConfig(**arguments)


def _saving(config: ModelDirConfig) -> dict[str, Any]:
    """When to save checkpoints and summaries, and how many checkpoints to keep."""
    seconds = config.save_checkpoints_secs
    if config.save_checkpoints_steps is None and seconds is None:
        seconds = _DEFAULT_CHECKPOINT_SECS
    return {
        "save_checkpoints_steps": config.save_checkpoints_steps,
        "save_checkpoints_secs": seconds,
        "keep_checkpoint_max": config.keep_checkpoint_max,
        "save_summary_steps": config.summary_steps,
    }


def make_estimator(
    config: ModelDirConfig, model: ModelFn, view: Optional[ClusterView] = None, **more: Any
) -> Any:
    """The Estimator of a model in its model directory; see `make_run_config` for the arguments."""
    made = estimator.Estimator(
        model,
        config=make_run_config(config, view, **more),
        params={},  # The model has its own parameters, and None would cause a warning.
    )
    return eval_loss.over_rows(made)
