"""Makes the unmodified tensorflow-estimator 2.15.0 work on TensorFlow 2.16 to 2.21.

TensorFlow 2.15 is the last that brings `tf.estimator`. Importing this package gives it back:

    import estimator_kit.compat  # before or after TensorFlow, but before tf.keras is used
    import tensorflow as tf

    tf.estimator.Estimator(...)

On TensorFlow 2.15 it changes nothing. On later versions it puts in place what tensorflow-estimator
misses there, and nothing else:

- legacy_keras.py: `tf.keras` is Keras 2, from the package `tf_keras`;
- export_names.py: the API name "estimator" of TensorFlow's export decorator;
- estimator_training.py: the removed glue between Estimator and distribution strategies;
- tpu.py: stand-ins for TPUEstimator, which is given up;
- namespaces.py: `tf.estimator`, `tf.compat.v1.estimator`, `tf.compat.v2.estimator`;
- estimator_paths.py: `tensorflow.python.estimator`, from which old libraries import;
- pandas_strings.py: the string columns of pandas 3 in `pandas_input_fn`;
- removed_names.py: what to use in the place of `tf.contrib` and `BoostedTrees*`.

All private names that this stands on are in private_names.py. They are checked first: a process
has a whole `tf.estimator`, or one `UnsupportedTensorFlowError` and an unchanged TensorFlow.
`python -m estimator_kit.tensorflow_report` says what a TensorFlow lacks.

It never modifies a file, an installed package, or a function of TensorFlow.
"""

from __future__ import annotations

from estimator_kit.compat.installer import install
from estimator_kit.compat.versions import SUPPORTED
from estimator_kit.errors import UnsupportedTensorFlowError

__all__ = ["SUPPORTED", "UnsupportedTensorFlowError", "install"]

install()
