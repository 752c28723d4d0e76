"""Makes the unmodified tensorflow-estimator 2.15.0 work on TensorFlow 2.16 to 2.21.

TensorFlow 2.15 is the last version with `tf.estimator`. Importing this package restores it:

    import estimator_kit.compat  # before or after TensorFlow, but before tf.keras is used
    import tensorflow as tf

    tf.estimator.Estimator(...)

On TensorFlow 2.15 it changes nothing. On later versions it adds what tensorflow-estimator needs and
TensorFlow has removed, and nothing else:

- legacy_keras.py: `tf.keras` is Keras 2, from the package `tf_keras`;
- estimator_training.py: the removed glue between Estimator and distribution strategies;
- restored_names.py: `tf.estimator`, `tf.compat.v1.estimator`, `tf.compat.v2.estimator`, and the
  path `tensorflow.python.estimator`; private_paths.py: private names that have moved;
- removed_names.py: errors that say what to use instead of names of TensorFlow 1;
- tpu: TPUEstimator on CPUs and GPUs;
- estimator_patches.py: string columns of pandas 3 in `pandas_input_fn`.

Programs for TensorFlow 1 need more: `import estimator_kit.compat.tf1` (tf1.py) also brings back the
names of TensorFlow 1 and `tf.contrib`. `python -m estimator_kit.compat [--tf1] PROGRAM.py` runs a
program with one of the two, unchanged.

private_names.py lists all private names of TensorFlow that this package needs. They are checked
first: a process gets either a complete `tf.estimator`, or one `UnsupportedTensorFlowError` and an
unchanged TensorFlow.

It never modifies a file, or replaces a name of TensorFlow. It wraps a few functions of
tensorflow-estimator in memory (estimator_patches.py, tpu).
"""

from __future__ import annotations

from .errors import UnsupportedTensorFlowError
from .installer import install
from .versions import SUPPORTED

__all__ = ["SUPPORTED", "UnsupportedTensorFlowError", "install"]

install()
