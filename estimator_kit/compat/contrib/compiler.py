"""tf.contrib.compiler: compilation by XLA, from `tf.xla.experimental`."""

from __future__ import annotations

import tensorflow.compat.v1 as tf

__all__ = ["compile", "experimental_jit_scope"]

OLD_PATHS = ("jit", "xla")

compile = tf.xla.experimental.compile
experimental_jit_scope = tf.xla.experimental.jit_scope
