"""Makes the unmodified tensorflow-estimator 2.15.0 work on TensorFlow 2.16 to 2.21.

TensorFlow 2.15 is the last version with `tf.estimator`. Importing this package restores it:

    import estimator_kit.compat  # before or after TensorFlow, but before tf.keras is used
    import tensorflow as tf

    tf.estimator.Estimator(...)

On TensorFlow 2.15 it changes nothing. On later versions it adds what tensorflow-estimator needs and
TensorFlow has removed, and nothing else:

- legacy_keras.py: `tf.keras` is Keras 2, from the package `tf_keras`;
- estimator_training.py: the removed glue between Estimator and distribution strategies;
- restored_names.py: `tf.estimator`, `tf.compat.v1.estimator`, `tf.compat.v2.estimator`, the path
  `tensorflow.python.estimator`, and what to use instead of `tf.contrib` and `BoostedTrees*`;
- estimator_patches.py: stand-ins for TPUEstimator, which is not supported, and string columns of
  pandas 3 in `pandas_input_fn`.

private_names.py lists all private names of TensorFlow that this package needs. They are checked
first: a process gets either a complete `tf.estimator`, or one `UnsupportedTensorFlowError` and an
unchanged TensorFlow. `python -m estimator_kit.tensorflow_report` lists what a TensorFlow lacks.

It never modifies a file, an installed package, or a function of TensorFlow.
"""

from __future__ import annotations

from estimator_kit.compat.installer import install
from estimator_kit.compat.versions import SUPPORTED
from estimator_kit.errors import UnsupportedTensorFlowError

__all__ = ["SUPPORTED", "UnsupportedTensorFlowError", "install"]

install()
