"""The one place where the kit reaches for `tf.estimator`; everything else imports it here.

After TensorFlow 2.15 it exists only because `estimator_kit.compat` puts it back.
"""

from typing import Any

import estimator_kit.compat  # noqa: F401  # isort: skip  # best before TensorFlow
import tensorflow as tf

estimator: Any = tf.estimator
ModeKeys = estimator.ModeKeys
