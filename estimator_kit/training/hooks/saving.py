"""Saves checkpoints at multiples of --save_checkpoints_steps, whatever step a start begins at.

TensorFlow counts from the last checkpoint. A run that was stopped at step 26 would from there on be
saved, and so evaluated, at 51, 76 and so on, where an undisturbed one is at 50 and 75: the best
export and early stopping would judge other steps.
"""

from __future__ import annotations

from typing import Any, Optional

import tensorflow as tf


class AtMultiples(tf.compat.v1.train.SecondOrStepTimer):
    """Triggers when a multiple of `every_steps` is reached; as its base class with `every_secs`."""

    def should_trigger_for_step(self, step: int) -> bool:
        last, every = self.last_triggered_step(), self._every_steps
        if last is None or not every:
            return bool(super().should_trigger_for_step(step))
        return bool(step // every > last // every)


class SaverHook(tf.compat.v1.train.CheckpointSaverHook):
    """`CheckpointSaverHook` with that timer; Estimator makes none of its own beside it.

    Args:
      run_config: the RunConfig, which says where and how often.
    """

    def __init__(self, run_config: Any, listeners: Optional[list[Any]] = None):
        seconds, steps = run_config.save_checkpoints_secs, run_config.save_checkpoints_steps
        super().__init__(
            run_config.model_dir, save_secs=seconds, save_steps=steps, listeners=listeners
        )
        self._timer = AtMultiples(every_secs=seconds, every_steps=steps)
