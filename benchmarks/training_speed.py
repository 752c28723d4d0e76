"""Shared by benchmarks of training: rows a second of an Estimator, and of an input without one."""

from __future__ import annotations

import time

import tensorflow as tf

BATCH = 1024
UNITS = (256, 128, 64)
RATE = 0.05

# Batches that warm up pipeline, caches and allocator before the clock starts.
WARM_UP = 20


def run_config() -> tf.estimator.RunConfig:
    """Neither checkpoints nor log lines within the time that is measured."""
    return tf.estimator.RunConfig(save_checkpoints_steps=10**9, log_step_count_steps=10**9)


def read_rows_a_second(input_fn, batches: int) -> float:
    """Of an input alone, iterated in this process."""
    iterator = iter(input_fn())
    for _ in range(WARM_UP):
        next(iterator)
    start = time.perf_counter()
    for _ in range(batches):
        next(iterator)
    return batches * BATCH / (time.perf_counter() - start)


class _Clock(tf.compat.v1.train.SessionRunHook):
    """Takes the time of the steps after the first ones."""

    def __init__(self, steps: int, warm_up: int) -> None:
        self._steps, self._warm_up, self._done = steps, warm_up, 0
        self.seconds = 0.0

    def after_run(self, run_context, run_values) -> None:
        self._done += 1
        if self._done == self._warm_up:
            self._start = time.perf_counter()
        if self._done == self._warm_up + self._steps:
            self.seconds = time.perf_counter() - self._start


def trained_rows_a_second(
    estimator, input_fn, steps: int, *, warm_up: int = WARM_UP, hooks=()
) -> float:
    """Of training for some steps, after `warm_up` others."""
    clock = _Clock(steps, warm_up)
    estimator.train(input_fn, steps=warm_up + steps, hooks=[clock, *hooks])
    return steps * BATCH / clock.seconds
