"""tf.contrib.layers: the layers, regularizers, initializers and `optimize_loss` of tf_slim.

tf_slim continues the code of tf.contrib.layers: the variable names and the results are the same.
What it lacks is in _embeddings.py. The feature columns of tf.contrib.layers are not here: their
error says which tf.feature_column to write.
"""

from __future__ import annotations

from typing import Any

from . import _embeddings, _slim
from ._columns import REMEDIES as REMEDIES

_SLIM = _slim.load("tf_slim.layers")

_OF_SLIM = """
GDN OPTIMIZER_CLS_NAMES OPTIMIZER_SUMMARIES RevBlock apply_regularization avg_pool2d avg_pool3d
batch_norm bias_add conv1d conv2d conv2d_in_plane conv2d_transpose conv3d conv3d_transpose
convolution convolution1d convolution2d convolution2d_in_plane convolution2d_transpose
convolution3d convolution3d_transpose dense_to_sparse dropout elu flatten fully_connected gdn
group_norm images_to_sequence instance_norm l1_l2_regularizer l1_regularizer l2_regularizer
layer_norm legacy_fully_connected legacy_linear legacy_relu linear max_pool2d max_pool3d maxout
one_hot_encoding optimize_loss recompute_grad relu relu6 repeat rev_block scale_gradient
separable_conv2d separable_convolution2d sequence_to_images softmax spatial_softmax stack
sum_regularizer summaries summarize_activation summarize_activations summarize_collection
summarize_tensor summarize_tensors unit_norm variance_scaling_initializer xavier_initializer
xavier_initializer_conv2d
""".split()

__all__ = [*_embeddings.__all__, *_OF_SLIM]

OLD_PATHS = {
    "python.layers": None,
    "python.layers.embedding_ops": None,
    "python.layers.encoders": None,
    "python.layers.feature_column": None,
    "python.layers.feature_column_ops": None,
    "python.layers.initializers": "tf_slim.layers.initializers",
    "python.layers.layers": "tf_slim.layers.layers",
    "python.layers.normalization": "tf_slim.layers.normalization",
    "python.layers.optimizers": "tf_slim.layers.optimizers",
    "python.layers.regularizers": "tf_slim.layers.regularizers",
    "python.layers.rev_block_lib": "tf_slim.layers.rev_block_lib",
    "python.layers.summaries": "tf_slim.layers.summaries",
    "python.layers.utils": "tf_slim.layers.utils",
    "python.ops.sparse_feature_cross_op": None,
}


def __getattr__(name: str) -> Any:
    if name in REMEDIES or name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(_embeddings if name in _embeddings.__all__ else _SLIM, name)
