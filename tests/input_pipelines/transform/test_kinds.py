"""Parts of the transforms of column kinds give what TensorFlow's own functions give."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from feature_specs.kinds.normalizers import Log1p
from feature_specs.reference import ops
from input_pipelines.transform import kinds


@pytest.mark.parametrize(
    "lengths", [[], [0], [0, 0], [2], [0, 2, 0, 0, 1, 0], [3, 0, 0], [1, 2, 3]], ids=str
)
def test_a_cross_of_lists_becomes_ragged_as_by_tensorflow(lengths):
    places = [[row, i] for row, length in enumerate(lengths) for i in range(length)]
    sparse = tf.SparseTensor(
        np.array(places, np.int64).reshape([-1, 2]),
        tf.range(sum(lengths), dtype=tf.int64) + 7,
        [len(lengths), max(lengths, default=0)],
    )
    found, expected = kinds._to_ragged(sparse), tf.RaggedTensor.from_sparse(sparse)
    assert found.to_list() == expected.to_list() and found.dtype == expected.dtype
    assert found.row_splits.dtype == expected.row_splits.dtype
    assert found.row_splits.numpy().tolist() == expected.row_splits.numpy().tolist()


@pytest.mark.parametrize("width", [None, 1, 3])
def test_log1p_of_a_number_does_not_depend_on_other_numbers(width):
    """The cache transforms blocks, training without it batches, a server requests."""
    shape = (100,) if width is None else (100, width)
    values = np.exp(np.random.default_rng(0).uniform(-10, 20, shape)).astype(np.float32)
    normalize = ops.normalizer_fn((Log1p(log1p=True),))
    together = normalize(tf.constant(values)).numpy()
    np.testing.assert_allclose(together, np.log1p(values.astype(np.float64)), rtol=1e-6)
    for rows in (0, 1, 7, 8, 17, 50):
        for first in (0, 1, 5):
            part = slice(first, first + rows)
            np.testing.assert_array_equal(normalize(tf.constant(values[part])), together[part])
