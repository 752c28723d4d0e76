"""`--deterministic`: a training that gives the same checkpoint, bit for bit, each time.

The order of rows always depends only on (seed, epoch), and the initial values of variables depend
only on the seed. But threads add numbers in an order that differs from run to run. TensorFlow's op
determinism fixes that order, for the whole process and until it ends. Python's and NumPy's random
generators are seeded too, because a model may use them.
"""

from __future__ import annotations

import random

import numpy as np
import tensorflow as tf


def enable(seed: int) -> None:
    """Makes all later computations of this process reproducible."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    tf.random.set_seed(seed)
    tf.config.experimental.enable_op_determinism()
