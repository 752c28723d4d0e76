"""A wide & deep model whose step takes as long as it is told, for `scaling.py`.

The wait stands for the arithmetic of a larger model on a machine of its own: it takes time and no
core, so that what several tasks cost each other on one machine is the coordination alone. Each task
writes a line a step, the time and the bytes that the loopback interface has carried, into a file
of its own in the folder that SCALING_DIR names.
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
        file.write(f"{time.time()} {_loopback_bytes()}\n")
    return 0


def _loopback_bytes() -> int:
    with open("/proc/net/dev") as file:
        (line,) = [line for line in file if line.strip().startswith("lo:")]
    return int(line.partition(":")[2].split()[0])
