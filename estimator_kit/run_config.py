"""The `tf.estimator.Estimator` of an experiment, and its RunConfig."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from estimator_kit.config import ExperimentConfig
from estimator_kit.model_fn import ModelFn
from estimator_kit.tf_estimator import estimator

_DEFAULT_CHECKPOINT_SECS = 600


def make_run_config(config: ExperimentConfig) -> Any:
    """Checkpoints, seed and threads as the flags say; TensorFlow's own step log is off."""
    seconds = config.save_checkpoints_secs
    if config.save_checkpoints_steps is None and seconds is None:
        seconds = _DEFAULT_CHECKPOINT_SECS
    session = tf.compat.v1.ConfigProto(
        allow_soft_placement=True,
        intra_op_parallelism_threads=config.intra_op_threads,
        inter_op_parallelism_threads=config.inter_op_threads,
    )
    session.gpu_options.allow_growth = True
    return estimator.RunConfig(
        model_dir=config.model_dir,
        tf_random_seed=config.seed,
        save_checkpoints_steps=config.save_checkpoints_steps,
        save_checkpoints_secs=seconds,
        keep_checkpoint_max=config.keep_checkpoint_max,
        session_config=session,
        # Progress is `hooks.progress`; TensorFlow's line would repeat it.
        log_step_count_steps=None,
    )


def make_estimator(config: ExperimentConfig, model: ModelFn) -> Any:
    """The Estimator of a model in its model directory."""
    return estimator.Estimator(
        model,
        config=make_run_config(config),
        params={},  # None would warn; the model has its own.
    )
