"""Shared by benchmarks of training: an Estimator, or an input without one, as a measured side."""

from __future__ import annotations

import tensorflow as tf
from side_by_side import Turns

BATCH = 1024
UNITS = (256, 128, 64)
RATE = 0.05


def run_config(*, checkpoints: bool = False) -> tf.estimator.RunConfig:
    """No log lines within the time that is measured, and checkpoints only at the start and end."""
    steps = 10**9 if checkpoints else None
    return tf.estimator.RunConfig(
        save_checkpoints_steps=steps, save_checkpoints_secs=None, log_step_count_steps=10**9
    )


def measure_input(input_fn, steps: int) -> None:
    """Rows a second of an input alone, iterated in this process."""
    iterator = iter(input_fn())
    turns = Turns(steps, BATCH)
    while not turns.over:
        next(iterator)
        turns.step()


def measure_training(estimator, input_fn, steps: int, *, batch: int = BATCH, hooks=()) -> None:
    """Rows a second of a training."""
    estimator.train(input_fn, hooks=[_Hook(Turns(steps, batch)), *hooks])


class _Hook(tf.compat.v1.train.SessionRunHook):
    def __init__(self, turns: Turns) -> None:
        self._turns = turns

    def after_run(self, run_context, run_values) -> None:
        self._turns.step()
        if self._turns.over:
            run_context.request_stop()
