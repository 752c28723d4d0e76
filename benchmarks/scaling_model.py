"""A wide & deep model with a chosen step time, for `scaling.py`.

A wait stands for the arithmetic of a larger model on its own machine: it takes time but no core, so
the tasks on one machine only cost each other their coordination. In the folder SCALING_DIR, each
task has a file, and writes a line for each step: the time, and the bytes that the loopback
interface has carried.
"""

from __future__ import annotations

import os
import time

import tensorflow as tf

from estimator_kit.models import WideDeepModel


class WaitingModel(WideDeepModel):
    """`WideDeepModel` with a pause of SCALING_STEP_MS milliseconds in each training step."""

    def logits(self, features, mode):
        found = super().logits(features, mode)
        if mode != tf.estimator.ModeKeys.TRAIN:
            return found
        waited = tf.compat.v1.py_func(_wait, [], tf.int64, stateful=True)
        with tf.control_dependencies([waited]):
            return tf.nest.map_structure(tf.identity, found)


def _wait() -> int:
    time.sleep(float(os.environ["SCALING_STEP_MS"]) / 1000)
    path = os.path.join(os.environ["SCALING_DIR"], f"{os.getpid()}.txt")
    with open(path, "a") as file:
        file.write(f"{time.monotonic()} {_loopback_bytes()}\n")
    return 0


def _loopback_bytes() -> int:
    with open("/proc/net/dev") as file:
        (line,) = [line for line in file if line.strip().startswith("lo:")]
    return int(line.partition(":")[2].split()[0])
