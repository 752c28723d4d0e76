"""`--deterministic`: a training that gives the same checkpoint, bit for bit, each time.

The order of rows is a function of (seed, epoch) anyway, and initial variables of the seed. What
differs from run to run is the order in which threads add numbers up; TensorFlow's op determinism
fixes it, for the whole process and for good. Python's and NumPy's generators are seeded, too, for
models that draw from them.
"""

from __future__ import annotations

import random

import numpy as np
import tensorflow as tf


def enable(seed: int) -> None:
    """Makes everything that this process computes from here on reproducible."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    tf.random.set_seed(seed)
    tf.config.experimental.enable_op_determinism()
