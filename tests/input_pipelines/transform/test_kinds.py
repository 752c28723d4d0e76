"""Parts of the transforms of column kinds give what TensorFlow's own functions give."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

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
