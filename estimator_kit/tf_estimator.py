"""The only module of the kit that uses `tf.estimator`; all other modules import it from here.

After TensorFlow 2.15 `tf.estimator` exists only because `estimator_kit.compat` restores it.
"""

import sys
from typing import Any

import estimator_kit.compat  # noqa: F401  # isort: skip  # best before TensorFlow
import tensorflow as tf

estimator: Any = tf.estimator
ModeKeys = estimator.ModeKeys
# The module of `Estimator`, for `training.evaluation_graph`.
estimator_module: Any = sys.modules[estimator.Estimator.__module__]
