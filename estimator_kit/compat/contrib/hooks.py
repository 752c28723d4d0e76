"""tf.contrib.hooks: ProfilerHook."""

from __future__ import annotations

import tensorflow.compat.v1 as tf

__all__ = ["ProfilerHook"]

OLD_PATHS = ("python.training.profiler_hook",)

ProfilerHook = tf.train.ProfilerHook
