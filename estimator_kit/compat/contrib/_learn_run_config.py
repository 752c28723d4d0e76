"""RunConfig of tf.contrib.learn: tf.estimator's RunConfig with the older arguments."""

from __future__ import annotations

from typing import Any, Optional

import tensorflow.compat.v1 as tf


class RunConfig(tf.estimator.RunConfig):
    """How an Estimator runs. TF_CONFIG gives the cluster."""

    def __init__(
        self,
        master: Optional[str] = None,
        num_cores: int = 0,
        log_device_placement: bool = False,
        gpu_memory_fraction: float = 1,
        tf_random_seed: Optional[int] = None,
        save_summary_steps: int = 100,
        save_checkpoints_secs: Any = 0,
        save_checkpoints_steps: Optional[int] = None,
        keep_checkpoint_max: int = 5,
        keep_checkpoint_every_n_hours: float = 10000,
        log_step_count_steps: Optional[int] = 100,
        protocol: Optional[str] = None,
        evaluation_master: str = "",
        model_dir: Optional[str] = None,
        session_config: Any = None,
        session_creation_timeout_secs: int = 7200,
    ) -> None:
        """As in TensorFlow 1.15; `master` and `evaluation_master` are ignored.

        Args:
          save_checkpoints_secs: 0 is 600 seconds, if `save_checkpoints_steps` is None.
          num_cores, log_device_placement, gpu_memory_fraction: of the `tf.ConfigProto`, unless
            `session_config` is given.
        """
        if session_config is None:
            session_config = tf.ConfigProto(
                allow_soft_placement=True,
                log_device_placement=log_device_placement,
                inter_op_parallelism_threads=num_cores,
                intra_op_parallelism_threads=num_cores,
                gpu_options=tf.GPUOptions(per_process_gpu_memory_fraction=gpu_memory_fraction),
            )
        if save_checkpoints_secs == 0:
            save_checkpoints_secs = 600 if save_checkpoints_steps is None else None
        super().__init__(
            model_dir=model_dir,
            tf_random_seed=tf_random_seed,
            save_summary_steps=save_summary_steps,
            save_checkpoints_steps=save_checkpoints_steps,
            save_checkpoints_secs=save_checkpoints_secs,
            session_config=session_config,
            keep_checkpoint_max=keep_checkpoint_max,
            keep_checkpoint_every_n_hours=keep_checkpoint_every_n_hours,
            log_step_count_steps=log_step_count_steps,
            protocol=protocol,
            session_creation_timeout_secs=session_creation_timeout_secs,
        )
